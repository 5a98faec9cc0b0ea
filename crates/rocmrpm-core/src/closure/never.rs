//! The distributions that must never come from a package index: those of never.toml, and those of the
//! workspace. Does not know what requires them.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::covers;
use crate::workspace::Upstreams;

/// A row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Never {
    /// A normalized name; `*` stands for any characters.
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    never: Vec<Never>,
}

static TABLE: LazyLock<Vec<Never>> = LazyLock::new(|| {
    let table: Table = toml::from_str(include_str!("never.toml"))
        .unwrap_or_else(|error| unreachable!("a test reads never.toml: {error}"));
    table.never
});

/// Returns why a distribution, given by its normalized name, must not come from an index.
pub(crate) fn never_reason<'u>(upstreams: &'u Upstreams, name: &str) -> Option<&'u str> {
    let of_stack = upstreams.not_from_index.iter().find(|never| covers(&never.name, name));
    of_stack.map(|never| never.reason.as_str()).or_else(|| of_any_stack(name))
}

fn of_any_stack(name: &str) -> Option<&'static str> {
    TABLE.iter().find(|never| covers(&never.name, name)).map(|never| never.reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_no_code_for_other_gpus_and_no_rocm_from_an_index() {
        for name in ["nvidia-nccl-cu13", "cuda-bindings", "rocm", "rocm-sdk-core"] {
            assert!(of_any_stack(name).is_some(), "{name}");
        }
        for name in ["numpy", "rocmrpm", "cudatext"] {
            assert!(of_any_stack(name).is_none(), "{name}");
        }
        for Never { name, reason } in TABLE.iter() {
            assert_eq!(crate::sources::normalized(name), *name);
            assert!(!reason.is_empty() && !reason.ends_with('.'), "{name}");
        }
    }
}
