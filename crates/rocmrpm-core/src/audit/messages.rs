//! Blanks out text that a script only prints: the arguments of `echo`, of a function such as
//! `log_error`, or of CMake's `message()`. Line numbers stay the same. It does not find downloads.

use super::quotes::Quotes;
use super::table::Language;

/// Programs that run what they read, as in `echo "curl x" | sh`.
const RUN_INPUT: &[&str] = &["sh", "bash", "zsh", "xargs", "parallel", "eval"];

/// Words that may stand before a command. Source: POSIX, "Shell Command Language".
const BEFORE_COMMAND: &[&str] =
    &["if", "then", "elif", "else", "while", "until", "do", "!", "time", "exec", "builtin"];

/// Returns the lines of a script without text that it only prints.
pub(super) fn without_messages(language: &Language, code: Vec<String>) -> Vec<String> {
    match language.name.as_str() {
        "shell" => {
            let mut shell = Shell { language, open: None };
            code.iter().map(|line| shell.line(line)).collect()
        }
        "cmake" => cmake(language, &code),
        "python" => python(language, &code),
        _ => code,
    }
}

/// Blanks out the lines of strings in a call that prints, below its first line. `find` skips that line
/// itself.
fn python(language: &Language, code: &[String]) -> Vec<String> {
    let mut open = 0_usize;
    let without = |line: &String| {
        let text = line.trim_start().trim_start_matches(['b', 'f', 'r']);
        let outside = outside_strings(line);
        // A string may precede a call that downloads something.
        let is_text = open == 1 && text.starts_with(['"', '\'']) && !outside.contains('(');
        let calls = || language.messages.iter().filter_map(|call| outside.find(call.as_str()));
        let start = if open > 0 { Some(0) } else { calls().min() };
        for c in start.map_or("", |start| &outside[start..]).chars() {
            match c {
                '(' | '[' | '{' => open += 1,
                ')' | ']' | '}' => open = open.saturating_sub(1),
                _ => {}
            }
        }
        if is_text { String::new() } else { line.clone() }
    };
    code.iter().map(without).collect()
}

/// Returns a line of Python with blanks in place of the text in strings.
fn outside_strings(line: &str) -> String {
    let mut quotes = Quotes::default();
    line.chars().map(|c| if quotes.takes(c) { ' ' } else { c }).collect()
}

/// How a command uses its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Printing {
    /// It does something else with them.
    No,
    /// It prints those in quotes. Without quotes they can be a command, as in `log_run curl -O x`.
    Quoted,
    /// It prints all of them.
    All,
}

impl Printing {
    /// Returns whether it prints a text in quotes, which may end on a later line.
    fn is_text(self, text: &str, ended: bool) -> bool {
        match self {
            Self::No => false,
            // One quoted word can be a program.
            Self::Quoted => !ended || text.contains(char::is_whitespace),
            Self::All => true,
        }
    }
}

fn printing(language: &Language, program: &str) -> Printing {
    let name = program.trim_start_matches(['@', '-', '+']);
    let name = name.rsplit('/').next().unwrap_or(name);
    if language.prints.iter().any(|print| print == name) {
        return Printing::All;
    }
    let mut parts = name.split(['_', '-', ':', '.']);
    let is_message =
        |part: &str| language.message_words.iter().any(|w| w.eq_ignore_ascii_case(part));
    if parts.any(is_message) { Printing::Quoted } else { Printing::No }
}

/// Printed text that continues on the next line.
enum Open {
    /// Until this quote, in the arguments of a command that prints.
    Quote(char, Printing),
    /// Until a line that consists of this word.
    HereDocument(String),
}

struct Shell<'l> {
    language: &'l Language,
    open: Option<Open>,
}

impl Shell<'_> {
    fn line(&mut self, line: &str) -> String {
        let (mut rest, mut print) = (line, Printing::No);
        // The program of the command, until its end is found.
        let mut program = Some(String::new());
        match self.open.take() {
            Some(Open::HereDocument(end)) => {
                if line.trim() != end {
                    self.open = Some(Open::HereDocument(end));
                }
                return String::new();
            }
            Some(Open::Quote(quote, printing)) => {
                let Some(end) = closing(line, quote) else {
                    self.open = Some(Open::Quote(quote, printing));
                    return substitutions(line, quote);
                };
                (rest, print, program) = (&line[end + 1..], printing, None);
            }
            None if is_piped_to_shell(line) => return line.to_owned(),
            None => {}
        }
        let mut kept = String::new();
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            match c {
                '"' | '\'' => {
                    let end = closing(after, c);
                    let text = &after[..end.unwrap_or(after.len())];
                    let is_text = print.is_text(text, end.is_some());
                    kept.push(c);
                    kept.push_str(&if is_text { substitutions(text, c) } else { text.to_owned() });
                    let Some(end) = end else {
                        self.open = is_text.then_some(Open::Quote(c, print));
                        return kept;
                    };
                    kept.push(c);
                    rest = &after[end + 1..];
                    continue;
                }
                ';' | '|' | '&' | '(' | '{' | '}' | ')' => {
                    (program, print) = (Some(String::new()), Printing::No);
                    kept.push(c);
                }
                '$' if after.starts_with('(') => {
                    let end = substitution(rest);
                    kept.push_str(&rest[..end]);
                    if let Some(program) = &mut program {
                        program.push('$');
                    }
                    rest = &rest[end..];
                    continue;
                }
                c if c.is_whitespace() => {
                    if let Some(word) = program.take_if(|word| !word.is_empty()) {
                        if is_before_command(&word) {
                            program = Some(String::new());
                        } else {
                            print = printing(self.language, &word);
                            self.open = here_document(&word, print, after);
                        }
                    }
                    kept.push(c);
                }
                c => {
                    if let Some(program) = &mut program {
                        program.push(c);
                    }
                    if print != Printing::All {
                        kept.push(c);
                    }
                }
            }
            rest = after;
        }
        kept
    }
}

/// Returns whether the command comes after this word: an assignment or a keyword.
fn is_before_command(word: &str) -> bool {
    let assigns = word.split_once('=').is_some_and(|(name, _)| !name.is_empty());
    assigns || BEFORE_COMMAND.contains(&word)
}

/// Returns the here-document that a command prints to the terminal; one that goes to a file can be
/// a script.
fn here_document(program: &str, print: Printing, rest: &str) -> Option<Open> {
    if program.trim_start_matches('@') != "cat" && print == Printing::No {
        return None;
    }
    let (before, after) = rest.split_once("<<")?;
    let word = after.trim_start_matches('-').trim_start();
    let (word, behind) = word.split_once(char::is_whitespace).unwrap_or((word, ""));
    let to_terminal =
        [before, behind].iter().all(|part| !part.replace(">&2", "").contains(['>', '|']));
    let end = word.trim_matches(['"', '\'', '\\']);
    (to_terminal && !end.is_empty()).then(|| Open::HereDocument(end.to_owned()))
}

/// Returns where a quote is closed.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            c if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns the commands in a printed text: the shell runs `$(...)` between double quotes.
fn substitutions(text: &str, quote: char) -> String {
    let (mut found, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("$(").filter(|_| quote == '"') {
        let end = at + substitution(&rest[at..]);
        found.push_str(&rest[at..end]);
        rest = &rest[end..];
    }
    found
}

/// Returns the end of the `$(...)` that a text starts with.
fn substitution(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

fn is_piped_to_shell(line: &str) -> bool {
    let programs = line.split('|').skip(1).filter_map(|part| part.split_whitespace().next());
    programs.into_iter().any(|program| RUN_INPUT.contains(&program))
}

/// Blanks out the arguments of calls such as `message()`, and what `cmake -E echo` prints.
fn cmake(language: &Language, code: &[String]) -> Vec<String> {
    // Whether a call that prints is open: the number of its open parentheses.
    let (mut depth, mut quoted) = (0_usize, false);
    code.iter()
        .map(|line| {
            let (mut kept, mut word, mut escaped) = (String::new(), String::new(), false);
            let echo = line.find(" echo ").map(|at| at + " echo ".len());
            for (at, c) in line.char_indices() {
                if depth == 0 {
                    if c == '(' && printing(language, word.trim()) != Printing::No {
                        (depth, quoted) = (1, false);
                    }
                    match c {
                        c if c.is_alphanumeric() || c == '_' => {
                            if word.ends_with(' ') {
                                word.clear();
                            }
                            word.push(c);
                        }
                        ' ' => word.push(' '),
                        _ => word.clear(),
                    }
                    let printed = echo.is_some_and(|echo| at >= echo) && c != ')';
                    if !printed {
                        kept.push(c);
                    }
                    continue;
                }
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '"' => quoted = !quoted,
                    '(' if !quoted => depth += 1,
                    ')' if !quoted => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    kept.push(c);
                }
            }
            kept
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::table::TABLE;
    use super::*;

    fn kept(file: &str, text: &str) -> Vec<String> {
        let language = TABLE.language(file).unwrap();
        without_messages(language, text.lines().map(str::to_owned).collect())
    }

    /// Returns the numbers of the lines that still contain `fetch`.
    fn fetching(file: &str, text: &str) -> Vec<usize> {
        let kept = kept(file, text);
        kept.iter().zip(1..).filter(|(line, _)| line.contains("fetch")).map(|(_, at)| at).collect()
    }

    #[test]
    fn drops_what_shell_scripts_print() {
        let text = "echo run fetch\nruntime_info \"use pip fetch .\"\nlog_error 'a\nfetch\n' && fetch x\n\
                    echo \"$(fetch x)\"\necho fetch; fetch y\nlog_run fetch z\ncat <<EOF\nfetch\nEOF\n\
                    cat > x.sh <<'EOF'\nfetch\nEOF\necho 'fetch' | bash\nA=1 printf '%s' fetch\n\
                    if x; then die \"fetch it\"; fi\nbash -c \"fetch x\"\n\t@echo fetch\n\tlog_run \"fetch\" x\n";
        assert_eq!(fetching("a.sh", text), [5, 6, 7, 8, 13, 15, 18, 20]);
    }

    #[test]
    fn drops_what_cmake_prints() {
        let text = "message(FATAL_ERROR\n  \"no (x: fetch\"\n  fetch) fetch(x)\nif(NOT x) message(fetch) endif()\n\
                    print_error(\"fetch\")\nexecute_process(COMMAND fetch x)\nadd_custom_target(t COMMAND echo \"fetch\")\n\
                    fetch(message)\n";
        assert_eq!(fetching("CMakeLists.txt", text), [3, 6, 8]);
        assert_eq!(kept("CMakeLists.txt", text)[2], ") fetch(x)");
    }
}
