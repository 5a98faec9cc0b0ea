//! Reads the statements of all files of an unpacked source.

use std::path::Path;

use super::readers::Reading;
use super::{Claim, Oddity, Statement, UpstreamLocation};
use crate::sources::read_inside;
use crate::workspace::Upstreams;
use crate::workspace::upstreams::{States, UpstreamFile};

/// The statements of a source's files.
#[derive(Debug, Default, Clone)]
pub struct Upstream {
    /// The statements, in the order of upstreams.toml and of the lines.
    pub statements: Vec<Statement>,
    /// The oddities.
    pub oddities: Vec<Oddity>,
    /// The files that were read.
    pub files: Vec<String>,
}

impl Upstream {
    /// Returns the statements about a component.
    pub fn about<'a>(&'a self, component: &'a str) -> impl Iterator<Item = &'a Statement> + 'a {
        self.statements.iter().filter(move |statement| statement.about == component)
    }

    /// Reads one of the files that `upstreams` declares.
    fn read(&mut self, upstreams: &Upstreams, file: &UpstreamFile, of: &str, dir: &Path) {
        let mut exists = false;
        for path in &file.paths {
            let place = |line| UpstreamLocation { of: of.to_owned(), file: path.clone(), line };
            let mut odd = |line, wrong| {
                self.oddities.push(Oddity { place: place(line), wrong, about: file.about.clone() })
            };
            let text = match text(dir, path) {
                Ok(None) => continue,
                Ok(Some(text)) => text,
                Err(wrong) => {
                    exists = true;
                    odd(0, wrong);
                    continue;
                }
            };
            exists = true;
            let (statements, wrong) = (Vec::new(), Vec::new());
            let mut reading = Reading { upstreams, file, place: &place, statements, wrong };
            reading.read(&text);
            let Reading { statements, wrong, .. } = reading;
            wrong.into_iter().for_each(|(line, wrong)| odd(line, wrong));
            self.statements.extend(statements);
            self.files.push(path.clone());
        }
        if !exists && !file.optional {
            let place =
                UpstreamLocation { of: of.to_owned(), file: file.paths.join(" or "), line: 0 };
            let wrong = format!(
                "the file does not exist, although other versions have it ({})",
                file.declared
            );
            self.oddities.push(Oddity { place, wrong, about: file.about.clone() });
        }
    }
}

/// Reads the files of a component's version below the top folder of its source.
pub fn read(upstreams: &Upstreams, component: &str, version: &str, dir: &Path) -> Upstream {
    let of = format!("{component} {version}");
    let mut upstream = Upstream::default();
    for file in upstreams.files_of(component, version) {
        upstream.read(upstreams, file, &of, dir);
    }
    upstream
}

/// Returns the version that a component's files state, in a source of unknown version. `of` is the
/// source's name in messages.
pub fn own_version(
    upstreams: &Upstreams,
    component: &str,
    of: &str,
    dir: &Path,
) -> Option<Statement> {
    let mut upstream = Upstream::default();
    let own = |file: &&UpstreamFile| {
        file.of == component
            && file
                .facts
                .iter()
                .any(|fact| fact.about == component && fact.states == States::Version)
    };
    for file in upstreams.files.iter().filter(own) {
        upstream.read(upstreams, file, of, dir);
    }
    let is_version = |statement: &&Statement| matches!(statement.claim, Claim::Version(_));
    upstream.about(component).find(is_version).cloned()
}

/// Returns the text of a file; `None` if it does not exist.
fn text(dir: &Path, path: &str) -> Result<Option<String>, String> {
    let Some(bytes) = read_inside(dir, path)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8 text".into())
}
