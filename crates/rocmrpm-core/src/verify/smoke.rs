//! Runs the program stack-smoke at a location, which computes with the stack, and compares the results
//! with those of the last run there. The checks are in the program's own source, `smoke/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::place::VerifyTarget;
use super::{Check, Outcome, Verified};
use crate::digest::Sha256;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::sources::Cache;
use crate::text::visible;

/// The schema of the program's results.
const SCHEMA: &str = "stack-smoke/1";

/// How long all checks together may take, in seconds: each has a limit of its own.
const SECONDS: u64 = 4 * 3600;

/// The part by which a value must be worse than in the last run to be reported.
const WORSE: f64 = 0.1;

/// How the checks of the program are called, before their name.
const SMOKE: &str = "smoke ";

/// The results of the program.
#[derive(Debug, Deserialize)]
struct Results {
    schema: String,
    checks: Vec<SmokeResult>,
}

/// The result of one check.
#[derive(Debug, Deserialize)]
struct SmokeResult {
    id: String,
    what: String,
    outcome: String,
    detail: String,
    values: BTreeMap<String, Value>,
    /// The Python modules and programs that computed on a GPU, if it passed.
    #[serde(default)]
    computed: Vec<String>,
}

/// A measured value.
#[derive(Debug, Deserialize)]
struct Value {
    number: f64,
    unit: String,
    better: String,
}

/// A value that a check measured.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// The check and the name of the value.
    pub name: String,
    /// The value.
    pub number: f64,
    /// Its unit, such as `TFLOP/s`.
    pub unit: String,
}

/// What is worse than in the last run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Worse {
    /// What is worse, as a sentence.
    pub text: String,
    /// Whether a check passed then and does not now.
    pub failed: bool,
}

/// Runs the program and adds its results. `key` distinguishes what is compared with each other: the
/// stack and its chroot.
pub(super) fn run(
    place: &VerifyTarget,
    bench: bool,
    key: &str,
    verified: &mut Verified,
) -> Result<(), Error> {
    let bench = if bench { " --bench" } else { "" };
    // The program prints what it does to stderr.
    let script = format!(
        "command -v stack-smoke >/dev/null || exit 127\ncd / && stack-smoke --json -{bench} 2>/dev/null"
    );
    let not_run = |detail: String| Check {
        id: SMOKE.trim_end().into(),
        what: "the stack computes on this machine".into(),
        outcome: Outcome::NotRun,
        detail,
    };
    let output = match place.run_within(&script, SECONDS)? {
        Err(reason) => {
            verified.checks.push(not_run(reason));
            return Ok(());
        }
        Ok(ran) if ran.code == Some(127) => {
            let reason = "stack-smoke is not installed; install the package `stack-smoke`";
            verified.checks.push(not_run(reason.into()));
            return Ok(());
        }
        Ok(ran) => ran.output,
    };
    let results = read(&output)?;
    let last = last_run(place.name(), key)?;
    // A damaged file only costs the comparison.
    let before = fs_err::read_to_string(&last).ok().and_then(|text| read(&text).ok());
    verified.worse.extend(before.iter().flat_map(|before| worse(&results, before)));
    for ran in &results.checks {
        let outcome = match ran.outcome.as_str() {
            "pass" => Outcome::Pass,
            "not-run" => Outcome::NotRun,
            _ => Outcome::Fail,
        };
        verified.computed.extend(ran.computed.iter().cloned());
        let (id, what) = (format!("{SMOKE}{}", visible(&ran.id)), visible(&ran.what));
        verified.checks.push(Check { id, what, outcome, detail: visible(&ran.detail) });
        verified.measured.extend(ran.values.iter().map(|(name, value)| Measured {
            name: visible(&format!("{} {name}", ran.id)),
            number: value.number,
            unit: visible(&value.unit),
        }));
    }
    files::write_atomically(&last, &output)
        .map_err(IoError::doing("keep the results for the next run"))?;
    Ok(())
}

fn read(text: &str) -> Result<Results, Error> {
    let wrong = |reason: String| {
        let message = format!("cannot read the results of stack-smoke: {}", visible(&reason));
        Error::new(Kind::Environment, message)
            .with_help("run `stack-smoke` there to see what it prints")
    };
    let results: Results = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    match results.schema.as_str() {
        SCHEMA => Ok(results),
        other => Err(wrong(format!("their schema is `{other}`, not `{SCHEMA}`"))),
    }
}

/// Returns the file with the results of the last run.
fn last_run(place: &str, key: &str) -> Result<PathBuf, Error> {
    let name = Sha256::of_bytes(format!("{place}\n{key}"));
    Ok(Cache::from_env()?.dir().join(format!("verify/{name}.json")))
}

/// Returns what is worse now than before.
fn worse(now: &Results, before: &Results) -> Vec<Worse> {
    let mut found = Vec::new();
    for ran in &now.checks {
        let Some(old) = before.checks.iter().find(|old| old.id == ran.id) else { continue };
        if old.outcome == "pass" && ran.outcome != "pass" {
            let text = format!("{} passed in the last run", visible(&ran.id));
            found.push(Worse { text, failed: true });
        }
        for (name, value) in &ran.values {
            let Some(last) = old.values.get(name).filter(|last| last.unit == value.unit) else {
                continue;
            };
            let change = value.number / last.number - 1.0;
            let loss = if value.better == "less" { change } else { -change };
            if last.number > 0.0 && loss > WORSE {
                let (unit, name) = (visible(&value.unit), visible(&format!("{} {name}", ran.id)));
                let text = format!(
                    "{name}: {:.4} {unit}, in the last run {:.4} {unit}",
                    value.number, last.number
                );
                found.push(Worse { text, failed: false });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(outcome: &str, rate: f64, time: f64) -> Results {
        let value = |number: f64, unit: &str, better: &str| serde_json::json!({ "number": number, "unit": unit, "better": better });
        let values = serde_json::json!({ "rate": value(rate, "x/s", "more"), "time": value(time, "s", "less") });
        let check = serde_json::json!({
            "id": "a", "what": "", "outcome": outcome, "detail": "", "seconds": 1, "values": values,
        });
        read(&serde_json::json!({ "schema": SCHEMA, "checks": [check] }).to_string()).unwrap()
    }

    #[test]
    fn compares_with_the_last_run() {
        let before = results("pass", 100.0, 10.0);
        let texts = |now: Results| {
            let found = worse(&now, &before).into_iter();
            found.map(|worse| (worse.text, worse.failed)).collect::<Vec<_>>()
        };
        assert_eq!(texts(results("pass", 91.0, 10.9)), []);
        assert_eq!(texts(results("pass", 200.0, 1.0)), []);
        let found = texts(results("not-run", 80.0, 12.0));
        assert_eq!(found[0], ("a passed in the last run".into(), true));
        assert_eq!(found[1].0, "a rate: 80.0000 x/s, in the last run 100.0000 x/s");
        assert_eq!(found[2].0, "a time: 12.0000 s, in the last run 10.0000 s");
        assert_eq!(worse(&before, &results("fail", 0.0, 0.0)).len(), 0);
    }

    #[test]
    fn rejects_results_of_another_program() {
        for text in ["", "{}", r#"{"schema":"stack-smoke/2","checks":[]}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
