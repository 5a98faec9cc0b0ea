//! Runs the scripts next to this file, which parse Python with CPython's own `ast`. They never
//! execute the code that they parse.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::closure::ClosureError;
use crate::process::{self, Command, ProcessError};

/// The maximum size of a Python file to parse, in bytes. The largest one in vLLM's closure has 1.3
/// million.
pub(super) const MAX_FILE: u64 = 16 << 20;

/// The timeout of a script. Parsing all of vLLM takes 6 seconds of CPU time.
const ALLOWED: Duration = Duration::from_secs(600);

/// Runs a script with a question as input and returns its answer.
pub(super) fn ask<A: DeserializeOwned>(
    script: &str,
    question: &impl Serialize,
) -> Result<A, ClosureError> {
    let question =
        serde_json::to_vec(question).map_err(|error| ClosureError::Python(error.to_string()))?;
    // Isolated from the user's settings and modules. Warnings would be about the parsed code.
    let command = Command::new("python3").args(["-I", "-S", "-W", "ignore", "-c", script]);
    let finished = command.stdin(question).timeout(Some(ALLOWED)).run()?;
    if !finished.success() {
        return Err(ClosureError::Process(ProcessError::Failed {
            program: "python3".into(),
            how: finished.how(),
            code: finished.code,
            tail: process::last_lines(&finished.stderr, 3).join("; "),
        }));
    }
    serde_json::from_slice(&finished.stdout)
        .map_err(|error| ClosureError::Python(error.to_string()))
}
