//! The stages that find newer releases and move the pins to them.

use super::stage::{self, Flow, When};
use super::{Pipeline, PipelineStage, releases};
use crate::closure::Origin;
use crate::closure::lock::Lock as ClosureLock;
use crate::digest::Sha256;
use crate::error::Error;
use crate::evidence::{Chain, Question};
use crate::pins::{Outdated, OutdatedState, PinsError, outdated, outdated_members};
use crate::stack::KeyInputs;
use crate::style::count;
use crate::workspace::Workspace;

impl Pipeline<'_> {
    /// Lists the newer releases of components, members of the closure, ROCm, and the distribution.
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
            let mut withdrawn = Vec::new();
            for row in &rows {
                match (row.state, &row.newest) {
                    (OutdatedState::Outdated, Some(newest)) => {
                        draft.details.push(format!("{} {} -> {newest}", row.component, row.pinned));
                    }
                    (OutdatedState::Withdrawn, newest) => {
                        let newest = newest.as_deref().unwrap_or("unknown");
                        withdrawn.push(format!(
                            "{} {} was withdrawn: {} no longer lists it; the newest release is {newest}",
                            row.component, row.pinned, row.place
                        ));
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
            if let Some(first) = withdrawn.first() {
                // A decision about these does not depend on other releases.
                draft.inputs = KeyInputs::default();
                for line in &withdrawn {
                    draft.inputs.add(format!("found {line}"), "");
                }
                draft.details.extend(withdrawn.iter().skip(1).cloned());
                let root = crate::process::quote(&self.place.root.to_string_lossy());
                draft.question = Some(Question {
                    what: first.clone(),
                    help: format!(
                        "to keep it, run `rocmrpm pipeline accept --pins {0}`; to go back, run `rocmrpm -C {root} \
                         pins update --pins {0} NAME VERSION` and commit",
                        self.pins
                    ),
                    acceptable: true,
                });
            }
            Ok(false)
        })
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
            lock.packages.iter().filter(|one| matches!(one.origin, Origin::Index { .. }));
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
