//! The macros that rpm's programs read on this machine: ours, then the system's, never the user's.

use std::path::Path;

use crate::process::{Command, ProcessError};

/// Definitions that apply where the machine's own macro files have none.
pub(crate) const FALLBACK_MACROS: &str = include_str!("fallback.macros");

/// rpm's macro files if `rpm --showrc` does not list them. Source: rpm's
/// man page rpm-config(5).
const DEFAULT_MACRO_PATH: &str = "/usr/lib/rpm/macros:/usr/lib/rpm/macros.d/macros.*:\
     /usr/lib/rpm/platform/%{_target}/macros:/usr/lib/rpm/fileattrs/*.attr:/etc/rpm/macros.*:/etc/rpm/macros";

/// Returns what `--macros` of rpm's programs takes, so that they read [`FALLBACK_MACROS`] from this
/// file before the machine's own: the last definition of a macro wins.
pub(crate) fn macro_path(fallback: &Path) -> Result<String, ProcessError> {
    Ok(format!("{}:{}", fallback.display(), system_macro_path()?))
}

/// Returns rpm's own macro files, the user's left out.
fn system_macro_path() -> Result<String, ProcessError> {
    let text = Command::new("rpm").arg("--showrc").text()?;
    let told = text.lines().find_map(|line| line.strip_prefix("Macro path:"));
    let path = told.map_or(DEFAULT_MACRO_PATH, str::trim);
    let parts: Vec<&str> =
        path.split(':').filter(|part| !part.starts_with('~') && !part.is_empty()).collect();
    Ok(parts.join(":"))
}
