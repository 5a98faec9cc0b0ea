//! Finds the package index that pip is configured with on this machine. `index` reads the index.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::SourceError;
use rocmrpm_base::error::IoError;
use rocmrpm_base::parallel;
use rocmrpm_base::process::{Command, ProcessError};
use rocmrpm_base::text::file_url;

/// Returns the URL of the index that pip uses on this machine, in pip's order: the environment, the
/// configuration for `pip download`, `pip`, or `pip install`, or pip's built-in default. It may
/// contain credentials.
pub fn pip_index() -> Result<String, SourceError> {
    if let Some(index) = std::env::var("PIP_INDEX_URL").ok().filter(|v| !v.trim().is_empty()) {
        return Ok(index.trim().to_owned());
    }
    // Each run of pip takes a second.
    static CONFIGURED: Mutex<Option<String>> = Mutex::new(None);
    let mut known = CONFIGURED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some(index) => Ok(index.clone()),
        None => Ok(known.insert(ask_pip()?).clone()),
    }
}

fn ask_pip() -> Result<String, SourceError> {
    // Runs both at once, because Python starts slowly and most machines use the default.
    let (help, configured) =
        parallel::both(|| pip(&["download", "--help"]), || pip(&["config", "list"]));
    if let Some(index) = configured_index(&configured?) {
        return Ok(index);
    }
    default_index(&help?).ok_or_else(|| SourceError::NoIndex {
        reason: "`pip download --help` shows no default for --index-url".into(),
    })
}

/// Runs pip: python3's module, or else the program on `PATH`.
fn pip(args: &[&str]) -> Result<String, SourceError> {
    // `-m` searches the current folder first, which may be untrusted.
    let run = |command: Command| {
        command.args(args).cwd("/").env("COLUMNS", "500").env("LC_ALL", "C").text()
    };
    match run(Command::new("python3").args(["-m", "pip"])) {
        Ok(text) => Ok(text),
        Err(ProcessError::Stopped) => Err(ProcessError::Stopped.into()),
        Err(_) => match run(Command::new("pip")) {
            Err(error @ ProcessError::Failed { .. }) => {
                Err(SourceError::NoIndex { reason: error.to_string() })
            }
            other => Ok(other?),
        },
    }
}

/// Finds the index in the output of `pip config list`: lines such as
/// `global.index-url='https://...'`.
fn configured_index(list: &str) -> Option<String> {
    let values: BTreeMap<_, _> = list.lines().filter_map(|line| line.split_once('=')).collect();
    ["download.index-url", "global.index-url", "install.index-url"]
        .iter()
        .find_map(|key| values.get(key))
        .map(|value| value.trim().trim_matches(['\'', '"']).to_owned())
        .filter(|value| !value.is_empty())
}

/// Finds the default of `--index-url` in pip's help, regardless of line wrapping.
fn default_index(help: &str) -> Option<String> {
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, after) = words.split_once("--index-url <url>")?;
    let (_, after) = after.split_once("(default ")?;
    let (index, _) = after.split_once(')')?;
    (!index.is_empty() && !index.contains(' ')).then(|| index.to_owned())
}

/// Converts an index to a URL: pip also accepts the path of a folder.
pub fn as_url(index: &str) -> Result<String, SourceError> {
    if index.contains("://") {
        return Ok(index.to_owned());
    }
    let folder = std::path::absolute(index).map_err(IoError::doing("find the package index"))?;
    Ok(file_url(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_pip_output() {
        let list =
            ":env:.cert='/x'\nglobal.index-url='http://g/simple'\ninstall.index-url='http://i'\n";
        assert_eq!(configured_index(list).unwrap(), "http://g/simple");
        assert_eq!(configured_index("global.timeout='5'"), None);
        let help = "  -i, --index-url <url>  Base URL of the Index (default\n     http://d/simple). This\n";
        assert_eq!(default_index(help).unwrap(), "http://d/simple");
        assert_eq!(default_index("usage: pip"), None);
    }

    #[test]
    fn converts_folders_to_urls() {
        assert_eq!(as_url("/srv/index").unwrap(), "file:///srv/index");
        assert_eq!(as_url("http://h/s").unwrap(), "http://h/s");
    }

    #[test]
    fn finds_index_of_this_machine() {
        let index = pip_index().unwrap();
        assert!(index.contains("://") || index.starts_with('/'), "no URL or folder");
    }
}
