//! Finds out where the libraries that wheels link to come from, and corrects the requirements that
//! rpm derives from ELF files: those that no package provides are excluded, and the actual
//! libraries are required instead. This uses the contents of the wheels, not their names.
//! Requirements between distributions are up to `requires`.

use std::collections::{BTreeMap, BTreeSet};

use super::error::Refused;
use super::facts::{Facts, WheelFacts};
use super::text::{escaped, quoted};
use crate::closure::bundled::is_plain;
use crate::closure::{Closure, Member};
use crate::inspect::{System, soname_of_file};
use crate::text::visible;
use crate::workspace::Upstreams;

/// The corrections of the requirements that rpm derives from a package's ELF files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Linked {
    /// Libraries that are not required: those in the package itself, those in the package of a
    /// member that is required by name, and those with a file name that no package provides.
    excluded: BTreeSet<String>,
    /// SONAMEs that are required instead.
    required: BTreeSet<String>,
    /// Libraries that are required as rpm derives them.
    found: BTreeSet<String>,
    /// The members whose libraries it links to.
    members: BTreeSet<String>,
}

impl Linked {
    /// Adds the corrections of another part of the same package.
    pub fn extend(&mut self, other: &Self) {
        self.excluded.extend(other.excluded.iter().cloned());
        self.required.extend(other.required.iter().cloned());
        self.found.extend(other.found.iter().cloned());
        self.members.extend(other.members.iter().cloned());
    }

    /// Returns the line of component.toml that orders its build and inspection after the components
    /// of other members that it links to or that `%check` imports. The members in `package` are its
    /// own.
    pub fn required_components(
        &self,
        package: &BTreeSet<&str>,
        imported: &BTreeSet<String>,
    ) -> String {
        let linked = || self.members.iter().filter(|name| !package.contains(name.as_str()));
        let mut out = String::new();
        if linked().next().is_some() {
            out += "# Libraries in its wheels link to theirs.\n";
        }
        if !imported.is_empty() {
            out += "# %check imports them.\n";
        }
        let names: BTreeSet<&String> = linked().chain(imported).collect();
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().map(|name| quoted(name)).collect();
            out += &format!("requires = [{}]\n", names.join(", "));
        }
        out
    }

    /// Returns a regular expression for `__requires_exclude`, as written in a spec, that matches a
    /// whole requirement on an excluded library, with any symbol version.
    pub fn pattern(&self) -> Option<String> {
        let names: Vec<String> = self.excluded.iter().map(|name| escaped(name)).collect();
        (!names.is_empty())
            .then(|| format!("({})\\\\([^()]*\\\\)(\\\\(64bit\\\\))?$", names.join("|")))
    }

    /// Returns what the package requires by name, including libraries that one file finds in the
    /// package and another one does not.
    pub fn requires(&self) -> impl Iterator<Item = String> {
        let hidden = self.found.intersection(&self.excluded);
        let all: BTreeSet<&String> = self.required.iter().chain(hidden).collect();
        all.into_iter().map(|soname| format!("{soname}()(64bit)"))
    }
}

/// Finds the origins of the libraries that members' wheels link to, and those that have none.
pub(super) fn resolve(
    closure: &Closure,
    members: &[(&Member, Facts)],
    system: &System,
    upstreams: &Upstreams,
) -> (BTreeMap<String, Linked>, Vec<Refused>) {
    let wheels: BTreeMap<&str, &WheelFacts> = members
        .iter()
        .filter_map(|(member, facts)| Some((member.name.as_str(), facts.wheel()?)))
        .collect();
    let (mut all, mut refused) = (BTreeMap::new(), Vec::new());
    for (name, wheel) in &wheels {
        let reached = reached(closure, name);
        let others =
            || wheels.iter().filter(|(other, _)| *other != name && reached.contains(**other));
        let contents = &wheel.contents;
        let mut linked = Linked { excluded: contents.inside.clone(), ..Linked::default() };
        for (library, file) in &contents.outside {
            let in_wheel = |wheel: &WheelFacts| wheel.contents.libraries.contains(library);
            let loaded = upstreams.is_loaded_with(library, &reached);
            // A library in the wheel but outside the file's search path may be meant to be the
            // release's.
            if loaded || (in_wheel(wheel) && system.package(library).is_none()) {
                linked.excluded.insert(library.clone());
            } else if let Some((other, _)) = others().find(|(_, wheel)| in_wheel(wheel)) {
                linked.excluded.insert(library.clone());
                linked.members.insert((*other).to_owned());
            } else if let Some(soname) = soname_of_file(library).filter(|name| has(system, name)) {
                linked.excluded.insert(library.clone());
                linked.required.insert(soname.to_owned());
            } else if has(system, library) {
                linked.found.insert(library.clone());
            } else {
                refused.push(missing_library(
                    name,
                    &wheel.file.name,
                    library,
                    file,
                    &closure.chroot,
                    &wheels,
                ));
            }
        }
        if let Some(odd) = linked.excluded.iter().find(|name| !is_plain(name)) {
            let problem = format!(
                "its wheel links to `{}`, which is not the name of a library",
                visible(odd)
            );
            let help = "build it from its source with `from = \"sdist\"`, or drop it";
            refused.push(Refused::new(name, problem, help));
        }
        all.insert((*name).to_owned(), linked);
    }
    (all, refused)
}

fn has(system: &System, soname: &str) -> bool {
    !system.is_known() || system.package(soname).is_some()
}

fn missing_library(
    member: &str,
    wheel: &str,
    library: &str,
    file: &str,
    chroot: &str,
    wheels: &BTreeMap<&str, &WheelFacts>,
) -> Refused {
    let other = wheels.iter().find(|(_, other)| other.contents.libraries.contains(library));
    let (library, file) = (visible(library), visible(file));
    let problem = format!(
        "{file} in {wheel} links to {library}, which is in neither {chroot} nor a member that it requires"
    );
    let help = match other {
        Some((other, _)) => {
            format!(
                "add a requirement on `{other}`, which has it, to the component with an `[[edit]]`"
            )
        }
        None => format!(
            "if {chroot} has it, add `\"{library}\" = \"PACKAGE\"` to `[libraries]` in \
             mock-configs/{chroot}.toml; otherwise choose `from = \"sdist\"` or another place for it"
        ),
    };
    Refused { member: member.to_owned(), problem, help }
}

/// Returns what a member requires, directly and indirectly.
fn reached<'c>(closure: &'c Closure, from: &str) -> BTreeSet<&'c str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(name) = next.pop() {
        for edge in closure.graph.edges.iter().filter(|edge| edge.from == name) {
            if reached.insert(edge.to.as_str()) {
                next.push(&edge.to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn pattern_matches_whole_requirements() {
        let linked =
            Linked { excluded: set(&["libgomp.so.1.0.0", "libc++.so"]), ..Linked::default() };
        assert_eq!(
            linked.pattern().unwrap(),
            r"(libc\\+\\+\\.so|libgomp\\.so\\.1\\.0\\.0)\\([^()]*\\)(\\(64bit\\))?$"
        );
        assert_eq!(Linked::default().pattern(), None);
    }

    #[test]
    fn requires_the_components_of_other_members_only() {
        let linked = Linked { members: set(&["numpy", "torch"]), ..Linked::default() };
        assert_eq!(
            linked.required_components(&["numpy"].into(), &set(&["a", "torch"])),
            "# Libraries in its wheels link to theirs.\n# %check imports them.\n\
             requires = [\"a\", \"torch\"]\n"
        );
        assert_eq!(
            linked.required_components(&["numpy", "torch"].into(), &set(&["a"])),
            "# %check imports them.\nrequires = [\"a\"]\n"
        );
        assert_eq!(linked.required_components(&["numpy", "torch"].into(), &set(&[])), "");
    }

    #[test]
    fn keeps_requirements_of_any_file() {
        let mut linked = Linked { excluded: set(&["libz.so.1"]), ..Linked::default() };
        linked.extend(&Linked { found: set(&["libz.so.1", "libm.so.6"]), ..Linked::default() });
        linked.extend(&Linked { required: set(&["libgomp.so.1"]), ..Linked::default() });
        assert_eq!(
            linked.requires().collect::<Vec<_>>(),
            ["libgomp.so.1()(64bit)", "libz.so.1()(64bit)"]
        );
    }
}
