//! The stages that find newer releases and move the pins to them.

use super::stage::{self, Flow, When};
use super::{Pipeline, PipelineStage, releases};
use crate::closure::LockedOrigin;
use crate::closure::lock::Lock as ClosureLock;
use crate::digest::Sha256;
use crate::error::Error;
use crate::evidence::{Chain, OpenQuestion};
use crate::pins::{Outdated, OutdatedState, PinsError, outdated, outdated_members};
use crate::stack::KeyInputs;
use crate::style::count;
use crate::watch::watched;
use crate::workspace::Workspace;

impl Pipeline<'_> {
    /// Lists the newer releases of components, members of the closure, ROCm, and the distribution. A
    /// person has to decide about releases that were withdrawn, and entries of the watch list that are
    /// due.
    pub(super) fn newer(&self, chain: &mut Chain) -> Result<Flow, Error> {
        if self.request.offline {
            return Ok(Flow::Continue);
        }
        let workspace = self.first_workspace()?;
        let mut inputs = KeyInputs::default();
        inputs.add("pins", Sha256::of_bytes(&workspace.pins.file.text));
        let always = (inputs, When::Always);
        stage::run(PipelineStage::Newer, None, always, chain, self.events, |draft, _| {
            let rows = self.outdated(&workspace)?;
            let mut open = Vec::new();
            for row in &rows {
                match (row.state, &row.newest) {
                    (OutdatedState::Outdated, Some(newest)) => {
                        draft.details.push(format!("{} {} -> {newest}", row.component, row.pinned));
                    }
                    (OutdatedState::Withdrawn, newest) => {
                        let newest = newest.as_deref().unwrap_or("unknown");
                        let what = format!(
                            "{} {} was withdrawn: {} no longer lists it; the newest release is {newest}",
                            row.component, row.pinned, row.place
                        );
                        open.push((what, self.keep_or_go_back()));
                    }
                    (OutdatedState::Unreachable, _) => {
                        let error = row.error.as_deref().unwrap_or("unreachable");
                        draft.details.push(format!("not checked: {}: {error}", row.component));
                    }
                    _ => {}
                }
            }
            let newer = draft.details.iter().filter(|line| line.contains(" -> ")).count();
            draft.details.extend(self.members(&workspace)?);
            draft.details.extend(releases::newer(self)?);
            draft.summary = format!("{} of components", count(newer, "newer release"));
            for line in &draft.details {
                draft.inputs.add(format!("found {line}"), "");
            }
            open.extend(self.due(&workspace)?);
            if let Some((what, help)) = open.first().cloned() {
                // A decision about these does not depend on other releases.
                draft.inputs = KeyInputs::default();
                for (line, _) in &open {
                    draft.inputs.add(format!("found {line}"), "");
                }
                draft.details.extend(open.into_iter().skip(1).map(|(line, _)| line));
                draft.question = Some(OpenQuestion { what, help, acceptable: true });
            }
            Ok(false)
        })
    }

    /// Returns how to decide about a withdrawn release.
    fn keep_or_go_back(&self) -> String {
        let root = crate::process::quote(&self.place.root.to_string_lossy());
        format!(
            "to keep it, run `rocmrpm pipeline accept --pins {0}`; to go back, run `rocmrpm -C {root} \
             pins update --pins {0} NAME VERSION` and commit",
            self.pins
        )
    }

    /// Returns the entries of the watch list that are due, each with how to decide about it.
    fn due(&self, workspace: &Workspace) -> Result<Vec<(String, String)>, Error> {
        let fetcher = self.fetcher(workspace, self.events)?;
        let due = watched(workspace, &[], &fetcher)?.into_iter().filter(|entry| entry.due);
        Ok(due
            .map(|entry| {
                let state = entry.state.map_or("", crate::workspace::WatchState::name);
                let pins = match entry.pins.is_empty() {
                    true => entry.components.join(", "),
                    false => entry.pins.join(", "),
                };
                let what = format!("{} is {state}, which {pins} waited for", entry.url);
                let help = format!(
                    "{}, remove the entry from watch.toml, and commit; to do it later, run `rocmrpm pipeline \
                     accept --pins {}`",
                    entry.action, self.pins
                );
                (what, help)
            })
            .collect())
    }

    /// Compares the pins with upstream's releases. Fails if no origin answers.
    pub(super) fn outdated(&self, workspace: &Workspace) -> Result<Vec<Outdated>, Error> {
        let fetcher = self.fetcher(workspace, self.events)?;
        let rows = outdated(workspace, &[], &fetcher, false)?;
        let asked = rows.iter().filter(|row| row.state != OutdatedState::NotKnown).count();
        let lost = rows.iter().filter(|row| row.state == OutdatedState::Unreachable).count();
        if lost > 0 && lost == asked {
            return Err(PinsError::NoneReached { origins: count(asked, "origin") }.into());
        }
        Ok(rows)
    }

    /// Returns a line for each member of the Python closure with a newer release. Moving them means
    /// resolving the closure again, which `rocmrpm closure --write --upgrade` does.
    fn members(&self, workspace: &Workspace) -> Result<Vec<String>, Error> {
        let Some(lock) = ClosureLock::read(&workspace.closure_lock())? else {
            return Ok(Vec::new());
        };
        let of_index =
            lock.packages.iter().filter(|one| matches!(one.origin, LockedOrigin::Index { .. }));
        let wanted: Vec<_> = of_index.map(|one| (one.name.as_str(), None)).collect();
        let fetcher = self.fetcher(workspace, self.events)?;
        let members = outdated_members(&lock, &wanted, &fetcher, false)?;
        let newer = members.iter().filter(|member| member.state == OutdatedState::Outdated);
        Ok(newer
            .map(|member| {
                let newest = member.newest.as_deref().unwrap_or_default();
                format!("member of the closure: {} {}, newest {newest}", member.name, member.locked)
            })
            .collect())
    }
}
