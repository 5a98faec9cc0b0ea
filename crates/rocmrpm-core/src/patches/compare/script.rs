//! Finds the changes of upstream files that the scripts of a spec make without a patch: sed in
//! place, and files that are written. It does not run the scripts.

use super::change::{Change, Extent};
use super::sed::{self, SedCommand};
use crate::lint::shell_words;
use crate::spec::sections::Sections;

/// The scripts that run before upstream's files are compiled.
const SCRIPTS: &[&str] = &["prep", "conf", "generate_buildrequires", "build"];

/// The changes of upstream files in the scripts of a spec.
#[derive(Debug, Default)]
pub struct ScriptChanges {
    /// The changes.
    pub changes: Vec<Change>,
    /// Commands that change files in a way that cannot be compared, each with its line.
    pub unknown: Vec<String>,
}

/// Programs that change or replace files of the source in ways that only running them shows. rpm's own
/// macros name programs by their paths.
const OPAQUE: &[&str] = &[
    "cp", "dos2unix", "find", "git", "install", "ln", "mv", "patch", "perl", "rm", "tar", "unzip",
];

/// Reads the scripts of a spec; `edit` of `_shared/edits.tera` is not a change, because component.toml
/// declares it.
pub fn changes(spec: &str, sections: &Sections) -> ScriptChanges {
    let mut found = ScriptChanges::default();
    for script in sections.scripts.iter().filter(|s| SCRIPTS.contains(&s.section.as_str())) {
        let is_prep = script.section == "prep";
        let mut folder = Folder::default();
        let mut lines = script.lines.iter();
        while let Some(line) = lines.next() {
            let (mut text, by) = (line.text.clone(), format!("{spec}:{}", line.number));
            // A sed script may have several lines.
            while text.ends_with('\\') || is_open(&text) {
                let Some(next) = lines.next() else { break };
                if text.ends_with('\\') && !is_open(&text) {
                    text.pop();
                } else {
                    text.push('\n');
                }
                text.push_str(&next.text);
            }
            let here = heredoc(&text).map(|end| {
                let body = lines.by_ref().take_while(|line| line.text.trim() != end);
                body.map(|line| line.text.clone()).collect::<Vec<_>>()
            });
            let words = shell_words(&text);
            for command in words.split(|word| [";", "&&", "||", "|", "&"].contains(&word.as_str()))
            {
                found.command(command, here.as_deref(), is_prep, &mut folder, &by);
            }
        }
    }
    found
}

/// Returns whether a quote is open at the end of the text.
fn is_open(text: &str) -> bool {
    let (mut quote, mut before) = (None, ' ');
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            // The rest of the line is a comment.
            (None, '#') if before.is_whitespace() => {
                chars.by_ref().find(|c| *c == '\n');
            }
            (None, '\\') => drop(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        before = c;
    }
    quote.is_some()
}

/// Returns the word that ends a here-document.
fn heredoc(text: &str) -> Option<String> {
    let (_, after) = text.split_once("<<")?;
    let word = after.trim_start_matches('-').split_whitespace().next()?;
    let word = word.trim_matches(['\'', '"']);
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_').then(|| word.to_owned())
}

impl ScriptChanges {
    fn command(
        &mut self,
        words: &[String],
        here: Option<&[String]>,
        is_prep: bool,
        folder: &mut Folder,
        by: &str,
    ) {
        let [program, arguments @ ..] = words else { return };
        if let Some(at) = words.iter().position(|word| word.rsplit('/').next() == Some("sed"))
            && let Some(call) = SedCall::of(&words[at + 1..])
        {
            if call.files.is_empty() || at > 0 || call.files.iter().any(|file| is_unknown(file)) {
                self.unknown.push(format!("{by}: {}", shown(words)));
                return;
            }
            for command in sed::parse(&call.script, call.extended) {
                for file in &call.files {
                    match change(&command, &folder.of(file), by) {
                        Some(change) => self.changes.push(change),
                        None => self.unknown.push(format!("{by}: {}", shown(words))),
                    }
                }
            }
        } else if program == "cd" {
            folder.enter(arguments.first().map(String::as_str).unwrap_or_default());
        } else if let Some([to, file]) =
            words.windows(2).find(|pair| [">", ">>"].contains(&pair[0].as_str()))
            && is_prep
            && !is_unknown(file)
            && !file.starts_with('/')
        {
            let text = match here {
                Some(lines) => lines.to_vec(),
                None => {
                    let end = words.iter().position(|word| word == to).unwrap_or(words.len());
                    let said = words[1..end].iter().filter(|word| !word.starts_with('-'));
                    vec![said.cloned().collect::<Vec<_>>().join(" ")]
                }
            };
            let extent = if to == ">" { Extent::File } else { Extent::Lines };
            self.changes.push(Change::new(&folder.of(file), by, extent, Vec::new(), text));
        } else if is_prep
            && OPAQUE.contains(&program.as_str())
            && !(folder.above && program == "rm")
        {
            self.unknown.push(format!("{by}: {}", shown(words)));
        }
    }
}

/// The folder in which a script is.
#[derive(Debug, Default)]
struct Folder {
    /// Its path below the source's top folder.
    below: Vec<String>,
    /// Whether it is rpm's build folder, in which `%setup` removes and unpacks the source.
    above: bool,
}

impl Folder {
    fn enter(&mut self, path: &str) {
        match path {
            ".." => drop(self.below.pop()),
            path if path.starts_with('/') => (self.below, self.above) = (Vec::new(), true),
            path if path.starts_with(['-', '$', '~']) => self.below.clear(),
            // The end of `%setup`.
            _ if self.above => self.above = false,
            path => self.below.push(path.trim_end_matches('/').to_owned()),
        }
    }

    fn of(&self, file: &str) -> String {
        let path: Vec<&str> = self.below.iter().map(String::as_str).chain([file]).collect();
        path.join("/")
    }
}

/// Returns a command for people, without the path of a temporary folder of sources.
fn shown(words: &[String]) -> String {
    let word = |word: &String| match word.rsplit_once("/SOURCES/") {
        Some((_, file)) => file.to_owned(),
        None => word.clone(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns whether a name stands for files that only the shell knows.
fn is_unknown(file: &str) -> bool {
    file.contains(['$', '*', '?', '{', '`'])
}

/// A call of sed that changes files in place.
struct SedCall {
    script: String,
    extended: bool,
    files: Vec<String>,
}

impl SedCall {
    /// Reads the arguments of sed; `None` without `-i`.
    fn of(arguments: &[String]) -> Option<Self> {
        let (mut scripts, mut operands) = (Vec::new(), Vec::new());
        let (mut in_place, mut extended) = (false, false);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if let Some(script) = argument.strip_prefix("--expression=") {
                scripts.push(script.to_owned());
            } else if argument.starts_with("--in-place") {
                in_place = true;
            } else if argument.starts_with("--regexp-extended") {
                extended = true;
            } else if let Some(letters) = argument.strip_prefix('-').filter(|l| !l.is_empty()) {
                for (at, letter) in letters.char_indices() {
                    match letter {
                        'E' | 'r' => extended = true,
                        'e' => {
                            let rest = &letters[at + 1..];
                            scripts.push(match rest {
                                "" => arguments.next().cloned().unwrap_or_default(),
                                rest => rest.to_owned(),
                            });
                            break;
                        }
                        // The rest is the suffix of a backup.
                        'i' => {
                            in_place = true;
                            break;
                        }
                        _ => {}
                    }
                }
            } else {
                operands.push(argument.clone());
            }
        }
        if scripts.is_empty() && !operands.is_empty() {
            scripts.push(operands.remove(0));
        }
        in_place.then(|| Self { script: scripts.join("\n"), extended, files: operands })
    }
}

fn change(command: &SedCommand, file: &str, by: &str) -> Option<Change> {
    use Extent::{Lines, MatchingLines, Text};
    let matching = |extent, pattern: &sed::Pattern, added| {
        Change::matching(file, by, extent, pattern.clone(), added)
    };
    Some(match command {
        SedCommand::Replace(pattern, text) => {
            let added = if text.is_empty() { vec![] } else { vec![text.clone()] };
            matching(Text, pattern, added)
        }
        SedCommand::Delete(pattern) => matching(MatchingLines, pattern, Vec::new()),
        SedCommand::Change(pattern, text) => matching(MatchingLines, pattern, vec![text.clone()]),
        SedCommand::Add(_, text) => Change::new(file, by, Lines, Vec::new(), vec![text.clone()]),
        SedCommand::Other(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prep: &str) -> (Vec<String>, Vec<String>) {
        let found = changes("x.spec", &Sections::parse(&format!("Name: x\n%prep\n{prep}\n")));
        let shown = |change: &Change| {
            format!("{} {} -{:?} +{:?}", change.by, change.file, change.removed, change.added)
        };
        (found.changes.iter().map(shown).collect(), found.unknown)
    }

    #[test]
    fn reads_calls_of_sed() {
        let (changes, unknown) = read(
            "sed -i -e 's@a@b@' -e '/c/d' f ./g\nsed -i.bak 's/a b/c/' \\\n  'h i'\n# sed -i s/x/y/ z\n\
             cd sub && sed -Ei 's/x+y//' j\ncd ..\nsed -i '/k/a \\\nnew' l\nsed 's/a/b/' m > n\n\
             find . | xargs sed -i s/a/b/\nfor f in *; do sed -i s/a/b/ \"$f\"; done\nrm -rf third_party",
        );
        assert_eq!(
            changes,
            [
                r#"x.spec:3 f -["a"] +["b"]"#,
                r#"x.spec:3 g -["a"] +["b"]"#,
                r#"x.spec:3 f -["c"] +[]"#,
                r#"x.spec:3 g -["c"] +[]"#,
                r#"x.spec:4 h i -["a b"] +["c"]"#,
                r#"x.spec:7 sub/j -["y"] +[]"#,
                r#"x.spec:9 l -[] +["new"]"#,
                r#"x.spec:11 n -[] +["s/a/b/ m"]"#,
            ]
        );
        assert_eq!(
            unknown,
            [
                "x.spec:12: find .",
                "x.spec:12: xargs sed -i s/a/b/",
                "x.spec:13: do sed -i s/a/b/ $f",
                "x.spec:14: rm -rf third_party",
            ]
        );
    }

    #[test]
    fn setup_ends_in_the_top_folder() {
        // `%autosetup` as rpm 4.18 expands it.
        let (changes, unknown) = read(
            "cd '/t/BUILD'\nrm -rf 'x-1'\n/usr/lib/rpm/rpmuncompress -x /t/SOURCES/x.tar.gz\ncd 'x-1'\n\
             sed -i s/a/b/ f\ncp /t/SOURCES/inject.py tools",
        );
        assert_eq!(changes, [r#"x.spec:7 f -["a"] +["b"]"#]);
        assert_eq!(unknown, ["x.spec:8: cp inject.py tools"]);
    }

    #[test]
    fn reads_files_that_the_script_writes() {
        let (changes, unknown) = read(
            "echo \"1.0\" > version.txt\ncat > a/b <<'END'\none\ntwo\nEND\necho x >> c\necho y > /tmp/d\n\
             %autosetup -p1",
        );
        assert_eq!(
            changes,
            [
                r#"x.spec:3 version.txt -[] +["1.0"]"#,
                r#"x.spec:4 a/b -[] +["one", "two"]"#,
                r#"x.spec:8 c -[] +["x"]"#,
            ]
        );
        assert_eq!(unknown, [""; 0]);
    }
}
