//! Checks that programs can use the GPUs of a machine. What is read and what it means is in
//! `gpu_machine`.

use std::path::Path;

use super::{Check, Outcome};
use crate::gpu_machine::{GpuMachine, Level, Topic};

/// Returns a check for each topic; without a GPU, one that did not run.
pub(super) fn checks(root: &Path) -> Vec<Check> {
    let machine = GpuMachine::read(root, |name| std::env::var_os(name));
    if !machine.has_gpu() {
        return vec![Check {
            id: "gpu".to_owned(),
            what: "programs can use the GPU".to_owned(),
            outcome: Outcome::NotRun,
            detail: format!("no AMD GPU found below {}", root.display()),
        }];
    }
    let findings = machine.findings();
    let check = |topic: Topic| {
        let error = findings.iter().find(|f| f.topic == topic && f.level == Level::Error);
        let (outcome, detail) = match error {
            Some(error) => (Outcome::Fail, format!("{}; {}", error.found, error.help)),
            None if machine.gpus.is_empty() => {
                (Outcome::NotRun, "the driver lists no GPU".to_owned())
            }
            None => (Outcome::Pass, String::new()),
        };
        Check { id: topic.id().to_owned(), what: topic.expected().to_owned(), outcome, detail }
    };
    Topic::ALL.iter().copied().map(check).collect()
}
