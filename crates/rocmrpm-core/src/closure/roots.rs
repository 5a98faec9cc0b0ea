//! Reads the direct requirements of a component: from the METADATA of its built packages, from the
//! requirement files of its source, or from its source's own metadata. Indirect requirements are up
//! to `resolve`.

use std::collections::BTreeSet;

use serde_json::json;

use super::ClosureError;
use crate::build::{Results, Stage};
use crate::sources::{self, Fetcher, Tree, normalized};
use crate::spec::edit_text;
use crate::text::visible;
use crate::wheel;
use crate::workspace::pin::Source;
use crate::workspace::{ClosureRules, Component, Workspace};
use python_packaging::environment::Environment;
use python_packaging::needs::{Need, Needs};
use python_packaging::sdist;

/// The maximum depth of nested requirement files.
const MAX_DEPTH: usize = 16;

/// A distribution of the stack with its requirements.
#[derive(Debug, Clone)]
pub(super) struct StatedRequirements {
    /// Its normalized name.
    pub name: String,
    /// Its requirements, with their markers.
    pub needs: Needs,
    /// The METADATA that state them, if there are any.
    pub metadata: Option<String>,
}

/// Returns the requirements of a component: those of its built packages, or else those of its
/// source.
pub(super) fn stated(
    workspace: &Workspace,
    component: &Component,
    rules: &ClosureRules,
    fetcher: &Fetcher<'_>,
) -> Result<StatedRequirements, ClosureError> {
    if let Some(built) = built(workspace, component, fetcher)? {
        return Ok(built);
    }
    let pin = workspace.pin(component);
    let project = match &pin.source {
        Source::Sdist { project, .. } => normalized(project),
        _ => normalized(component.name.as_str()),
    };
    // Using an unpacked source means verifying all its files, so check the cache first.
    let recipe = recipe(workspace, component, rules)?;
    if let Some(text) = fetcher.remembered(&recipe)?
        && let Some(stated) = StatedRequirements::from_remembered(&text)
    {
        return Ok(stated);
    }
    let source = Edited { tree: fetcher.tree(pin)?, workspace, component };
    let stated = if rules.requirements.is_empty() {
        source.stated(project)?
    } else {
        let mut needs = Needs::default();
        let mut seen = BTreeSet::new();
        for file in &rules.requirements {
            source.read_requirements(&file.value, &mut needs, &mut seen, 0)?;
        }
        StatedRequirements { name: project, needs, metadata: None }
    };
    fetcher.remember(&recipe, &stated.to_remembered())?;
    Ok(stated)
}

/// Returns everything that determines what a component's source states.
fn recipe(
    workspace: &Workspace,
    component: &Component,
    rules: &ClosureRules,
) -> Result<String, ClosureError> {
    let pin = workspace.pin(component);
    let files: Vec<&str> = rules.requirements.iter().map(|file| file.value.as_str()).collect();
    let edits: Vec<_> = component
        .edits_for(&pin.version)
        .filter(|edit| edit.source.is_none())
        .map(|edit| {
            let replace = edit_text(workspace, pin, &edit.replace.value);
            (&edit.file, &edit.find, replace.unwrap_or_else(|unknown| unknown), edit.matches)
        })
        .collect();
    let identity = sources::identity(pin, &workspace.root)?;
    Ok(recipe_text(component.name.as_str(), &identity, &files, &edits))
}

fn recipe_text(
    component: &str,
    identity: &str,
    files: &[&str],
    edits: &[(&String, &String, String, usize)],
) -> String {
    format!("requirements of a source 1\n{}\n", json!([component, identity, files, edits]))
}

/// Returns the METADATA of a component's accepted packages, if they were built from the pin set's
/// sources in this chroot with the current component.toml.
pub(super) fn built(
    workspace: &Workspace,
    component: &Component,
    fetcher: &Fetcher<'_>,
) -> Result<Option<StatedRequirements>, ClosureError> {
    let results =
        Results::of(&workspace.build_dir_of(&component.name), Stage::Rpm, &component.name);
    let Some((record, rpms)) = results.accepted()? else { return Ok(None) };
    let pin = workspace.pin(component);
    let sources = sources::identities(pin, &workspace.root)?;
    let same = sources.iter().all(|(name, identity)| record.inputs.get(name) == Some(identity));
    let changed =
        |path: &std::path::Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let edited = changed(&component.dir.join("component.toml"));
    if !same || record.version != pin.version || edited > changed(&results.dir().join("build.json"))
    {
        return Ok(None);
    }
    for rpm in &rpms {
        let file = rpm.file_name().unwrap_or_default().to_string_lossy();
        let Some(output) = record.outputs.iter().find(|output| output.file == file) else {
            continue;
        };
        // A payload can have gigabytes, so cache the METADATA in it.
        let recipe = format!("metadata of rpm 1\n{}\n", output.sha256);
        let text = match fetcher.remembered(&recipe)? {
            Some(text) => text,
            None => {
                let found = wheel::metadata_of(rpm)?;
                let text = found.into_values().next().unwrap_or_default();
                fetcher.remember(&recipe, &text)?;
                text
            }
        };
        if !text.is_empty() {
            return StatedRequirements::of(&text, &format!("`{file}`")).map(Some);
        }
    }
    Ok(None)
}

impl StatedRequirements {
    /// Serializes it for the cache: its name, whether the rest is METADATA, and the requirements in
    /// the syntax of METADATA.
    fn to_remembered(&self) -> String {
        let text = match &self.metadata {
            Some(metadata) => metadata.clone(),
            None => {
                let extras =
                    self.needs.extras.iter().map(|extra| format!("Provides-Extra: {extra}\n"));
                let requires = self
                    .needs
                    .requires
                    .iter()
                    .map(|need| format!("Requires-Dist: {}\n", need.text));
                extras.chain(requires).collect()
            }
        };
        json!([self.name, self.metadata.is_some(), text]).to_string()
    }

    fn from_remembered(text: &str) -> Option<Self> {
        let (name, is_metadata, text): (String, bool, String) = serde_json::from_str(text).ok()?;
        let needs = Needs::read(&text);
        needs.unreadable.is_empty().then(|| Self {
            name,
            needs,
            metadata: is_metadata.then_some(text),
        })
    }

    /// Parses METADATA; `of` names their source in messages.
    pub fn of(metadata: &str, of: &str) -> Result<Self, ClosureError> {
        let wrong = |wrong| ClosureError::Metadata { of: of.to_owned(), wrong };
        let (name, _) = wheel::name_and_version(metadata).map_err(wrong)?;
        Ok(Self { name, needs: needs(metadata, of)?, metadata: Some(metadata.to_owned()) })
    }

    /// Returns the requirements that hold with some extras, including those of extras that it
    /// requests of itself.
    pub fn holding(&self, environment: &Environment, extras: &BTreeSet<String>) -> Vec<&Need> {
        let mut asked = extras.clone();
        loop {
            let names: Vec<_> = asked.iter().filter_map(|extra| extra.parse().ok()).collect();
            let holding: Vec<&Need> = self
                .needs
                .requires
                .iter()
                .filter(|need| need.holds(environment.markers(), &names))
                .collect();
            let own = holding.iter().filter(|need| need.name() == self.name);
            let more: BTreeSet<String> =
                own.flat_map(|need| need.parsed.extras.iter().map(ToString::to_string)).collect();
            if more.is_subset(&asked) {
                return holding.into_iter().filter(|need| need.name() != self.name).collect();
            }
            asked.extend(more);
        }
    }
}

/// Reads the requirements in METADATA; fails if one is invalid.
pub(super) fn needs(metadata: &str, of: &str) -> Result<Needs, ClosureError> {
    let needs = Needs::read(metadata);
    match needs.unreadable.first() {
        None => Ok(needs),
        Some((text, reason)) => {
            let wrong = format!("invalid requirement `{}`: {reason}", visible(text));
            Err(ClosureError::Metadata { of: of.to_owned(), wrong })
        }
    }
}

/// A component's source with the component's edits.
pub(super) struct Edited<'a> {
    /// The source as it was fetched.
    pub tree: Tree,
    pub workspace: &'a Workspace,
    pub component: &'a Component,
}

impl Edited<'_> {
    /// Returns whether the component edits a file.
    pub fn is_edited(&self, path: &str) -> bool {
        let version = &self.workspace.pin(self.component).version;
        self.component.edits_for(version).any(|edit| edit.source.is_none() && edit.file == path)
    }

    /// Returns the edited text of a file; `None` if the file does not exist.
    pub fn text(&self, path: &str) -> Result<Option<String>, ClosureError> {
        let Some(mut text) = self.tree.text(path)? else { return Ok(None) };
        let (component, pin) = (self.component, self.workspace.pin(self.component));
        let mut problems = Vec::new();
        let edits = component.edits_for(&pin.version);
        for edit in edits.filter(|edit| edit.source.is_none() && edit.file == path) {
            let replace = edit_text(self.workspace, pin, &edit.replace.value);
            let edited = replace
                .map_err(|unknown| format!("unknown placeholder `{unknown}`"))
                .and_then(|replace| {
                    let found = |found| {
                        format!(
                            "`{}` occurs {found} times in {path}, not {}",
                            edit.find, edit.matches
                        )
                    };
                    edit.apply(&text, &replace).map_err(found)
                });
            match edited {
                Ok(edited) => text = edited,
                Err(message) => {
                    problems.push(component.file.problem(edit.span.clone(), message, "this edit"))
                }
            }
        }
        match problems.is_empty() {
            true => Ok(Some(text)),
            false => Err(ClosureError::Edits { component: component.name.to_string(), problems }),
        }
    }

    fn nothing(&self, reason: impl Into<String>) -> ClosureError {
        ClosureError::NoRequirements {
            component: self.component.name.to_string(),
            reason: reason.into(),
        }
    }

    /// Reads a requirements file and the files that it includes (pip, "Requirements File Format").
    /// Ignores options about download locations.
    fn read_requirements(
        &self,
        path: &str,
        needs: &mut Needs,
        seen: &mut BTreeSet<String>,
        depth: usize,
    ) -> Result<(), ClosureError> {
        if depth > MAX_DEPTH {
            return Err(self.nothing(format!(
                "the requirement files include each other too deeply, at {path}"
            )));
        }
        if !seen.insert(path.to_owned()) {
            return Ok(());
        }
        let text =
            self.text(path)?.ok_or_else(|| self.nothing(format!("its source has no `{path}`")))?;
        for (line, content) in lines(&text) {
            let wrong = |reason: &str| ClosureError::Requirement {
                file: path.to_owned(),
                line,
                text: visible(&content),
                reason: reason.to_owned(),
            };
            let include =
                ["-r", "--requirement"].iter().find_map(|option| content.strip_prefix(option));
            if let Some(file) = include.map(|rest| rest.trim_start_matches('=').trim()) {
                let file = beside(path, file).ok_or_else(|| wrong("it is outside the source"))?;
                self.read_requirements(&file, needs, seen, depth + 1)?;
            } else if content.starts_with("-e")
                || content.starts_with("--editable")
                || content.starts_with("-c")
            {
                return Err(wrong(
                    "only requirements and included requirement files are supported",
                ));
            } else if !content.starts_with('-') {
                // Drop options after a requirement, such as its digests.
                let text = content.split(" --").next().unwrap_or(&content).trim().to_owned();
                let parsed = wheel::requirement(&text).map_err(|reason| wrong(&reason))?;
                let need = Need { text, parsed };
                if need.names_url() {
                    return Err(wrong("it names a URL instead of versions"));
                }
                needs.requires.push(need);
            }
        }
        Ok(())
    }

    /// Returns the path of the `requires.txt` that setuptools wrote, if there is one.
    fn egg_info(&self) -> Option<String> {
        EGG_INFO.iter().find_map(|above| {
            let names = crate::files::names_in(&self.tree.dir.join(above)).ok()?;
            let folder = names.into_iter().find(|name| name.ends_with(".egg-info"))?;
            let path = format!("{above}/{folder}/requires.txt");
            Some(path.trim_start_matches('/').to_owned())
        })
    }

    /// Reads the source's own metadata: `pyproject.toml`, or else PKG-INFO.
    fn stated(&self, project: String) -> Result<StatedRequirements, ClosureError> {
        if let Some(metadata) = self.text("pyproject.toml")?.as_deref().and_then(of_pyproject) {
            let needs = needs(&metadata, &format!("{project}, in pyproject.toml"))?;
            return Ok(StatedRequirements { name: project, needs, metadata: None });
        }
        let Some(info) = self.text("PKG-INFO")? else {
            return Err(self.nothing(
                "its source has no PKG-INFO, and pyproject.toml states no `dependencies`",
            ));
        };
        let requires = self.egg_info().map(|path| self.tree.text(&path)).transpose()?.flatten();
        let info = match requires {
            Some(requires) => sdist::with_requires(&info, &requires),
            None => info,
        };
        StatedRequirements::of(&info, &format!("{project}, in PKG-INFO"))
    }
}

/// The folders in which setuptools creates its egg-info folder: those of the packages.
const EGG_INFO: [&str; 3] = ["", "src", "lib"];

/// Returns the requirements in a `pyproject.toml` in the syntax of METADATA; `None` if it does not
/// state them (PEP 621: `dependencies` may be dynamic, and then must not be there).
fn of_pyproject(text: &str) -> Option<String> {
    let root: toml::Table = text.parse().ok()?;
    let project = root.get("project")?.as_table()?;
    let strings = |value: &toml::Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let dynamic = project.get("dynamic").and_then(strings).unwrap_or_default();
    let is_dynamic = |key: &str| dynamic.iter().any(|name| name == key);
    if is_dynamic("dependencies") || is_dynamic("optional-dependencies") {
        return None;
    }
    let mut metadata = String::new();
    for requirement in project.get("dependencies").map_or(Some(Vec::new()), strings)? {
        metadata += &format!("Requires-Dist: {requirement}\n");
    }
    for (extra, list) in
        project.get("optional-dependencies").and_then(toml::Value::as_table).into_iter().flatten()
    {
        metadata += &format!("Provides-Extra: {extra}\n");
        for requirement in strings(list)? {
            let (subject, marker) = requirement.split_once(';').unwrap_or((&requirement, ""));
            let and = if marker.trim().is_empty() {
                String::new()
            } else {
                format!("({}) and ", marker.trim())
            };
            metadata += &format!("Requires-Dist: {} ; {and}extra == '{extra}'\n", subject.trim());
        }
    }
    Some(metadata)
}

/// Returns the lines of a requirements file that are not empty, with their numbers: without
/// comments, and with continuation lines joined.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        let line = if line.trim_start().starts_with('#') { "" } else { line };
        let line = line.split(" #").next().unwrap_or_default().trim();
        let (content, goes_on) =
            line.strip_suffix('\\').map_or((line, false), |content| (content.trim_end(), true));
        match lines.last_mut().filter(|_| open) {
            Some((_, last)) => *last = format!("{last} {content}").trim().to_owned(),
            None if content.is_empty() && !goes_on => {}
            None => lines.push((at + 1, content.to_owned())),
        }
        open = goes_on;
    }
    lines.retain(|(_, content)| !content.is_empty());
    lines
}

/// Returns the path of a file that another file names, if it is inside the source.
fn beside(path: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if file.starts_with('/') || file.contains("://") {
        return None;
    }
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipe_has_fixed_bytes() {
        let (file, find) = ("setup.py".to_owned(), "a\"b".to_owned());
        let text = recipe_text("x", "sha256:00", &["r.txt"], &[(&file, &find, "c".into(), 2)]);
        let bytes = r#"["x","sha256:00",["r.txt"],[["setup.py","a\"b","c",2]]]"#;
        assert_eq!(text, format!("requirements of a source 1\n{bytes}\n"));
    }

    #[test]
    fn stated_requirements_round_trip_through_cache() {
        let needs = Needs::read(
            "Provides-Extra: fast\nRequires-Dist: a>=1 ; extra == 'fast'\nRequires-Dist: b[c]\n",
        );
        let stated = |metadata: Option<&str>| StatedRequirements {
            name: "demo".into(),
            needs: needs.clone(),
            metadata: metadata.map(str::to_owned),
        };
        let metadata = "Name: demo\nVersion: 1\nProvides-Extra: fast\nRequires-Dist: a>=1 ; extra == 'fast'\nRequires-Dist: b[c]\n";
        for of in [stated(None), stated(Some(metadata))] {
            let again = StatedRequirements::from_remembered(&of.to_remembered()).unwrap();
            let texts = |of: &StatedRequirements| {
                of.needs.requires.iter().map(|need| need.text.clone()).collect::<Vec<_>>()
            };
            assert_eq!(
                (&again.name, &again.metadata, texts(&again)),
                (&of.name, &of.metadata, texts(&of))
            );
            assert_eq!(again.needs.extras, of.needs.extras);
        }
        assert!(StatedRequirements::from_remembered("damaged").is_none());
    }

    #[test]
    fn joins_lines_and_drops_comments() {
        let text = "# a\nb>=1 # c\n\nd \\\n  --hash=x \\\n  --hash=y\n  e==2;os_name=='nt'\n-r f.txt\n\\\n";
        let read: Vec<(usize, String)> = lines(text);
        let expected =
            [(2, "b>=1"), (4, "d --hash=x --hash=y"), (7, "e==2;os_name=='nt'"), (8, "-r f.txt")];
        assert_eq!(read, expected.map(|(at, line)| (at, line.to_owned())));
    }

    #[test]
    fn included_files_stay_in_the_source() {
        assert_eq!(
            beside("requirements/rocm.txt", "common.txt").as_deref(),
            Some("requirements/common.txt")
        );
        assert_eq!(beside("requirements/rocm.txt", "../a/./b.txt").as_deref(), Some("a/b.txt"));
        for out in ["../../x", "/etc/x", "https://h/x"] {
            assert_eq!(beside("requirements/rocm.txt", out), None, "{out}");
        }
    }

    #[test]
    fn reads_requirements_from_pyproject() {
        let text = "[project]\nname = 'a'\ndependencies = ['b>=1', \"c; os_name == 'nt'\"]\n\
                    [project.optional-dependencies]\nx = ['d', \"e; python_version < '4'\"]\nall = ['a[x]']\n";
        let metadata = of_pyproject(text).unwrap();
        let stated = StatedRequirements {
            name: "a".into(),
            needs: needs(&metadata, "a").unwrap(),
            metadata: None,
        };
        let here = Environment::new("3.14", "x86_64", None).unwrap();
        let holding = |extras: &[&str]| {
            let extras = extras.iter().map(|extra| (*extra).to_owned()).collect();
            stated
                .holding(&here, &extras)
                .iter()
                .map(|need| need.name().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(holding(&[]), ["b"]);
        assert_eq!(holding(&["all"]), ["b", "d", "e"], "a requirement on itself requests an extra");
        assert_eq!(of_pyproject("[project]\ndynamic = ['dependencies']\n"), None);
        assert_eq!(of_pyproject("[tool.x]\n"), None);
        assert_eq!(of_pyproject("[project]\nname = 'a'\n").as_deref(), Some(""));
    }
}
