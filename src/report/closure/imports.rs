//! Formats the imports of a component that its closure does not define, as lines for a terminal and
//! as a part of the closure's JSON document.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::closure::imports::{self, Imports, Missing, Unchecked, Unread};
use crate::report::{Shell, Style, count};
use crate::text::visible;

/// The maximum number of listed imports of a kind; `--json` has all of them.
const LISTED: usize = 20;

/// Writes the result of an import check to stderr; `file` is the component.toml.
pub fn show_imports(shell: &Shell, imports: &Imports, file: &str) {
    if imports.own.is_none() {
        shell.warning(
            "imports are not checked: the source has no package with the name of the distribution",
        );
        return;
    }
    for unread in &imports.unread {
        let of = unread.distribution.as_deref().map(|of| format!("{of}: ")).unwrap_or_default();
        shell.warning(visible(&format!("{of}{} (not checked)", unread.reason)));
    }
    listed(imports.warnings().map(missing_text).collect(), shell, |text| shell.warning(text));
    let (known, strange): (Vec<&Missing>, Vec<&Missing>) =
        imports.errors().partition(|missing| missing.distribution.is_some());
    let show = |text: &String| shell.status(Style::Bad, "Missing", text);
    listed(known.into_iter().map(missing_text).collect(), shell, show);
    listed(by_top_level(&strange), shell, show);
    for name in &imports.needless {
        let name = visible(name);
        shell.warning(format!(
            "every import of `{name}` works: remove its `[[closure.import]]` from {file}"
        ));
    }
    let errors = imports.errors().count();
    let style = if errors == 0 { Style::Good } else { Style::Bad };
    shell.status(style, "Checked", summary(imports));
    if errors > 0 {
        shell.talk(format!(
            "\n{} lock versions that define them (`not-after` in `[closure]`), or accept the failures in {file}: \
             `[[closure.import]]` with `name` and `reason`",
            Style::Note.paint("help:")
        ));
    }
}

fn listed(texts: Vec<String>, shell: &Shell, show: impl Fn(&String)) {
    texts.iter().take(LISTED).for_each(show);
    if texts.len() > LISTED {
        shell.talk(format!("... and {} more; `--json` lists them", texts.len() - LISTED));
    }
}

fn missing_text(missing: &Missing) -> String {
    let Missing { file, line, name, distribution, .. } = missing;
    visible(&match distribution {
        Some((distribution, version)) => {
            format!("{file}:{line}: {distribution} {version} does not have `{name}`")
        }
        None => format!("{file}:{line}: no member of the closure has `{name}`"),
    })
}

/// Returns one line for each top-level module that no member has, with the first place that imports
/// it.
fn by_top_level(missing: &[&Missing]) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<&Missing>> = BTreeMap::new();
    for one in missing {
        groups.entry(one.name.split('.').next().unwrap_or_default()).or_default().push(one);
    }
    let line = |(top, all): (&str, Vec<&Missing>)| match all.as_slice() {
        [only] => missing_text(only),
        all => {
            let (Missing { file, line, .. }, imports) = (all[0], all.len());
            visible(&format!(
                "{file}:{line}: no member of the closure has `{top}` ({imports} imports)"
            ))
        }
    };
    groups.into_iter().map(line).collect()
}

/// Returns a line of counts, without those that are zero.
fn summary(imports: &Imports) -> String {
    let counts = &imports.counts;
    let accepted = imports.missing.iter().filter(|missing| missing.accepted.is_some()).count();
    let mut text =
        format!("{} of {}", count(counts.checked, "import"), count(counts.modules, "module"));
    for (number, what) in [
        (accepted, "accepted"),
        (imports.dynamic.len(), "dynamic"),
        (counts.compiled, "of compiled modules"),
        (counts.unread, "of files that cannot be parsed"),
        (counts.stack, "of the stack's components"),
        (counts.optional + counts.absent, "optional"),
    ] {
        if number > 0 {
            text += &format!(", {number} {what}");
        }
    }
    let others = imports.other_versions.len();
    if others > 0 {
        let them = count(others, "distribution");
        text += &format!("; {them} checked in another version than that of the release");
    }
    text
}

/// The imports of a component that its closure does not define.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ImportsReport<'a> {
    /// The component's own top-level module; null if its source has none and nothing was checked.
    module: Option<&'a str>,
    /// How many imports of names and modules of the closure were checked.
    checked: usize,
    /// How many modules these are from.
    modules: usize,
    /// How many imports are from compiled modules, whose names are not checked.
    compiled: usize,
    /// How many imports are from modules that cannot be parsed.
    of_unread: usize,
    /// How many imports are from components of the stack, which are not checked.
    of_stack: usize,
    /// How many imports may fail: the error is caught, or only type checkers see the import.
    optional: usize,
    /// How many imports, behind a condition or in a function, are of modules that no member has.
    absent: usize,
    /// Imports that fail, by file and line.
    missing: Vec<MissingImport<'a>>,
    /// Names that code creates on import; they are not checked.
    dynamic: Vec<UncheckedImport<'a>>,
    /// Files that cannot be parsed.
    unread: Vec<UnreadFile<'a>>,
    /// Distributions that the release has in another version than the checked one.
    other_versions: Vec<OtherVersion<'a>>,
    /// Rules of component.toml that no import needs.
    needless: &'a [String],
}

/// An import that fails.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MissingImport<'a> {
    /// The file, below the source's top folder.
    file: &'a str,
    /// The line, from 1.
    line: usize,
    /// The dotted name of the missing module or attribute.
    name: &'a str,
    /// The distribution that should define it; null if no member has the top-level module.
    distribution: Option<&'a str>,
    /// The version of that distribution.
    version: Option<String>,
    /// Whether only a part of the component fails: the import is behind a condition, or in a function.
    partly: bool,
    /// Why component.toml accepts it.
    accepted: Option<&'a str>,
}

/// An import that cannot be checked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UncheckedImport<'a> {
    /// The file, below the source's top folder.
    file: &'a str,
    /// The line, from 1.
    line: usize,
    /// The dotted name.
    name: &'a str,
}

/// A file that cannot be parsed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnreadFile<'a> {
    /// The distribution; null for the component.
    distribution: Option<&'a str>,
    /// The file, and why.
    reason: &'a str,
}

/// A distribution that the release has in another version than the checked one.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OtherVersion<'a> {
    /// The distribution.
    distribution: &'a str,
    /// The locked version, which was checked.
    locked: String,
    /// The version of the release, if known.
    release: Option<String>,
}

/// Returns the result of an import check as a part of the closure's JSON document.
pub fn imports_json(imports: &Imports) -> ImportsReport<'_> {
    let counts = &imports.counts;
    ImportsReport {
        module: imports.own.as_deref(),
        checked: counts.checked,
        modules: counts.modules,
        compiled: counts.compiled,
        of_unread: counts.unread,
        of_stack: counts.stack,
        optional: counts.optional,
        absent: counts.absent,
        missing: imports.missing.iter().map(MissingImport::of).collect(),
        dynamic: imports.dynamic.iter().map(UncheckedImport::of).collect(),
        unread: imports.unread.iter().map(UnreadFile::of).collect(),
        other_versions: imports.other_versions.iter().map(OtherVersion::of).collect(),
        needless: &imports.needless,
    }
}

impl<'a> MissingImport<'a> {
    fn of(missing: &'a Missing) -> Self {
        let distribution = missing.distribution.as_ref();
        Self {
            file: &missing.file,
            line: missing.line,
            name: &missing.name,
            distribution: distribution.map(|(name, _)| name.as_str()),
            version: distribution.map(|(_, version)| version.to_string()),
            partly: missing.partly,
            accepted: missing.accepted.as_deref(),
        }
    }
}

impl<'a> UncheckedImport<'a> {
    fn of(Unchecked { file, line, name }: &'a Unchecked) -> Self {
        Self { file, line: *line, name }
    }
}

impl<'a> UnreadFile<'a> {
    fn of(Unread { distribution, reason }: &'a Unread) -> Self {
        Self { distribution: distribution.as_deref(), reason }
    }
}

impl<'a> OtherVersion<'a> {
    fn of(other: &'a imports::OtherVersion) -> Self {
        Self {
            distribution: &other.name,
            locked: other.locked.to_string(),
            release: other.release.as_ref().map(ToString::to_string),
        }
    }
}
