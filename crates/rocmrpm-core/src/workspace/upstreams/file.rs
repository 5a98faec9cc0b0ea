//! `[[file]]` of upstreams.toml: a file of an upstream project, and its reader.

use super::fact::{Fact, Locator, States};
use super::reader::{Reader, reader};
use super::{Reference, inside, one_inside, range};
use crate::range::VersionRange;
use crate::workspace::document::Table;

/// A file of an upstream project.
#[derive(Debug, Clone)]
pub struct UpstreamFile {
    /// The component whose source has it.
    pub of: String,
    /// The paths below the source's top folder of which at least one exists.
    pub paths: Vec<String>,
    /// The versions that have the file.
    pub versions: VersionRange,
    /// Whether some of these versions lack it.
    pub optional: bool,
    /// Whether the file only describes upstream's own images or tests, so that other versions can
    /// work too.
    pub example: bool,
    /// What reads it.
    pub reader: Reader,
    /// The components whose versions are unknown if the file cannot be read.
    pub about: Vec<String>,
    /// What it states, and where.
    pub facts: Vec<Fact>,
    /// Where it is declared, such as `upstreams.toml:12`.
    pub declared: String,
}

impl UpstreamFile {
    pub(super) fn read(table: &mut Table<'_>, references: &mut Vec<Reference>) -> Option<Self> {
        let declared = table.place(&table.span());
        let of = table.required_string("of", "the component whose source has the file");
        references.extend(of.clone().map(|name| Reference { name, of: None }));
        let paths = paths(table);
        let versions = range(table, "versions");
        let optional = table.boolean("optional").unwrap_or(false);
        let example = table.boolean("example").unwrap_or(false);
        let reader = reader(table);
        let named = table.has("about").then(|| table.strings("about"));
        let owner = of.as_ref().map(|at| at.value.clone()).unwrap_or_default();
        for name in named.iter().flatten() {
            references.push(Reference { name: name.clone(), of: Some(owner.clone()) });
        }
        let read = |fact: &mut Table<'_>| Fact::read(fact, &owner, reader.as_ref(), references);
        let facts: Vec<Option<Fact>> = table.tables("fact", read);
        match &reader {
            Some(Reader::Requirements) if !facts.is_empty() => {
                let label = "requirements name their components";
                table.problem(table.span(), "the reader `requirements` has no facts", label, None);
            }
            Some(Reader::Requirements) | None => {}
            Some(_) if facts.is_empty() => {
                let label = "expected `[[file.fact]]`";
                table.problem(table.span(), "the file has no facts", label, None);
            }
            Some(_) => {}
        }
        let facts: Vec<Fact> = facts.into_iter().flatten().collect();
        let about = match named {
            Some(names) => names.into_iter().map(|at| at.value).collect(),
            None => about(&owner, &facts, example),
        };
        Some(Self {
            of: of?.value,
            paths: Some(paths).filter(|paths| !paths.is_empty())?,
            versions,
            optional,
            example,
            reader: reader?,
            about,
            facts,
            declared,
        })
    }
}

/// Returns what is unknown without the file: `python`, and the components that it requires.
fn about(of: &str, facts: &[Fact], example: bool) -> Vec<String> {
    let mut about: Vec<String> = Vec::new();
    for fact in facts.iter().filter(|fact| !example && !fact.optional) {
        let name = match fact.states {
            States::Python => "python",
            States::Version | States::Revision | States::Commit | States::Requirements => {
                fact.about.as_str()
            }
            _ => continue,
        };
        let by_project = matches!(&fact.locator, Locator::Pattern { project: true, .. });
        if name != of && !by_project && !about.iter().any(|known| known == name) {
            about.push(name.to_owned());
        }
    }
    about
}

fn paths(table: &mut Table<'_>) -> Vec<String> {
    let one = table.has("path");
    if one == table.has("paths") {
        let label = "expected `path`, or `paths` of which at least one exists";
        table.problem(table.span(), "a file has either `path` or `paths`", label, None);
    }
    let mut paths = inside(table, "paths");
    paths.extend(one_inside(table, "path"));
    paths
}
