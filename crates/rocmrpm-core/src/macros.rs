//! Finds the macro files for rpm's programs: ours first, then the system's. It never uses the
//! user's.

use std::path::Path;

use crate::process::{Command, ProcessError};

/// Definitions for macros that the system does not define.
pub(crate) const FALLBACK_MACROS: &str = include_str!("fallback.macros");

/// rpm's macro path, used if `rpm --showrc` does not print it. Source: rpm's man page
/// rpm-config(5).
const DEFAULT_MACRO_PATH: &str = "/usr/lib/rpm/macros:/usr/lib/rpm/macros.d/macros.*:\
     /usr/lib/rpm/platform/%{_target}/macros:/usr/lib/rpm/fileattrs/*.attr:/etc/rpm/macros.*:/etc/rpm/macros";

/// Returns the `--macros` value for rpm's programs, with [`FALLBACK_MACROS`] in the given file
/// first: the last definition of a macro wins.
pub(crate) fn macro_path(fallback: &Path) -> Result<String, ProcessError> {
    Ok(format!("{}:{}", fallback.display(), system_macro_path()?))
}

/// Returns the system's macro path without the user's files.
fn system_macro_path() -> Result<String, ProcessError> {
    let text = Command::new("rpm").arg("--showrc").text()?;
    let macro_path = text.lines().find_map(|line| line.strip_prefix("Macro path:"));
    let path = macro_path.map_or(DEFAULT_MACRO_PATH, str::trim);
    let parts: Vec<&str> =
        path.split(':').filter(|part| !part.starts_with('~') && !part.is_empty()).collect();
    Ok(parts.join(":"))
}
