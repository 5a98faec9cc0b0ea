//! The environment variables that a spec exports: those with the GPU targets, and those of
//! component.toml.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::SpecError;
use super::escape::{escape, single_quoted};
use crate::error::Problem;
use crate::names::nearest;
use crate::workspace::{Component, Provider};

#[derive(Serialize)]
pub(super) struct Export {
    name: String,
    value: String,
}

/// The variables that build systems read GPU targets from; all get the same list.
pub const TARGET_VARIABLES: &[&str] = &[
    "AMDGPU_TARGETS",
    "AOTRITON_TARGET_ARCH",
    "CMAKE_HIP_ARCHITECTURES",
    "GPU_ARCHS",
    "GPU_TARGETS",
    "PYTORCH_ROCM_ARCH",
];

pub(super) fn exports(
    component: &Component,
    provider: &Provider,
    targets: &[&str],
) -> Result<Vec<Export>, SpecError> {
    let joined = targets.join(";");
    let mut exports: BTreeMap<String, String> =
        TARGET_VARIABLES.iter().map(|name| ((*name).to_owned(), joined.clone())).collect();
    let mut problems = Vec::new();
    for (name, at) in &component.env {
        if !is_variable_name(name) {
            let message = format!("`{name}` cannot be the name of an environment variable");
            let label = "expected letters, digits and `_`, starting with a letter or `_`";
            problems.push(component.file.problem(at.span.clone(), message, label));
            continue;
        }
        match fill_in(&at.value, &[("prefix", &provider.prefix), ("gpu-targets", &joined)]) {
            Ok(value) => {
                exports.insert(name.clone(), value);
            }
            Err(unknown) => {
                let near = nearest(&unknown, ["prefix", "gpu-targets"]);
                let message = format!("unknown placeholder `{{{unknown}}}` in `{name}`");
                let problem = component.file.problem(
                    at.span.clone(),
                    message,
                    "expected {prefix} or {gpu-targets}",
                );
                problems.push(Problem {
                    help: near.map(|n| format!("did you mean `{{{n}}}`?")),
                    ..problem
                });
            }
        }
    }
    if !problems.is_empty() {
        return Err(SpecError::Env { component: component.name.to_string(), problems });
    }
    Ok(exports
        .into_iter()
        .map(|(name, value)| Export { name, value: escape(&single_quoted(&value)) })
        .collect())
}

/// Returns whether `name` is a valid shell variable name.
fn is_variable_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(word) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Replaces `{name}` with its value; the error is the first unknown name. Keeps `${NAME}` for the
/// shell.
fn fill_in(text: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, inner) = rest.split_at(open);
        out.push_str(before);
        rest = inner;
        let Some(close) = inner.find('}') else { break };
        let name = &inner[1..close];
        if before.ends_with('$') {
            out.push_str(&inner[..=close]);
        } else {
            let value = values.iter().find(|(known, _)| *known == name);
            out.push_str(value.ok_or_else(|| name.to_owned())?.1);
        }
        rest = &inner[close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_in_placeholders_and_keeps_shell_variables() {
        let values = [("prefix", "/usr")];
        assert_eq!(fill_in("{prefix}/lib:${HOME}/x", &values).unwrap(), "/usr/lib:${HOME}/x");
        assert_eq!(fill_in("{prefx}", &values).unwrap_err(), "prefx");
        assert_eq!(fill_in("a{b", &values).unwrap(), "a{b");
    }
}
