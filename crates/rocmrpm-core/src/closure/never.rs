//! The table of distributions that must never come from a package index. Does not know what
//! requires them.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::covers;

/// A row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Never {
    /// A normalized name; `*` stands for any characters.
    name: String,
    /// The reason.
    pub reason: String,
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

/// Returns the entry for a distribution, given by its normalized name, that must not come from an
/// index.
pub(super) fn never(name: &str) -> Option<&'static Never> {
    TABLE.iter().find(|never| covers(&never.name, name))
}

/// Returns why a distribution must not come from an index.
pub(crate) fn reason(name: &str) -> Option<&'static str> {
    never(name).map(|never| never.reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_takes_stack_distributions_from_an_index() {
        for name in
            ["nvidia-nccl-cu13", "cuda-bindings", "torch", "triton", "rocm", "rocm-sdk-core"]
        {
            assert!(never(name).is_some(), "{name}");
        }
        for name in
            ["numpy", "torchao", "rocmrpm", "tritonclient", "conch-triton-kernels", "cudatext"]
        {
            assert!(never(name).is_none(), "{name}");
        }
        for Never { name, reason } in TABLE.iter() {
            assert_eq!(crate::sources::normalized(name), *name);
            assert!(!reason.is_empty() && !reason.ends_with('.'), "{name}");
        }
    }
}
