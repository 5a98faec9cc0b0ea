//! `upstreams.toml`: the files of upstream projects that state versions, and versions that work
//! together. `pins::upstream` reads those files.

mod fact;
mod file;
mod reader;
mod together;

use std::collections::BTreeSet;
use std::ops::Range;

pub use fact::{Fact, Locator, Matches, States};
pub use file::UpstreamFile;
pub use reader::Reader;
pub use together::{Together, exact, satisfies};

use super::document::{At, File, Table};
use super::edit::is_inside;
use crate::error::Problem;
use crate::names::{ComponentName, nearest};
use crate::range::VersionRange;
use crate::text::visible;
use crate::wheel;

/// What a stack knows about upstream projects; empty without an `upstreams.toml`.
#[derive(Debug, Clone, Default)]
pub struct Upstreams {
    /// The components in the order in which versions are decided: each after those whose files
    /// state its version.
    pub components: Vec<UpstreamComponent>,
    /// The further sources whose commits or versions are stated.
    pub sources: Vec<UpstreamSource>,
    /// The files that are read.
    pub files: Vec<UpstreamFile>,
    /// Versions that work together.
    pub together: Vec<Together>,
    /// The distributions that closures must not take from a package index.
    pub not_from_index: Vec<NotFromIndex>,
}

/// A distribution that must not come from a package index.
#[derive(Debug, Clone)]
pub struct NotFromIndex {
    /// A normalized name; `*` stands for any characters.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// A component that files state something about.
#[derive(Debug, Clone)]
pub struct UpstreamComponent {
    /// Its name.
    pub name: String,
    /// Where it comes from if the pin set does not have it.
    pub origin: Option<UpstreamOrigin>,
    /// Its names in requirements.
    pub projects: Vec<String>,
    /// The component that each build of this one belongs to. A file that names another version of
    /// that component describes another build.
    pub against: Option<String>,
    /// The component whose files state the version of this one, which is in the same repository.
    pub version_of: Option<String>,
    /// Whether versions other than those of `[[together]]` can work.
    pub may_differ: bool,
    /// Its name in TheRock's source manifest.
    pub therock: Option<String>,
    /// The libraries in its Python package, which are loaded with it.
    pub libraries: Vec<String>,
}

/// Where a component comes from.
#[derive(Debug, Clone)]
pub enum UpstreamOrigin {
    /// A git repository.
    Git {
        /// Its URL.
        url: String,
        /// Whether submodules are packed.
        submodules: bool,
        /// The folders that are packed; all if empty.
        paths: Vec<String>,
    },
    /// A project on the package index.
    Sdist(String),
}

/// A further source of a component.
#[derive(Debug, Clone)]
pub struct UpstreamSource {
    /// The component.
    pub of: String,
    /// The source's name.
    pub name: String,
    /// The component's versions that this holds for.
    pub versions: VersionRange,
    /// Its repository, if no file states another one.
    pub git: String,
    /// The packed folders, if the pin set does not name them.
    pub paths: Vec<String>,
    /// The CMake file that sets the parts of its version, and the pattern of the version: variables
    /// in braces, and `{commit}`.
    pub version: Option<(String, String)>,
}

/// A name that must be a component, or a further source of `of`.
pub(super) struct Reference {
    name: At<String>,
    of: Option<String>,
}

impl Upstreams {
    /// Reads the file.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        let mut references = Vec::new();
        let mut names = Vec::new();
        let upstreams = file.parse(problems, |root| Self {
            components: root
                .tables("component", |table| {
                    UpstreamComponent::read(table, &mut names, &mut references)
                })
                .into_iter()
                .flatten()
                .collect(),
            sources: root
                .tables("source", |table| UpstreamSource::read(table, &mut references))
                .into_iter()
                .flatten()
                .collect(),
            files: root
                .tables("file", |table| UpstreamFile::read(table, &mut references))
                .into_iter()
                .flatten()
                .collect(),
            together: root
                .tables("together", |table| Together::read(table, &mut references))
                .into_iter()
                .flatten()
                .collect(),
            not_from_index: root
                .tables("not-from-index", NotFromIndex::read)
                .into_iter()
                .flatten()
                .collect(),
        });
        let mut seen = BTreeSet::new();
        for At { value, span } in names {
            if !seen.insert(value.clone()) {
                let message = format!("two components are named `{value}`");
                problems.push(file.problem(span, message, "merge the two tables"));
            }
        }
        problems.extend(
            references.into_iter().filter_map(|reference| upstreams.check(file, reference)),
        );
        upstreams
    }

    fn check(&self, file: &File, Reference { name, of }: Reference) -> Option<Problem> {
        let sources = self.sources.iter().filter(|source| Some(&source.of) == of.as_ref());
        let known = self.components.iter().map(|component| component.name.as_str());
        let known: Vec<&str> = known.chain(sources.map(|source| source.name.as_str())).collect();
        if known.contains(&name.value.as_str()) {
            return None;
        }
        let shown = visible(&name.value);
        let help = match nearest(&name.value, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add `[[component]]` with `name = \"{shown}\"`"),
        };
        let problem = file.problem(
            name.span,
            format!("unknown component `{shown}`"),
            "no `[[component]]` has this name",
        );
        Some(Problem { help: Some(help), ..problem })
    }

    /// Returns what is known about a component.
    pub fn component(&self, name: &str) -> Option<&UpstreamComponent> {
        self.components.iter().find(|component| component.name == name)
    }

    /// Returns the component for a project on the package index.
    pub fn component_of_project(&self, project: &str) -> Option<&str> {
        let is_project =
            |component: &&UpstreamComponent| component.projects.iter().any(|name| name == project);
        self.components.iter().find(is_project).map(|component| component.name.as_str())
    }

    /// Returns whether a library belongs to the Python package of one of these projects' components
    /// and is loaded with it.
    pub fn is_loaded_with(&self, library: &str, projects: &BTreeSet<&str>) -> bool {
        self.components.iter().any(|component| {
            component.libraries.iter().any(|name| name == library)
                && component.projects.iter().any(|project| projects.contains(project.as_str()))
        })
    }

    /// Returns the components that builds of other components belong to.
    pub fn bases(&self) -> BTreeSet<&str> {
        self.components.iter().filter_map(|component| component.against.as_deref()).collect()
    }

    /// Returns the further sources of a component's version.
    pub fn sources_of<'a>(
        &'a self,
        component: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a UpstreamSource> + 'a {
        let holds = move |source: &&UpstreamSource| {
            source.of == component && source.versions.holds(version)
        };
        let mut seen = BTreeSet::new();
        self.sources.iter().filter(holds).filter(move |source| seen.insert(source.name.as_str()))
    }

    /// Returns whether a URL is the repository of a further source for some version.
    pub fn has_repository(&self, known: &UpstreamSource, url: &str) -> bool {
        let same = |source: &&UpstreamSource| source.of == known.of && source.name == known.name;
        self.sources.iter().filter(same).any(|source| source.git == url)
    }

    /// Returns the components whose files are read.
    pub fn readable(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for file in &self.files {
            if !names.contains(&file.of.as_str()) {
                names.push(&file.of);
            }
        }
        names
    }

    /// Returns the files to read for a component's version.
    pub fn files_of<'a>(
        &'a self,
        component: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a UpstreamFile> + 'a {
        self.files.iter().filter(move |file| file.of == component && file.versions.holds(version))
    }

    /// Returns what works with a component's version.
    pub fn together(&self, component: &str, version: &str) -> Option<&Together> {
        self.together.iter().find(|row| row.of == component && row.versions.holds(version))
    }
}

impl NotFromIndex {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required_string("name", "a distribution's normalized name");
        let reason = table.required_string("reason", "why closures must not take it from an index");
        let At { value: name, span } = name?;
        let example = name.replace('*', "x");
        if wheel::normalized(&example).as_ref() != Some(&example) {
            let message = format!("`{}` is not a normalized name", visible(&name));
            table.problem(span, message, "expected lower-case letters, digits, `-` and `*`", None);
            return None;
        }
        Some(Self { name, reason: reason?.value })
    }
}

impl UpstreamComponent {
    fn read(
        table: &mut Table<'_>,
        names: &mut Vec<At<String>>,
        references: &mut Vec<Reference>,
    ) -> Option<Self> {
        let name = table.required_string("name", "the component's name");
        if let Some(name) = &name {
            if ComponentName::parse(&name.value).is_none() {
                let message = format!("`{}` cannot be a component's name", visible(&name.value));
                let label = "expected lower-case letters, digits and `-`";
                table.problem(name.span.clone(), message, label, None);
            }
            names.push(name.clone());
        }
        let (git, sdist) = (table.string("git"), table.string("sdist"));
        let submodules = table.boolean("submodules").unwrap_or(false);
        let paths = inside(table, "paths");
        if let (Some(_), Some(sdist)) = (&git, &sdist) {
            let label = "remove one of the two";
            table.problem(
                sdist.span.clone(),
                "a component has either `git` or `sdist`",
                label,
                None,
            );
        }
        let origin = match (git, sdist) {
            (Some(git), _) => Some(UpstreamOrigin::Git { url: git.value, submodules, paths }),
            (None, sdist) => sdist.map(|at| UpstreamOrigin::Sdist(at.value)),
        };
        let projects: Vec<String> =
            table.strings("projects").into_iter().map(|at| at.value).collect();
        let (against, version_of) = (table.string("against"), table.string("version-of"));
        let may_differ = table.boolean("may-differ").unwrap_or(false);
        let therock = table.string("therock").map(|at| at.value);
        let libraries = table.strings("libraries").into_iter().map(|at| at.value).collect();
        for name in [&against, &version_of].into_iter().flatten() {
            references.push(Reference { name: name.clone(), of: None });
        }
        let name = name?.value;
        Some(Self {
            projects: if projects.is_empty() { vec![name.clone()] } else { projects },
            name,
            origin,
            against: against.map(|at| at.value),
            version_of: version_of.map(|at| at.value),
            may_differ,
            therock,
            libraries,
        })
    }
}

impl UpstreamSource {
    fn read(table: &mut Table<'_>, references: &mut Vec<Reference>) -> Option<Self> {
        let of = table.required_string("of", "the component that has this source");
        references.extend(of.clone().map(|name| Reference { name, of: None }));
        let name = table.required_string("name", "the source's name");
        let versions = range(table, "versions");
        let git = table.required_string("git", "its repository");
        let paths = inside(table, "paths");
        let (version, file) = (table.string("version"), one_inside(table, "version-file"));
        let version = match (version, file) {
            (Some(version), Some(file)) => Some((file, version.value)),
            (None, None) => None,
            _ => {
                let label = "expected both or neither";
                table.problem(
                    table.span(),
                    "`version` and `version-file` belong together",
                    label,
                    None,
                );
                None
            }
        };
        Some(Self { of: of?.value, name: name?.value, versions, git: git?.value, paths, version })
    }
}

/// Reads a range of versions. [default: all versions]
fn range(table: &mut Table<'_>, key: &str) -> VersionRange {
    let Some(At { value, span }) = table.string(key) else { return VersionRange::default() };
    VersionRange::parse(&value).unwrap_or_else(|| {
        not_a_range(table, span);
        VersionRange::default()
    })
}

fn not_a_range(table: &mut Table<'_>, span: Range<usize>) {
    table.problem(
        span,
        "this is not a version range",
        "expected a range such as `>=0.20, <0.22`",
        None,
    );
}

/// Reads paths below the source's top folder.
fn inside(table: &mut Table<'_>, key: &str) -> Vec<String> {
    let paths = table.strings(key);
    paths.into_iter().filter_map(|path| checked(table, path)).collect()
}

fn one_inside(table: &mut Table<'_>, key: &str) -> Option<String> {
    let path = table.string(key)?;
    checked(table, path)
}

fn checked(table: &mut Table<'_>, At { value, span }: At<String>) -> Option<String> {
    if is_inside(&value) {
        return Some(value);
    }
    table.problem(
        span,
        "the path leads out of the source",
        "expected a relative path without `..`",
        None,
    );
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Upstreams, Vec<String>) {
        let mut problems = Vec::new();
        let upstreams = Upstreams::read(
            &File { name: "upstreams.toml".into(), text: text.into() },
            &mut problems,
        );
        (upstreams, problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn finds_components_by_project_and_library() {
        let (upstreams, problems) = read(
            "[[component]]\nname = \"aa\"\nprojects = [\"py-aa\"]\nlibraries = [\"liba.so\"]\n\
             [[component]]\nname = \"bb\"\nagainst = \"aa\"\n",
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(upstreams.component_of_project("py-aa"), Some("aa"));
        assert_eq!(upstreams.component_of_project("aa"), None);
        assert_eq!(upstreams.component_of_project("bb"), Some("bb"));
        assert!(upstreams.is_loaded_with("liba.so", &["x", "py-aa"].into()));
        assert!(!upstreams.is_loaded_with("liba.so", &["aa"].into()));
        assert!(!upstreams.is_loaded_with("libb.so", &["py-aa"].into()));
        assert_eq!(upstreams.bases(), ["aa"].into());
    }

    #[test]
    fn rejects_duplicate_and_unknown_names() {
        let (_, problems) = read(
            "[[component]]\nname = \"aa\"\n[[component]]\nname = \"aa\"\nagainst = \"ab\"\n\
             [[component]]\nname = \"A B\"\nversion-of = \"source\"\n\
             [[source]]\nof = \"aa\"\nname = \"source\"\ngit = \"g\"\nversion = \"1\"\n",
        );
        assert_eq!(
            problems,
            [
                "`A B` cannot be a component's name",
                "`version` and `version-file` belong together",
                "two components are named `aa`",
                "unknown component `ab`",
                "unknown component `source`",
            ]
        );
    }
}
