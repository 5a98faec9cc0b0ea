//! The stage that moves pins to newer releases: each component by itself, or the whole set derived from
//! the release of one component. Each move is a commit of the branch.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};

use super::stage::Flow;
use super::{Pipeline, PipelineStage};
use crate::digest::Sha256;
use crate::error::{Error, IoError, Kind};
use crate::events::{Event, StageState};
use crate::evidence::{Chain, Draft, OpenQuestion, Outcome};
use crate::files;
use crate::pins::derive::{self, DeriveError, Followed, derive};
use crate::pins::{Outdated, OutdatedState, Update, lock_set, update, write_set};
use crate::process::quote;
use crate::sources::Moving;
use crate::stack::KeyInputs;
use crate::workspace::document::File;
use crate::workspace::{Workspace, WorkspaceError};

/// The name of the stage in records.
const NAME: &str = PipelineStage::Update.name();
/// The inputs of a record: the component that moved, its version, and the pin set afterwards.
const COMPONENT: &str = "component";
const VERSION: &str = "version";
const PINS: &str = "pins";

/// A move of pins that is not written yet.
struct Move {
    /// The subject of the commit.
    subject: String,
    /// The text of the pin set.
    text: String,
    /// The text of its lock file.
    lock: String,
    /// The values that change.
    lines: Vec<String>,
    question: Option<OpenQuestion>,
}

impl Pipeline<'_> {
    /// Moves the pins. Stops at the first move that a person has to review.
    pub(super) fn update(&self, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.first_workspace()?;
        if let Some(question) = open(chain, &workspace) {
            // A newer release does not answer it: what changed would never be reviewed.
            self.send(StageState::Question(question.what.clone()));
            return Ok(Flow::Stop(question));
        }
        let mut candidates = match self.request.offline {
            true => Vec::new(),
            false => self.candidates(&workspace)?,
        };
        candidates.sort_by_key(|row| self.settings.from.as_deref() != Some(row.component.as_str()));
        if candidates.is_empty() {
            self.send(StageState::Unchanged);
            return Ok(Flow::Continue);
        }
        self.send(StageState::Started);
        for candidate in &candidates {
            crate::process::check_stop()?;
            if let Some(question) = self.take(candidate, chain)? {
                self.send(StageState::Question(question.what.clone()));
                return Ok(Flow::Stop(question));
            }
        }
        Ok(Flow::Continue)
    }

    fn send(&self, state: StageState) {
        self.events.event(Event::Stage { stage: NAME, chroot: None, state });
    }

    /// Returns the components to move.
    fn candidates(&self, workspace: &Workspace) -> Result<Vec<Outdated>, Error> {
        let from = self.settings.from.as_deref();
        if let Some(name) = from {
            workspace.component(name)?;
        }
        let skipped = |row: &Outdated| {
            self.settings.skip.iter().any(|(name, version)| {
                *name == row.component && Some(version) == row.newest.as_ref()
            })
        };
        // The others follow from the files of that component.
        let derived = |row: &Outdated| {
            from.is_some_and(|from| from != row.component)
                && workspace.upstreams.component(&row.component).is_some()
        };
        let mut rows = self.outdated(workspace)?;
        rows.retain(|row| {
            row.state == OutdatedState::Outdated
                && row.source.is_none()
                && !skipped(row)
                && !derived(row)
                && !is_generated(workspace, &row.component)
        });
        Ok(rows)
    }

    /// Moves one component. Returns the question if a person has to decide.
    fn take(&self, row: &Outdated, chain: &mut Chain) -> Result<Option<OpenQuestion>, Error> {
        let (name, version) = (row.component.as_str(), row.newest.clone().unwrap_or_default());
        let mut inputs = KeyInputs::default();
        inputs.add(COMPONENT, name);
        inputs.add(VERSION, &version);
        let mut draft = Draft::new(NAME, None, inputs);
        let moved = match self.refusal(row)? {
            Some(question) => Ok((Some(question), None)),
            None => self.moved(name, &version).map(|moved| match moved {
                Ok(moved) => (moved.question.clone(), Some(moved)),
                Err(question) => (Some(question), None),
            }),
        };
        let (question, moved) = match moved {
            Ok(moved) => moved,
            Err(error) if error.kind() == Kind::Interrupted => return Err(error),
            Err(error) => {
                draft.fail(chain, &error)?;
                return Err(error);
            }
        };
        let pins = self.first_workspace()?.pins.file.text;
        let text = moved.as_ref().map_or(&pins, |moved| &moved.text);
        draft.inputs.add(PINS, Sha256::of_bytes(text));
        draft.question.clone_from(&question);
        draft.summary = format!("{name} {} -> {version}", row.pinned);
        let last = chain.last(NAME, None).filter(|last| last.key == draft.inputs.key());
        let accepted = last.is_some_and(|last| last.outcome == Outcome::Accepted);
        let known = last.is_some();
        if let Some(Move { subject, text, lock, lines, .. }) = moved {
            draft.details = lines;
            // The record comes first: a question must not get lost if the process is killed.
            if !known {
                draft.finish(chain)?;
            }
            let [file, lock_file] = ["toml", "lock"].map(|end| format!("pins/{}.{end}", self.pins));
            self.place.commit(&[file.clone(), lock_file.clone()], &subject, || {
                write_set(&self.place.root, &file, &text)?;
                let path = self.place.root.join(&lock_file);
                let written = files::write_durably(&path, &lock);
                Ok(written.map_err(IoError::doing(format!("write `{lock_file}`")))?)
            })?;
            self.send(StageState::Passed(subject));
        } else if !known {
            draft.finish(chain)?;
        }
        Ok(question.filter(|_| !accepted))
    }

    /// Returns the question if a release cannot be taken in one of the chroots.
    fn refusal(&self, row: &Outdated) -> Result<Option<OpenQuestion>, Error> {
        let Some(range) = &row.newest_python else { return Ok(None) };
        let Ok(specifiers) = VersionSpecifiers::from_str(range) else { return Ok(None) };
        for chroot in self.chroots {
            let python = self.workspace(chroot)?.chroot.python;
            let Ok(python) = Version::from_str(&python) else { continue };
            if !specifiers.contains(&python) {
                let (name, newest) = (&row.component, row.newest.as_deref().unwrap_or_default());
                return Ok(Some(OpenQuestion {
                    what: format!(
                        "{name} {newest} requires Python {range}, and {chroot} has {python}"
                    ),
                    help: skip_help(name, newest),
                    acceptable: false,
                }));
            }
        }
        Ok(None)
    }

    /// Computes the pins with another version of a component.
    fn moved(&self, name: &str, version: &str) -> Result<Result<Move, OpenQuestion>, Error> {
        let workspace = self.first_workspace()?;
        match self.settings.from.as_deref() {
            Some(from) if from == name => self.derived(&workspace, version),
            _ => self.updated(&workspace, name, version).map(Ok),
        }
    }

    fn updated(&self, workspace: &Workspace, name: &str, version: &str) -> Result<Move, Error> {
        let fetcher = self.fetcher(workspace, self.events)?;
        let component = workspace.component(name)?;
        if let Some(follows) = &workspace.pin(component).follows {
            let branch = &follows.branch;
            let text = workspace.pins.file.text.clone();
            return Ok(Move {
                subject: format!("Update {name} to {version} of {branch}"),
                lock: self.locked_with(workspace, &text, Moving::Only(name))?,
                text,
                lines: vec![format!("{name} {branch} -> {version}")],
                question: None,
            });
        }
        let (update, text) = update(workspace, component, Some(version), &fetcher)?;
        let line = |changed: &crate::pins::Changed| {
            format!(
                "{} {} -> {}",
                changed.key,
                changed.old.as_deref().unwrap_or("(new)"),
                changed.new
            )
        };
        let text = text.text();
        Ok(Move {
            subject: format!("Update {name} to {}", update.new),
            lock: self.locked(workspace, &text)?,
            text,
            lines: update.changed.iter().map(line).collect(),
            question: self.review(&update),
        })
    }

    /// Returns the lock file of the set with a text that is not written yet.
    fn locked(&self, workspace: &Workspace, text: &str) -> Result<String, Error> {
        self.locked_with(workspace, text, Moving::Nothing)
    }

    fn locked_with(
        &self,
        workspace: &Workspace,
        text: &str,
        moving: Moving<'_>,
    ) -> Result<String, Error> {
        let fetcher = self.fetcher(workspace, self.events)?.moves(moving);
        let pins = File { name: workspace.pins.file.name.clone(), text: text.to_owned() };
        Ok(lock_set(&workspace.root, self.pins, pins, &fetcher)?.text)
    }

    /// Returns the question if an update changes what only a person can judge.
    fn review(&self, update: &Update) -> Option<OpenQuestion> {
        let mut what = Vec::new();
        for kept in &update.kept {
            what.push(format!(
                "its source `{}` stays at {}: {}",
                kept.source, kept.version, kept.reason
            ));
        }
        if let Some(changes) = &update.upstream {
            if !changes.gpu_lost.is_empty() {
                what.push(format!("upstream no longer lists {}", changes.gpu_lost.join(", ")));
            }
            let licenses: Vec<&str> =
                changes.licenses.iter().map(|moved| moved.name.as_str()).collect();
            if !licenses.is_empty() {
                what.push(format!("its license files changed: {}", licenses.join(", ")));
            }
        }
        let root = quote(&self.place.root.to_string_lossy());
        (!what.is_empty()).then(|| OpenQuestion {
            what: format!("{} {}: {}", update.component, update.new, what.join("; ")),
            help: format!(
                "correct the component in {root} and commit, then run `rocmrpm pipeline accept --pins {}`",
                self.pins
            ),
            acceptable: true,
        })
    }

    /// Derives the set from a release.
    fn derived(
        &self,
        workspace: &Workspace,
        version: &str,
    ) -> Result<Result<Move, OpenQuestion>, Error> {
        let from = self.settings.from.as_deref().unwrap_or_default();
        let has_component = |name: &str| {
            matches!(workspace.component(name), Ok(_) | Err(WorkspaceError::Unpinned { .. }))
        };
        let choices = &self.settings.choose;
        let request = derive::Request {
            from: (from, version),
            choices: choices.iter().map(|(name, of)| (name.as_str(), of.as_str())).collect(),
            base: &workspace.pins,
            upstreams: &workspace.upstreams,
            has_component: &has_component,
        };
        let fetcher = self.fetcher(workspace, self.events)?;
        let reader = self.fetcher(workspace, self.events)?;
        match derive(&request, &fetcher, &reader)? {
            derive::Outcome::Set(set) => {
                let moved = set.decisions.iter().filter(|(_, one)| one.followed != Followed::Base);
                let lines = moved.map(|(name, one)| format!("{name} {}", one.version)).collect();
                Ok(Ok(Move {
                    subject: format!("Derive {} from {from} {version}", self.pins),
                    lock: self.locked(workspace, &set.text)?,
                    text: set.text,
                    lines,
                    question: None,
                }))
            }
            derive::Outcome::Contradictions { list, unreachable } => {
                let from = format!("{from}={version}");
                let error: Error = DeriveError::Contradictions { from, list, unreachable }.into();
                let details = error.details().join("; ");
                Ok(Err(OpenQuestion {
                    what: format!("{error}: {details}"),
                    help: "add `choose = [\"NAME=VERSION\"]` to pipeline.toml".to_owned(),
                    acceptable: false,
                }))
            }
        }
    }
}

/// Returns the question of the last move, if it still has to be reviewed: it was not accepted, and the
/// pins are those that it made.
fn open(chain: &Chain, workspace: &Workspace) -> Option<OpenQuestion> {
    let last = chain.last(NAME, None).filter(|last| last.outcome == Outcome::Question)?;
    let question = last.question.clone().filter(|question| question.acceptable)?;
    let now = Sha256::of_bytes(&workspace.pins.file.text).to_string();
    let same = last.inputs.get(PINS) == Some(now.as_str());
    same.then_some(question)
}

fn is_generated(workspace: &Workspace, name: &str) -> bool {
    workspace.component(name).is_ok_and(|component| workspace.pins.is_generated(&component.name))
}

fn skip_help(name: &str, version: &str) -> String {
    format!("add `skip = [\"{name}={version}\"]` to pipeline.toml to stay at the pinned version")
}
