//! `reader` of a `[[file]]` of upstreams.toml: what reads the file.

use std::collections::BTreeMap;

use crate::names::nearest;
use crate::text::visible;
use crate::workspace::document::{At, Table};

/// What reads a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reader {
    /// A requirements file of pip's.
    Requirements,
    /// Keys of a TOML file.
    Toml,
    /// The variables that a CMake file sets, and its `FetchContent_Declare` calls.
    Cmake {
        /// Variables with known values, for conditions.
        given: BTreeMap<String, String>,
    },
    /// The defaults of a Dockerfile's ARGs.
    Dockerfile,
    /// Regular expressions.
    Regex,
}

/// The readers by name.
const READERS: &[&str] = &["requirements", "toml", "cmake", "dockerfile", "regex"];

pub(super) fn reader(table: &mut Table<'_>) -> Option<Reader> {
    let given = table.string_map("given");
    let At { value, span } = table.required_string("reader", "what reads the file")?;
    let reader = match value.as_str() {
        "requirements" => Reader::Requirements,
        "toml" => Reader::Toml,
        "cmake" => {
            let given = given.into_iter().map(|(name, at)| (name, at.value)).collect();
            return Some(Reader::Cmake { given });
        }
        "dockerfile" => Reader::Dockerfile,
        "regex" => Reader::Regex,
        other => {
            let help = nearest(other, READERS.iter().copied())
                .map(|near| format!("did you mean `{near}`?"));
            let message = format!("unknown reader `{}`", visible(other));
            table.problem(span, message, format!("expected one of {}", READERS.join(", ")), help);
            return None;
        }
    };
    if let Some(At { span, .. }) = given.into_values().next() {
        table.problem(span, "only the reader `cmake` has `given`", "remove it", None);
    }
    Some(reader)
}
