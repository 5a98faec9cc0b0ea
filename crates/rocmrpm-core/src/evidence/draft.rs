//! A record that is being made while its stage runs.

use std::path::PathBuf;
use std::time::Instant;

use jiff::Timestamp;

use super::chain::Chain;
use super::error::EvidenceError;
use super::record::{ComponentEvidence, EvidenceRecord, OpenQuestion, Outcome};
use super::surroundings::{this_machine, tools};
use crate::error::Error;
use crate::stack::KeyInputs;

/// What a stage states, before its record is written.
pub struct Draft {
    stage: &'static str,
    chroot: Option<String>,
    started: Timestamp,
    since: Instant,
    /// The inputs.
    pub inputs: KeyInputs,
    /// What the stage shows about components.
    pub components: Vec<ComponentEvidence>,
    /// The result in one line.
    pub summary: String,
    /// Further lines.
    pub details: Vec<String>,
    /// What a person has to decide.
    pub question: Option<OpenQuestion>,
    /// Logs to keep.
    pub logs: Vec<PathBuf>,
}

impl Draft {
    /// Starts the record of a stage with these inputs.
    pub fn new(stage: &'static str, chroot: Option<&str>, inputs: KeyInputs) -> Self {
        Self {
            stage,
            chroot: chroot.map(str::to_owned),
            started: Timestamp::now(),
            since: Instant::now(),
            inputs,
            components: Vec::new(),
            summary: String::new(),
            details: Vec::new(),
            question: None,
            logs: Vec::new(),
        }
    }

    /// Writes the record of a stage that passed, or has a question.
    pub fn finish(self, chain: &mut Chain) -> Result<&EvidenceRecord, EvidenceError> {
        let outcome = if self.question.is_some() { Outcome::Question } else { Outcome::Passed };
        self.write(chain, outcome)
    }

    /// Writes the record of a stage that failed.
    pub fn fail<'c>(
        mut self,
        chain: &'c mut Chain,
        error: &Error,
    ) -> Result<&'c EvidenceRecord, EvidenceError> {
        let problems = error.problems().iter().map(|problem| problem.message.clone());
        self.details.extend(problems);
        self.details.extend(error.causes());
        self.details.extend(error.details().iter().cloned());
        self.details.extend(error.help().iter().map(|help| format!("help: {help}")));
        self.summary = error.to_string();
        self.question = None;
        self.write(chain, Outcome::Failed)
    }

    /// Writes the record of a person's decision.
    pub fn accept(self, chain: &mut Chain) -> Result<&EvidenceRecord, EvidenceError> {
        self.write(chain, Outcome::Accepted)
    }

    fn write(self, chain: &mut Chain, outcome: Outcome) -> Result<&EvidenceRecord, EvidenceError> {
        let time = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let logs = self
            .logs
            .iter()
            .map(|log| chain.keep_log(log))
            .collect::<Result<_, EvidenceError>>()?;
        chain.append(EvidenceRecord {
            schema: String::new(),
            number: 0,
            previous: None,
            pins: String::new(),
            chroot: self.chroot,
            stage: self.stage.to_owned(),
            outcome,
            key: self.inputs.key(),
            inputs: self.inputs,
            components: self.components,
            tools: tools().clone(),
            machine: this_machine(),
            started: time(self.started),
            finished: time(Timestamp::now()),
            // Milliseconds are enough, and survive any reader of JSON.
            seconds: (self.since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
            summary: self.summary,
            details: self.details,
            question: self.question,
            logs,
        })
    }
}
