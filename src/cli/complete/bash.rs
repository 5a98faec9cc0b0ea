//! Completions in bash, beyond what clap_complete does. clap_complete inserts paths without quotes, so
//! that a file called `$(command)` would run that command; bash itself quotes them. It also does not
//! expect that bash splits words at `=`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};
use clap_complete::env::{self, EnvCompleter};

/// Stands for all files. No shell passes a NUL in a word.
const FILES: &str = "\0";

/// Returns a completer that leaves paths to bash.
pub(super) fn files() -> ArgValueCompleter {
    ArgValueCompleter::new(|_: &OsStr| vec![CompletionCandidate::new(FILES)])
}

/// bash.
#[derive(Debug)]
pub(super) struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        env::Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        env::Bash.is(name)
    }

    /// Writes clap_complete's script; bash completes files if there are no candidates.
    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        let mut script = Vec::new();
        env::Bash.write_registration(var, name, bin, completer, &mut script)?;
        let script = String::from_utf8(script).map_err(io::Error::other)?;
        buf.write_all(script.replace("-o bashdefault", "-o bashdefault -o default").as_bytes())
    }

    fn write_complete(
        &self,
        cmd: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        let var = |name| std::env::var(name).ok();
        let index =
            var("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok()).unwrap_or_default();
        let (words, index) = rejoined(args, index);
        let candidates = complete(cmd, words, index, current_dir)?;
        let values = || candidates.iter().map(|candidate| candidate.get_value().to_string_lossy());
        if values().any(|value| value.ends_with(FILES)) {
            return Ok(());
        }
        let separator = var("_CLAP_IFS").unwrap_or_else(|| "\n".to_owned());
        buf.write_all(values().collect::<Vec<_>>().join(&separator).as_bytes())
    }
}

/// Returns the words without each `=` that bash made a word of its own, as in `--chroot = host`, and
/// the index of the same word in them.
fn rejoined(words: Vec<OsString>, index: usize) -> (Vec<OsString>, usize) {
    let mut kept: Vec<OsString> = Vec::new();
    let mut moved = index;
    for (at, word) in words.into_iter().enumerate() {
        let after_option = kept.last().is_some_and(|last| last.to_string_lossy().starts_with("--"));
        if at < index && word == "=" && after_option {
            moved -= 1;
        } else {
            kept.push(word);
        }
    }
    (kept, moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equals_sign_between_option_and_value_is_no_word() {
        for (line, index, expected, moved) in [
            ("rocmrpm build --chroot = ho", 4, "rocmrpm build --chroot ho", 3),
            (
                "rocmrpm build --chroot = ho --until = rp",
                7,
                "rocmrpm build --chroot ho --until rp",
                5,
            ),
            ("rocmrpm build ho", 2, "rocmrpm build ho", 2),
            ("rocmrpm build --pin vllm = 1", 5, "rocmrpm build --pin vllm = 1", 5),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(rejoined(words(line), index), (words(expected), moved), "{line}");
        }
    }

    #[test]
    fn bash_completes_files_if_there_are_no_candidates() {
        let mut script = Vec::new();
        Bash.write_registration("V", "n", "b", "c", &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        assert_eq!(
            script.matches("complete -o nospace -o bashdefault -o default").count(),
            2,
            "{script}"
        );
    }
}
