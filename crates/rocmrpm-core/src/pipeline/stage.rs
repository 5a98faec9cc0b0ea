//! The stages of a pipeline, in their order, and how one runs: an earlier run that finished it with the
//! same inputs counts, and the result is a record.

use super::PipelineStage;
use crate::error::{Error, Kind};
use crate::events::{Event, Events, StageState};
use crate::evidence::{Chain, Draft, OpenQuestion, Outcome};
use crate::stack::KeyInputs;

/// Whether the next stage follows.
#[derive(Debug)]
pub(super) enum Flow {
    Continue,
    /// A person has to decide.
    Stop(OpenQuestion),
}

/// When a stage runs, and when its record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// If its inputs differ from those of its last record.
    Changed,
    /// Always, because it depends on more than its inputs. A record is written if it did something.
    Always,
}

/// Runs a stage. `work` returns whether it did something.
pub(super) fn run(
    stage: PipelineStage,
    chroot: Option<&str>,
    (inputs, when): (KeyInputs, When),
    chain: &mut Chain,
    events: &dyn Events,
    work: impl FnOnce(&mut Draft, &Chain) -> Result<bool, Error>,
) -> Result<Flow, Error> {
    let name = stage.name();
    let send = |state: StageState| {
        let chroot = chroot.map(str::to_owned);
        events.event(Event::Stage { stage: name, chroot, state });
    };
    let done =
        chain.last(name, chroot).is_some_and(|last| last.is_done() && last.key == inputs.key());
    if done && when == When::Changed {
        send(StageState::Unchanged);
        return Ok(Flow::Continue);
    }
    send(StageState::Started);
    let mut draft = Draft::new(name, chroot, inputs);
    let worked = match work(&mut draft, chain) {
        Ok(worked) => worked,
        // Nothing is known about a stage that was stopped.
        Err(error) if error.kind() == Kind::Interrupted => return Err(error),
        Err(error) => {
            draft.fail(chain, &error)?;
            return Err(error);
        }
    };
    if let Some(question) = draft.question.clone() {
        let last = chain.last(name, chroot).filter(|last| last.key == draft.inputs.key());
        let last = last.map(|last| last.outcome);
        if last == Some(Outcome::Accepted) {
            send(StageState::Unchanged);
            return Ok(Flow::Continue);
        }
        send(StageState::Question(question.what.clone()));
        // The same question is recorded once.
        if last != Some(Outcome::Question) {
            draft.finish(chain)?;
        }
        return Ok(Flow::Stop(question));
    }
    let same = chain
        .last(name, chroot)
        .is_some_and(|last| last.is_done() && last.key == draft.inputs.key());
    if same && !worked {
        send(StageState::Unchanged);
        return Ok(Flow::Continue);
    }
    send(StageState::Passed(draft.summary.clone()));
    draft.finish(chain)?;
    Ok(Flow::Continue)
}
