//! From an unpacked source to everything that its files say. What is in which file is
//! `table`'s and `files`' business.

use std::path::Path;

use super::files::Reading;
use super::table::{self, UpstreamFile};
use super::{Oddity, Place, Says, Statement};
use crate::sources::read_inside;

/// What a source's files say.
#[derive(Debug, Default, Clone)]
pub struct Upstream {
    /// Everything, in the order of the table and of the lines.
    pub statements: Vec<Statement>,
    /// What is not as it should be.
    pub oddities: Vec<Oddity>,
    /// The files that were read.
    pub files: Vec<String>,
}

impl Upstream {
    /// Returns what is said about a component.
    pub fn about<'a>(&'a self, component: &'a str) -> impl Iterator<Item = &'a Statement> + 'a {
        self.statements.iter().filter(move |statement| statement.about == component)
    }
}

/// Reads the files of a component's version below the top folder of its source.
pub fn read(component: &str, version: &str, dir: &Path) -> Upstream {
    let of = format!("{component} {version}");
    let mut upstream = Upstream::default();
    for file in table::files_of(component, version) {
        let place = |line| Place { of: of.clone(), file: file.path.to_owned(), line };
        let about: Vec<String> = file.about.iter().map(|name| (*name).to_owned()).collect();
        let mut odd = |line, wrong: String| {
            upstream.oddities.push(Oddity { place: place(line), wrong, about: about.clone() });
        };
        match text(dir, file) {
            Ok(None) if file.always => odd(0, "there is no such file, though other versions have it".into()),
            Ok(None) => {}
            Err(wrong) => odd(0, wrong),
            Ok(Some(text)) => {
                let mut reading =
                    Reading { component, place: &place, statements: Vec::new(), wrong: Vec::new() };
                (file.read)(&text, &mut reading);
                let Reading { statements, wrong, .. } = reading;
                wrong.into_iter().for_each(|(line, wrong)| odd(line, wrong));
                upstream.statements.extend(statements);
                upstream.files.push(file.path.to_owned());
            }
        }
    }
    if component == "triton" {
        llvm_is_named(&of, &mut upstream);
    }
    upstream
}

/// Triton names its LLVM in one of two files.
fn llvm_is_named(of: &str, upstream: &mut Upstream) {
    let named = upstream.statements.iter().any(|statement| matches!(statement.says, Says::Commit { .. }));
    if !named && upstream.oddities.iter().all(|oddity| !oddity.about.iter().any(|name| name == "llvm")) {
        let place = Place { of: of.to_owned(), file: "cmake".into(), line: 0 };
        let wrong = "neither llvm-hash.txt nor llvm-info.json is there".into();
        upstream.oddities.push(Oddity { place, wrong, about: vec!["llvm".into()] });
    }
}

/// Returns the text of a file; `None` where there is none.
fn text(dir: &Path, file: &UpstreamFile) -> Result<Option<String>, String> {
    let Some(bytes) = read_inside(dir, file.path)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8 text".into())
}
