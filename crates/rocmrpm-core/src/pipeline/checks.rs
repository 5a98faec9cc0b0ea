//! The stages between new pins and a build: the lock, the checks of the pins, patches and edits, and the
//! downloads of the build.

use std::path::Path;

use super::stage::{self, Flow, When};
use super::{Pipeline, PipelineStage};
use crate::audit;
use crate::container;
use crate::digest::Sha256;
use crate::error::{Error, IoError, Kind};
use crate::evidence::{Chain, ComponentEvidence, OpenQuestion, Outcome};
use crate::files;
use crate::patches::{self, PatchState, Series};
use crate::pins::check::{Severity, check};
use crate::pins::lock_set;
use crate::prep;
use crate::process::quote;
use crate::sources::identities;
use crate::stack::{KeyInputs, Stack};
use crate::style::count;
use crate::tier::Tier;
use crate::workspace::{Component, UPSTREAMS, Workspace};

impl Pipeline<'_> {
    /// Completes the lock file, and renders the container files of the default pin set.
    pub(super) fn lock(&self, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.first_workspace()?;
        let mut inputs = KeyInputs::default();
        inputs.add("pins", Sha256::of_bytes(&workspace.pins.file.text));
        inputs.add("commit", format!("git:{}", self.place.head()?));
        // A tag that moved, or a file that changed, shows only when it is asked for.
        let always = (inputs, When::Always);
        stage::run(PipelineStage::Lock, None, always, chain, self.events, |draft, chain| {
            let mut fetcher = self.fetcher(&workspace, self.events)?;
            let newer = chain.last(PipelineStage::Newer.name(), None);
            if newer.is_some_and(|record| record.outcome == Outcome::Accepted) {
                // A release that was withdrawn and is kept has no tag to ask for.
                fetcher = fetcher.offline(true);
                let line = "not compared with upstream, which withdrew a release that is kept";
                draft.details.push(line.to_owned());
            }
            let pins = workspace.pins.file.clone();
            let lock = lock_set(&workspace.root, self.pins, pins, &fetcher)?;
            let mut texts = vec![(lock.name.clone(), lock.text.clone())];
            // The files of other sets would have the same names.
            if workspace.pins.name == workspace.manifest.default_pins.value {
                for (path, text) in container::wanted(&workspace)? {
                    let path = path.strip_prefix(&workspace.root).unwrap_or(&path);
                    texts.push((path.display().to_string(), text));
                }
            }
            let root = &self.place.root;
            let old = |path: &str| fs_err::read_to_string(root.join(path)).unwrap_or_default();
            texts.retain(|(path, text)| old(path) != *text);
            let names: Vec<String> = texts.iter().map(|(path, _)| path.clone()).collect();
            if !names.is_empty() {
                let subject = format!("Lock {}", self.pins);
                self.place.commit(&names, &subject, || write_all(root, &texts))?;
            }
            draft.inputs.add("commit", format!("git:{}", self.place.head()?));
            draft.summary = count(lock.locked.lock.entries.len(), "source");
            if !lock.locked.unseen.is_empty() {
                let unseen = lock.locked.unseen.join(", ");
                draft.details.push(format!("recorded only by digest or commit: {unseen}"));
            }
            Ok(!names.is_empty())
        })
    }

    /// Compares the pins with upstream's files and each other.
    pub(super) fn check(&self, chroot: &str, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.workspace(chroot)?;
        let inputs = (pins_inputs(&workspace)?, When::Changed);
        let stage = PipelineStage::Check;
        stage::run(stage, Some(chroot), inputs, chain, self.events, |draft, _| {
            // Fails for stacks that cannot be planned at all.
            Stack::new(&workspace)?;
            let fetcher = self.fetcher(&workspace, self.events)?;
            let report = check(&workspace, &fetcher)?;
            let line = |finding: &crate::pins::check::Finding| {
                format!("{}:{}: {}", finding.file, finding.line, finding.message)
            };
            let errors = report.findings.iter().filter(|f| f.severity == Severity::Error);
            let errors: Vec<String> = errors.map(line).collect();
            let warnings = report.findings.iter().filter(|f| f.severity == Severity::Warning);
            draft.details.extend(warnings.map(line));
            let lost = report.not_looked_at.iter();
            draft.details.extend(lost.map(|l| format!("not checked: {}: {}", l.source, l.reason)));
            draft.summary = format!("pins/{}.toml has no contradictions", self.pins);
            if let Some(first) = errors.first() {
                draft.question = Some(OpenQuestion {
                    what: match errors.len() {
                        1 => first.clone(),
                        n => format!("{first}; and {}", count(n - 1, "other error")),
                    },
                    help: self.correct("run `rocmrpm pins check` there, correct the pins"),
                    acceptable: true,
                });
                draft.details.extend(errors.into_iter().skip(1));
            }
            Ok(true)
        })
    }

    /// Tries the patches and edits of all components.
    pub(super) fn patches(&self, chroot: &str, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.workspace(chroot)?;
        let has = |c: &&Component| !c.patches.is_empty() || !c.edits.is_empty();
        let components: Vec<&Component> = workspace.components.values().filter(has).collect();
        let inputs = (component_inputs(&workspace, &components)?, When::Changed);
        let stage = PipelineStage::Patches;
        stage::run(stage, Some(chroot), inputs, chain, self.events, |draft, _| {
            let fetcher = self.fetcher(&workspace, self.events)?;
            let mut failing = Vec::new();
            for component in &components {
                let pin = workspace.pin(component);
                let series = patches::status(&workspace, component, pin, &fetcher)?;
                if series.fails() {
                    draft.details.extend(failures(&series));
                    failing.push(series);
                }
            }
            let all = count(components.len(), "component");
            draft.summary = format!("all patches and edits of {all} apply");
            if !failing.is_empty() {
                let names: Vec<String> =
                    failing.iter().map(|s| format!("{} {}", s.component, s.version)).collect();
                let a_patch = failing.iter().any(Series::a_patch_fails);
                let what = match a_patch {
                    true => "run `rocmrpm patch refresh` there, or change the patch",
                    false => "change the edits in component.toml there",
                };
                draft.summary = format!("patches or edits do not apply to {}", names.join(", "));
                draft.question = Some(OpenQuestion {
                    what: draft.summary.clone(),
                    help: self.correct(what),
                    acceptable: false,
                });
            }
            Ok(true)
        })
    }

    /// Runs `%prep` of each component that changed, and finds the downloads of its build.
    pub(super) fn audit(&self, chroot: &str, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.workspace(chroot)?;
        let stack = Stack::new(&workspace)?;
        let components: Vec<&Component> = stack.order().to_vec();
        let inputs = component_inputs(&workspace, &components)?;
        let changed = (inputs.clone(), When::Changed);
        let stage = PipelineStage::Audit;
        stage::run(stage, Some(chroot), changed, chain, self.events, |draft, chain| {
            let before = chain.records().rfind(|record| {
                record.stage == stage.name()
                    && record.chroot.as_deref() == Some(chroot)
                    && record.is_done()
            });
            let known = |component: &Component| {
                let name = component.name.as_str();
                before.is_some_and(|record| record.inputs.get(name) == inputs.get(name))
            };
            let mut open = Vec::new();
            let new: Vec<&&Component> = components.iter().filter(|c| !known(c)).collect();
            for component in &new {
                crate::process::check_stop()?;
                let pin = workspace.pin(component);
                let fetcher = self.fetcher(&workspace, self.events)?;
                let prepared = prep::prepared(&stack, component, &fetcher, self.events)?;
                let audit = audit::offline(component, pin, &prepared)?;
                let points = audit.open().map(|point| {
                    format!("{}: {}:{}: {}", audit.component, point.file, point.line, point.text)
                });
                let mistakes = audit.mistakes.iter().map(|mistake| {
                    format!("{}:{}: {}", mistake.file, mistake.line, mistake.problem)
                });
                let unread = audit.unread.iter().map(|file| format!("not read: {file}"));
                let found: Vec<String> = points.chain(mistakes).chain(unread).collect();
                open.extend(found);
                draft.components.push(ComponentEvidence {
                    component: component.name.to_string(),
                    version: pin.version.clone(),
                    tier: Some(Tier::Prepared),
                    ..ComponentEvidence::default()
                });
            }
            draft.summary = format!("{} prepared, no downloads", count(new.len(), "component"));
            if let Some(first) = open.first() {
                draft.question = Some(OpenQuestion {
                    what: match open.len() {
                        1 => format!("a build would download: {first}"),
                        n => format!("builds would download in {n} places; the first: {first}"),
                    },
                    help: self.correct(
                        "run `rocmrpm audit COMPONENT` there, add the source or a setting",
                    ),
                    acceptable: false,
                });
                draft.details.extend(open);
            }
            Ok(true)
        })
    }

    /// Returns the help of a question that is answered by changing files of the branch.
    pub(super) fn correct(&self, what: &str) -> String {
        let root = quote(&self.place.root.to_string_lossy());
        format!("cd {root}; {what}, and commit; then run the pipeline again")
    }
}

fn write_all(root: &Path, texts: &[(String, String)]) -> Result<(), Error> {
    for (path, text) in texts {
        files::write_durably(&root.join(path), text)
            .map_err(IoError::doing(format!("write `{path}`")))?;
    }
    Ok(())
}

/// Describes the patches and edits that do not apply.
fn failures(series: &Series) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |what: String, state: &PatchState| {
        if let PatchState::Fails { failures } = state {
            let problems: Vec<&str> = failures.iter().map(|one| one.problem.as_str()).collect();
            lines.push(format!("{what}: {}", problems.join("; ")));
        }
    };
    for patch in &series.patches {
        add(format!("{}: {}", series.component, patch.file), &patch.state);
    }
    for edit in &series.edits {
        add(format!("{}: edit of {}", series.component, edit.file), &edit.state);
    }
    lines
}

/// Returns what the check of the pins depends on.
fn pins_inputs(workspace: &Workspace) -> Result<KeyInputs, Error> {
    let mut inputs = KeyInputs::default();
    inputs.add("pins", Sha256::of_bytes(&workspace.pins.file.text));
    inputs.add("chroot", Sha256::of_bytes(&workspace.chroot.file.text));
    inputs.add("provider", Sha256::of_bytes(&workspace.provider.file.text));
    match fs_err::read(workspace.root.join("upstreams.toml")) {
        Ok(bytes) => inputs.add(UPSTREAMS, Sha256::of_bytes(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(IoError::doing("read upstreams.toml")(error).into()),
    }
    Ok(inputs)
}

/// Returns an input per component: the digest of its sources and of its folder.
fn component_inputs(workspace: &Workspace, components: &[&Component]) -> Result<KeyInputs, Error> {
    let mut inputs = KeyInputs::default();
    for component in components {
        let mut own = KeyInputs::default();
        for (name, identity) in identities(workspace.pin(component), &workspace.root)? {
            own.add(format!("source {name}"), identity);
        }
        for entry in walkdir::WalkDir::new(&component.dir).sort_by_file_name() {
            let entry = entry.map_err(|error| {
                Error::new(Kind::Environment, format!("cannot list a component: {error}"))
            })?;
            if entry.file_type().is_file() {
                let path = entry.path().strip_prefix(&component.dir).unwrap_or(entry.path());
                let digest = Sha256::of_file(entry.path());
                let digest = digest.map_err(IoError::doing("read a component"))?.0;
                own.add(format!("file {}", path.display()), digest);
            }
        }
        inputs.add(component.name.as_str(), own.key());
    }
    Ok(inputs)
}
