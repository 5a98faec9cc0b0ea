//! Finds what a build would download, and what makes each download unnecessary: the general rules
//! in `points.toml`, or the `[[offline]]` entries of component.toml. Both are verified. The audit
//! reads a source after `%prep`; it does not unpack or patch anything.

mod find;
mod messages;
mod quotes;
mod scan;
mod table;

use std::path::Path;

use serde::Serialize;

use crate::error::Error;
use crate::packages::split;
use crate::prep::Prepared;
use crate::spec::sections::Sections;
use crate::text::covers;
use crate::workspace::{Component, Offline, Pin, SatisfiedBy};
use find::FoundDownload;
use scan::scan;
use table::{Satisfier, TABLE};

/// Returns the download points of an unmodified upstream source, whether or not anything satisfies
/// them: file, line, and what is downloaded, at most one per line.
pub fn download_points(root: &Path) -> Result<Vec<(String, usize, String)>, Error> {
    let what = |found: &FoundDownload| found.name.clone().or_else(|| found.fetches.clone());
    let points = scan(root, None)?.points.into_iter();
    let mut points: Vec<_> =
        points.map(|(file, at)| (file, at.line, what(&at).unwrap_or(at.text))).collect();
    // The first argument of a call names what it declares.
    points.dedup_by(|(file, line, _), (first, at, _)| file == first && line == at);
    Ok(points)
}

/// What an audit found.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    /// The component.
    pub component: String,
    /// Its version.
    pub version: String,
    /// The folder of the source that was searched.
    pub folder: std::path::PathBuf,
    /// The download points of build scripts, sorted by file and line.
    pub points: Vec<Point>,
    /// What is wrong with `[[offline]]`.
    pub mistakes: Vec<Mistake>,
    /// How many build scripts were read.
    pub scripts: usize,
    /// How many points there are in files that the build does not read: tests, examples,
    /// documentation, and Makefiles and developers' tools that nothing runs.
    pub passed_over: usize,
    /// Build scripts that were not read: too large, or not text.
    pub unread: Vec<String>,
}

/// A place in a build script that downloads something.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// The file, below the source's top folder; the spec by its file name.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What kind of download it is.
    pub kind: String,
    /// The line's text.
    pub text: String,
    /// What it downloads, if the line states it.
    pub fetches: Option<String>,
    /// What satisfies it; null if nothing does.
    pub satisfied: Option<Satisfied>,
    /// How to fix it.
    pub help: String,
}

/// What makes a download unnecessary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Satisfied {
    /// `source`, `setting`, `package`, `not-reached`, `line` or `file`.
    pub by: String,
    /// The source, setting, package, line, or file.
    pub with: String,
    /// The evidence: component.toml, or a sentence.
    pub because: String,
}

/// A mistake in an `[[offline]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mistake {
    /// The path of component.toml.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
    /// How to fix it.
    pub help: String,
}

impl Audit {
    /// Returns the points that nothing satisfies.
    pub fn open(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.satisfied.is_none())
    }

    /// Returns whether a build downloads nothing.
    pub fn clean(&self) -> bool {
        self.open().next().is_none() && self.mistakes.is_empty() && self.unread.is_empty()
    }
}

/// Returns the download points of an unmodified source without those that its own files satisfy.
/// Nothing is declared about it, and its spec does not set anything.
pub fn of_upstream(root: &Path, pin: &Pin) -> Result<Vec<Point>, Error> {
    let found = scan(root, Some(("", "")))?;
    let known = KnownPoints { root, pin, spec: &Sections::default() };
    Ok(judged(&found, &known, |_, _| None))
}

/// Returns the points of a scan with what satisfies them: what `declared` returns, or a general
/// rule.
fn judged(
    found: &scan::Scan,
    known: &KnownPoints<'_>,
    mut declared: impl FnMut(&str, &FoundDownload) -> Option<Satisfied>,
) -> Vec<Point> {
    let mut points = Vec::new();
    for (file, point) in &found.points {
        let declared_here = |kind: &str| {
            found.points.iter().any(|(_, other)| {
                other.kind == kind
                    && other.name.as_ref().is_some_and(|name| {
                        point.name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name))
                    })
            })
        };
        let pattern = TABLE.point.iter().find(|pattern| pattern.id == point.kind);
        if pattern.and_then(|pattern| pattern.declared_by.as_deref()).is_some_and(declared_here) {
            // Report the declaration instead: it has more details.
            continue;
        }
        let satisfied = declared(file, point).or_else(|| known.satisfies(file, point));
        points.push(Point {
            file: file.clone(),
            line: point.line,
            kind: point.kind.to_owned(),
            text: point.text.clone(),
            fetches: point.fetches.clone(),
            satisfied,
            help: pattern.map_or_else(String::new, |pattern| pattern.help.clone()),
        });
    }
    points
}

/// Audits a prepared source for downloads.
pub fn offline(component: &Component, pin: &Pin, prepared: &Prepared) -> Result<Audit, Error> {
    let (record, spec) = (&prepared.record, &prepared.spec);
    let found = scan(&record.folder, Some((&spec.file_name, &spec.text)))?;
    let sections = Sections::parse(&spec.text);
    let known = KnownPoints { root: &record.folder, pin, spec: &sections };
    let mut entries: Vec<OfflineEntry<'_>> = component
        .offline
        .iter()
        .filter(|offline| offline.versions.holds(&pin.version))
        .map(|offline| OfflineEntry { offline, used: false, wrong: known.refutes(offline) })
        .collect();
    let points = judged(&found, &known, |file, point| {
        let declared = entries.iter_mut().filter(|entry| entry.covers(file, point)).map(|entry| {
            entry.used = true;
            let satisfied = Satisfied {
                by: entry.offline.by.as_str().to_owned(),
                with: entry.offline.with.clone(),
                because: component.file.name.clone(),
            };
            (entry.wrong.is_none(), satisfied)
        });
        // All entries that cover the point count as used; report the first valid one.
        let declared: Vec<_> = declared.collect();
        declared.into_iter().find(|(holds, _)| *holds).map(|(_, satisfied)| satisfied)
    });
    let place =
        |offline: &Offline| 1 + component.file.text[..offline.span.start].matches('\n').count();
    let mut mistakes = Vec::new();
    for entry in entries {
        let (problem, help) = match entry.wrong {
            Some(wrong) => wrong,
            None if !entry.used => (
                format!(
                    "no download point in `{}`{}",
                    entry.offline.file,
                    with_text(entry.offline)
                ),
                "remove the entry, or set the `versions` that it applies to".to_owned(),
            ),
            None => continue,
        };
        let (file, line) = (component.file.name.clone(), place(entry.offline));
        mistakes.push(Mistake { file, line, problem, help });
    }
    Ok(Audit {
        component: record.component.clone(),
        version: record.version.clone(),
        folder: record.folder.clone(),
        points,
        mistakes,
        scripts: found.read,
        passed_over: found.passed_over,
        unread: found.unread,
    })
}

fn with_text(offline: &Offline) -> String {
    offline.find.as_ref().map(|find| format!(" with the text `{find}`")).unwrap_or_default()
}

/// An `[[offline]]` entry that applies to this version.
struct OfflineEntry<'o> {
    offline: &'o Offline,
    used: bool,
    /// What is wrong with it, and how to fix it.
    wrong: Option<(String, String)>,
}

impl OfflineEntry<'_> {
    fn covers(&self, file: &str, point: &FoundDownload) -> bool {
        covers(&self.offline.file, file)
            && self.offline.find.as_ref().is_none_or(|find| point.text.contains(find.as_str()))
    }
}

/// What `[[offline]]` entries and general rules are checked against.
struct KnownPoints<'a> {
    root: &'a Path,
    pin: &'a Pin,
    /// The rendered spec.
    spec: &'a Sections,
}

impl KnownPoints<'_> {
    /// Returns what is wrong with a declaration, and how to fix it; `None` if it is valid.
    fn refutes(&self, offline: &Offline) -> Option<(String, String)> {
        let with = &offline.with;
        match offline.by {
            SatisfiedBy::Source if self.pin.sources.contains_key(with) => None,
            SatisfiedBy::Source => {
                let names: Vec<&str> = self.pin.sources.keys().map(String::as_str).collect();
                let known = if names.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("it has {}", names.join(", "))
                };
                Some((
                    format!("the pin has no further source `{with}`; {known}"),
                    format!("add `[{}.sources.{with}]` to the pin set", self.pin.component),
                ))
            }
            SatisfiedBy::Setting if has_setting(self.spec, with) => None,
            SatisfiedBy::Setting => Some((
                format!("`{with}` is not in the spec's %build"),
                "set it there, or correct the entry".to_owned(),
            )),
            SatisfiedBy::Package if requires(self.spec, with) => None,
            SatisfiedBy::Package => Some((
                format!("the spec has no `BuildRequires: {with}`"),
                "add it to the template, or correct the entry".to_owned(),
            )),
            // A reason cannot be verified. The parser rejects an empty one.
            SatisfiedBy::NotReached => None,
        }
    }

    /// Returns the general rule that satisfies a point.
    fn satisfies(&self, file: &str, point: &FoundDownload) -> Option<Satisfied> {
        let fits = |satisfier: &&Satisfier| satisfier.points.iter().any(|kind| kind == point.kind);
        TABLE.satisfier.iter().filter(fits).find_map(|satisfier| {
            let (by, with) = self.holds(satisfier, file, point)?;
            Some(Satisfied { by: by.to_owned(), with, because: satisfier.reason.clone() })
        })
    }

    fn holds(
        &self,
        satisfier: &Satisfier,
        file: &str,
        point: &FoundDownload,
    ) -> Option<(&'static str, String)> {
        if let Some(setting) = &satisfier.setting {
            let name = point.name.as_deref().map(str::to_uppercase);
            if setting.contains("@NAME@") && name.is_none() {
                return None;
            }
            let setting = setting.replace("@NAME@", &name.unwrap_or_default());
            return has_setting(self.spec, &setting).then_some(("setting", setting));
        }
        if let Some(name) = &satisfier.file {
            let folder = Path::new(file).parent().unwrap_or(Path::new(""));
            // The last folder is the one that `%prep` unpacked the source in.
            return folder.ancestors().chain([Path::new("..")]).find_map(|folder| {
                let path = folder.join(name);
                let full = self.root.join(&path);
                let regular =
                    std::fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file());
                let text = regular.then(|| fs_err::read(full).ok()).flatten()?;
                let text = String::from_utf8_lossy(&text).into_owned();
                let all = satisfier.has.iter().all(|part| text.contains(part.as_str()));
                all.then(|| ("file", path.display().to_string()))
            });
        }
        let all = satisfier.line.iter().all(|part| point.text.contains(part.as_str()));
        all.then(|| ("line", satisfier.line.join(" ")))
    }
}

/// Returns whether `%build` contains a setting as a whole word outside of comments. Quotes are
/// ignored: `export A='b'` sets `A=b`.
fn has_setting(spec: &Sections, setting: &str) -> bool {
    let plain = |text: &str| text.replace(['\'', '"'], "");
    let setting = plain(setting);
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let build = spec.scripts.iter().filter(|script| script.section == "build");
    let lines = build
        .flat_map(|script| &script.lines)
        .filter(|line| !line.text.trim_start().starts_with('#'));
    lines.map(|line| plain(&line.text)).any(|line| {
        line.match_indices(&setting).any(|(at, _)| {
            // `-DNAME=ON` sets the CMake variable NAME.
            let (before, after) = (&line[..at], &line[at + setting.len()..]);
            let begins =
                before.ends_with("-D") || !before.ends_with(word) || !setting.starts_with(word);
            begins && (!after.starts_with(word) || !setting.ends_with(word))
        })
    })
}

/// Returns whether the spec has a BuildRequires on a package.
fn requires(spec: &Sections, package: &str) -> bool {
    let tags = spec.packages.iter().flat_map(|package| &package.tags);
    let lists = tags.filter(|tag| tag.name == "buildrequires").map(|tag| split(&tag.value));
    lists.flatten().any(|required| required.split_whitespace().next() == Some(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "BuildRequires:  cmake >= 3.26\nBuildRequires: ninja-build\n%prep\nexport A=no\n%build\n\
        # B=comment\nexport C='on' \\\n  CMAKE_ARGS=\"-DD=ON -DEE=1\"\n%{?x}\n%install\nexport F=1\n";

    #[test]
    fn reads_settings_of_the_build_section() {
        let spec = Sections::parse(SPEC);
        let held = [
            "A=no",
            "B=comment",
            "C=on",
            "D=ON",
            "E=1",
            "EE=1",
            "EE",
            "F=1",
            "C=o",
            "-DD=ON",
            "CMAKE_ARGS",
        ];
        let held = held.map(|setting| has_setting(&spec, setting));
        assert_eq!(held, [false, false, true, true, false, true, true, false, false, true, true]);
    }

    #[test]
    fn reads_build_requires() {
        let spec = Sections::parse(SPEC);
        let held = ["cmake", "ninja-build", "ninja", "3.26"].map(|name| requires(&spec, name));
        assert_eq!(held, [true, true, false, false]);
    }
}
