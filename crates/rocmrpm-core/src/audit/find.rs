//! Finds download points in the text of one file. It does not choose the files, and does not
//! decide what satisfies a point.

use memchr::memmem;

use super::messages::without_messages;
use super::quotes::Quotes;
use super::table::{Language, Pattern, TABLE};

/// A place in a build script that downloads something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDownload {
    /// The kind: an `id` in `points.toml`.
    pub kind: &'static str,
    /// The line, counted from 1.
    pub line: usize,
    /// The text of the line, or the whole call joined into one line.
    pub text: String,
    /// The name that a call declares.
    pub name: Option<String>,
    /// What it downloads, if the text states it.
    pub fetches: Option<String>,
}

/// The maximum length of a call's arguments, in bytes.
const LONGEST_CALL: usize = 8000;

/// The maximum number of characters kept of a line.
const SHOWN: usize = 200;

/// Finds the download points of a file.
pub fn points(file_name: &str, text: &str) -> Vec<FoundDownload> {
    let language = TABLE.language(file_name);
    // Most files match few patterns: search the whole text once before going line by line.
    let lower = text.to_ascii_lowercase();
    let in_text = |part: &String| memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    let in_lower = |call: &String| {
        memmem::find(lower.as_bytes(), call.to_ascii_lowercase().as_bytes()).is_some()
    };
    let may_be_there = |pattern: &&'static Pattern| {
        !pattern.items.is_empty()
            || pattern.texts.iter().chain(&pattern.words).any(in_text)
            || pattern.calls.iter().any(in_lower)
    };
    let patterns: Vec<&'static Pattern> = TABLE.patterns(file_name).filter(may_be_there).collect();
    if patterns.is_empty() {
        return Vec::new();
    }
    let code = language
        .map(|language| without_messages(language, code(language, text)))
        .unwrap_or_default();
    let mut found = Vec::new();
    for pattern in patterns {
        if !pattern.items.is_empty() {
            found.extend(listed(pattern, text));
        }
        if !pattern.calls.is_empty() {
            found.extend(calls(pattern, &code));
        }
        let Some(language) = language else { continue };
        for (at, line) in code.iter().enumerate() {
            let has = pattern.texts.iter().any(|text| has_text(line, text))
                || pattern.words.iter().any(|word| has_command(line, word));
            let any = |texts: &[String]| texts.iter().any(|text| line.contains(text.as_str()));
            let with = pattern.only_with.is_empty() || any(&pattern.only_with);
            if has && with && !any(&pattern.unless) && !any(&language.messages) {
                found.push(point(pattern, at, line));
            }
        }
    }
    found.sort_by_key(|point| point.line);
    found
}

fn point(pattern: &'static Pattern, at: usize, line: &str) -> FoundDownload {
    let text: String = line.trim().chars().take(SHOWN).collect();
    FoundDownload { kind: &pattern.id, line: at + 1, text, name: None, fetches: url(line) }
}

/// Returns the first URL of a line.
fn url(line: &str) -> Option<String> {
    let start = ["https://", "http://", "git@", "ftp://"]
        .iter()
        .filter_map(|scheme| line.find(scheme))
        .min()?;
    let end = line[start..]
        .find([' ', '"', '\'', ')', ',', ';', '<', '>'])
        .map_or(line.len(), |end| start + end);
    Some(line[start..end].to_owned())
}

/// Removes comments and, in Python, docstrings. Line numbers stay the same.
pub(super) fn code(language: &Language, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    // The delimiter that closes the comment or string that is open at the start of the line.
    let mut until: Option<String> = None;
    for line in text.lines() {
        let mut rest = line;
        let mut kept = String::new();
        if let Some(end) = &until {
            let Some((_, after)) = rest.split_once(end.as_str()) else {
                out.push(String::new());
                continue;
            };
            rest = after;
            until = None;
        }
        if language.name == "python" {
            while let Some((at, quote)) =
                ["\"\"\"", "'''"].iter().filter_map(|q| Some((rest.find(q)?, *q))).min()
            {
                if comment_at(&rest[..at], &language.comment).is_some() {
                    break;
                }
                kept.push_str(&rest[..at]);
                let inner = &rest[at + 3..];
                match inner.find(quote) {
                    Some(end) => rest = &inner[end + 3..],
                    None => {
                        until = Some(quote.to_owned());
                        rest = "";
                    }
                }
            }
        } else if language.name == "cmake"
            && let Some((before, inner)) = rest.split_once("#[[")
        {
            kept.push_str(before);
            rest = inner.split_once("]]").map_or("", |(_, after)| after);
            until = (!inner.contains("]]")).then(|| "]]".to_owned());
        }
        kept.push_str(rest);
        let end = comment_at(&kept, &language.comment).unwrap_or(kept.len());
        kept.truncate(end);
        out.push(kept);
    }
    out
}

/// Finds a comment that starts the line or follows whitespace, outside of strings.
fn comment_at(line: &str, comment: &str) -> Option<usize> {
    let mut quotes = Quotes::default();
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if !quotes.takes(c) && line[at..].starts_with(comment) && before.is_whitespace() {
            return Some(at);
        }
        before = c;
    }
    None
}

/// Returns whether a line contains a text that does not start in the middle of a word.
fn has_text(line: &str, text: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(text).any(|(at, _)| !text.starts_with(word) || !line[..at].ends_with(word))
}

/// Returns whether a line of a script runs make.
pub(super) fn runs_make(line: &str) -> bool {
    ["make", "gmake", "make_build", "make_install"].iter().any(|name| {
        line.match_indices(name).any(|(at, _)| {
            let before = line[..at].trim_end_matches(['%', '{', '@', '?']);
            let after = line[at + name.len()..].chars().next().unwrap_or(' ');
            // At the start of a command, or a word of a list in Python or CMake.
            let starts = before.trim_end().is_empty()
                || before.ends_with(['"', '\'', ';', '&', '|', '('])
                || ["COMMAND ", "&& ", "|| ", "; ", "then ", "do "]
                    .iter()
                    .any(|w| before.ends_with(w));
            starts && (after.is_whitespace() || "\"'};&|),".contains(after))
        })
    }) || line.contains("$(MAKE)")
}

/// Returns whether a line runs a command: the word stands by itself and arguments follow.
fn has_command(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().unwrap_or(' ');
        let rest = &line[at + word.len()..];
        let stands = |c: char| !c.is_alphanumeric() && !"_-./$={".contains(c);
        let after = rest.chars().next().unwrap_or('x');
        let followed = after.is_whitespace()
            && rest.trim_start().starts_with(['-', 'h', '$', '"', '\'', '{', '@', '<'])
            || matches!(after, '"' | '\'') && rest[1..].trim_start().starts_with([',', ']']);
        stands(before) && followed
    })
}

/// Finds calls of CMake commands that fetch something.
fn calls(pattern: &'static Pattern, code: &[String]) -> Vec<FoundDownload> {
    let mut found = Vec::new();
    for (at, line) in code.iter().enumerate() {
        let lower = line.to_ascii_lowercase();
        for call in &pattern.calls {
            let Some(start) = lower.find(&call.to_ascii_lowercase()) else { continue };
            let stands =
                lower[..start].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
            if !stands || !lower[start + call.len()..].trim_start().starts_with('(') {
                continue;
            }
            let arguments = arguments(&code[at..], start + call.len());
            let words: Vec<&str> =
                arguments.split_whitespace().map(|word| word.trim_matches('"')).collect();
            let any = |keys: &[String]| words.iter().any(|word| keys.iter().any(|key| key == word));
            let hidden = pattern.arguments_in_a_variable
                && words.get(1).is_some_and(|word| word.starts_with("${"));
            let fits = pattern.needs.is_empty() || hidden || any(&pattern.needs);
            if !fits || any(&pattern.unless) {
                continue;
            }
            let key = words.iter().position(|word| pattern.fetches.iter().any(|key| key == word));
            let fetches = key.and_then(|key| words.get(key + 1)).map(|value| (*value).to_owned());
            let names: Vec<&str> = if pattern.declared_by.is_some() {
                words.clone()
            } else {
                words.first().copied().into_iter().collect()
            };
            let text: String = format!("{call}({})", words.join(" ")).chars().take(SHOWN).collect();
            if names.is_empty() {
                found.push(FoundDownload {
                    kind: &pattern.id,
                    line: at + 1,
                    text,
                    name: None,
                    fetches,
                });
                continue;
            }
            for name in names {
                let (text, name) = (text.clone(), Some(name.to_owned()));
                found.push(FoundDownload {
                    kind: &pattern.id,
                    line: at + 1,
                    text,
                    name,
                    fetches: fetches.clone(),
                });
            }
        }
    }
    found
}

/// Returns the text between the parentheses of a call.
fn arguments(code: &[String], start: usize) -> String {
    let (mut out, mut depth) = (String::new(), 0_usize);
    for (at, line) in code.iter().enumerate() {
        let line = if at == 0 { &line[start..] } else { line.as_str() };
        for c in line.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && c == ')' || out.len() > LONGEST_CALL {
                return out;
            }
            if depth > 1 || c != '(' {
                out.push(c);
            }
        }
        out.push(' ');
    }
    out
}

/// Counts the items that a file lists and returns one point for all of them.
fn listed(pattern: &'static Pattern, text: &str) -> Option<FoundDownload> {
    let is =
        |line: &str| pattern.items.iter().any(|item| line.trim_start().starts_with(item.as_str()));
    let first = text.lines().position(is)?;
    let count = text.lines().filter(|line| is(line)).count();
    let text = format!("{count} of `{}`", pattern.items[0].trim_end());
    Some(FoundDownload { kind: &pattern.id, line: first + 1, text, name: None, fetches: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(file: &str, text: &str) -> Vec<(usize, &'static str)> {
        points(file, text).into_iter().map(|point| (point.line, point.kind)).collect()
    }

    #[test]
    fn reads_cmake_calls_over_lines() {
        let text = "# FetchContent_Declare(no GIT_REPOSITORY x)\n#[[ FetchContent_Declare(no URL x)\n]]\n\
            FetchContent_Declare(\n  cutlass # the name\n  GIT_REPOSITORY https://github.com/x/y.git\n  GIT_TAG v1)\n\
            fetchcontent_declare(local SOURCE_DIR ${DIR})\nFetchContent_MakeAvailable(cutlass other)\n\
            ExternalProject_Add_Step(a b COMMAND x)\nExternalProject_Add(ep URL \"https://x/y.tar\")\n\
            file(DOWNLOAD https://x/z f)\nFetchContent_Populate(arm SOURCE_DIR d URL https://x/a)\nmessage(STATUS \"git clone it\")\n\
            FetchContent_Declare(hidden ${ARGS})\nfile(READ ${x} y)\n";
        let found = points("CMakeLists.txt", text);
        let shown: Vec<_> = found
            .iter()
            .map(|p| (p.line, p.kind, p.name.as_deref(), p.fetches.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                (4, "fetch-content", Some("cutlass"), Some("https://github.com/x/y.git")),
                (9, "fetch-content-use", Some("cutlass"), None),
                (9, "fetch-content-use", Some("other"), None),
                (11, "external-project", Some("ep"), Some("https://x/y.tar")),
                (12, "cmake-download", Some("DOWNLOAD"), Some("https://x/z")),
                (13, "fetch-content-direct", Some("arm"), Some("https://x/a")),
                (15, "fetch-content", Some("hidden"), None),
            ]
        );
    }

    #[test]
    fn ignores_python_messages() {
        let text = "\"\"\"pip install this\nand git clone that\"\"\"\nx = 1  # pip install\n\
            raise RuntimeError('pip install torch')\nsubprocess.run(['git', 'clone', url])\n\
            with urllib.request.urlopen(url) as f:\nsubprocess.check_call([\"curl\", url])\ncurl = 1\n\
            s = \"# no comment\"; urlretrieve(u)\nparent_requests.get(x)\n'see `pip install y`'\n\
            os.system('pip install z')\n";
        let expected =
            [(5, "git"), (6, "python-download"), (7, "curl"), (9, "python-download"), (12, "pip")];
        assert_eq!(kinds("setup.py", text), expected);
        // A message over several lines, a program that it runs, and a call after it.
        let text = "raise RuntimeError(\n    f\"Missing: {d} (see \\\"x\\\"). \"\n    'Run git submodule update --init'\n)\n\
            print(\n    subprocess.check_output(\n        'git clone x'),\n    'git clone y')\n\
            warn('(')\n'git clone z'\n";
        assert_eq!(kinds("setup.py", text), [(7, "git"), (10, "git")]);
        let text = "print(\n    'see', subprocess.run('git clone x'),\n    'git clone y')\n";
        assert_eq!(kinds("setup.py", text), [(2, "git")]);
    }

    #[test]
    fn distinguishes_shell_commands_from_words() {
        let text = "curl -L x\nlibcurl -x\ncommand -v curl -x\nwget https://x\n$(MAKE) curl\necho curl -x\n";
        assert_eq!(kinds("a.sh", text), [(1, "curl"), (4, "curl")]);
        assert_eq!(kinds("python-x.spec", "python3 -m pip install x\n"), [(1, "pip")]);
    }

    #[test]
    fn recognizes_calls_of_make() {
        let runs = [
            "make",
            "%make_build -j2",
            "%{make_install}",
            "cd x && make install",
            "subprocess.check_call(['make', '-C', d])",
            "os.system(\"make all\")",
            "add_custom_command(COMMAND make x)",
            "\t$(MAKE) -C sub",
        ];
        assert_eq!(runs.map(runs_make), [true; 8]);
        let not = [
            "cmake -S .",
            "BuildRequires: make",
            "# x make sure",
            "automake --add",
            "x = make_unique(y)",
        ];
        assert_eq!(not.map(runs_make), [false; 5]);
    }

    #[test]
    fn reports_one_point_per_list() {
        let lock = "[[package]]\nname = \"a\"\nsource = \"registry+https://x\"\n[[package]]\nsource = \"git+https://y\"\n";
        let found = points("Cargo.lock", lock);
        assert_eq!((found.len(), found[0].line, found[0].kind), (1, 3, "cargo"));
        assert!(found[0].text.starts_with("2 of"));
        assert_eq!(
            kinds("pyproject.toml", "requires = [\"x @ git+https://y\"]\n"),
            [(1, "requirement-url")]
        );
        assert_eq!(kinds("Cargo.lock", "[[package]]\nname = \"own\"\n"), []);
    }

    #[test]
    fn never_panics() {
        let texts = [
            "FetchContent_Declare(",
            "file(((((",
            "'''",
            "#[[",
            "\"",
            "curl\"",
            "ü curl \u{301}'",
            "\\",
        ];
        for text in texts {
            for file in ["CMakeLists.txt", "setup.py", "a.sh", "Cargo.lock", "build.rs"] {
                points(file, text);
            }
        }
    }
}
