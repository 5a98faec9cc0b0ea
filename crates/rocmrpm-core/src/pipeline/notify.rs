//! The summary of a run, and the command that gets it.

use std::path::Path;
use std::time::Duration;

use super::End;
use crate::error::Error;
use crate::events::{Event, Events};
use crate::evidence::{Chain, EvidenceRecord};
use crate::process::Command;

/// How long the command may take. A run at night has no one to stop it.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns the summary of a run as plain text: how it ended, and its records.
fn summary(pins: &str, end: &Result<End, Error>, records: &[EvidenceRecord]) -> String {
    let mut text = match end {
        Ok(End::Done) => format!("The pipeline of {pins} passed.\n"),
        Ok(End::Question { stage, question, .. }) => format!(
            "The pipeline of {pins} stopped at {}: {}\n\nhelp: {}\n",
            stage.name(),
            question.what,
            question.help
        ),
        Err(error) => {
            let help = error.help().iter().map(|help| format!("\nhelp: {help}\n"));
            format!("The pipeline of {pins} failed: {error}\n{}", help.collect::<String>())
        }
    };
    text.push('\n');
    for EvidenceRecord { number, stage, chroot, outcome, summary, details, .. } in records {
        let chroot = chroot.as_ref().map(|of| format!(" for {of}")).unwrap_or_default();
        text += &format!("{number} {stage}{chroot} {}: {summary}\n", outcome.name());
        for line in details {
            text += &format!("    {line}\n");
        }
    }
    text
}

/// Passes the summary of a run to the command that the user configured, if the run wrote a record. A
/// command that fails is a warning: the run itself is over.
pub(super) fn notify(
    command: &[String],
    (home, pins): (&Path, &str),
    end: &Result<End, Error>,
    (chain, before): (&Chain, usize),
    events: &dyn Events,
) {
    let [program, args @ ..] = command else { return };
    let records: Vec<EvidenceRecord> = chain.records().skip(before).cloned().collect();
    if records.is_empty() {
        return;
    }
    let run = Command::new(program).args(args).cwd(home).runs_code_of(home).timeout(Some(LIMIT));
    if let Err(error) = run.stdin(summary(pins, end, &records)).output() {
        events.event(Event::Warning(format!("`notify` of pipeline.toml failed: {error}")));
    }
}
