//! Limits on how much a server or an archive can make rocmrpm write: more than any real source
//! needs, and less than fills a disk.

use rocmrpm_base::error::{Diagnose, Diagnosis, Kind};
use rocmrpm_base::limits::{BOMB_RATIO, BOMB_SIZE, parse_size};

/// The largest allowed page of an index or response of a service, in bytes. The largest real ones
/// have a few million.
pub const PAGE: u64 = 64 << 20;

/// The timeout for a page in seconds.
pub const PAGE_SECONDS: &str = "600";

/// The variable that sets the limit for downloads and for unpacked archives.
const VARIABLE: &str = "ROCMRPM_MAX_SIZE";

/// The default of [`VARIABLE`], in bytes. The largest wheels of ROCm have some 5 GB, PyTorch's
/// sources unpack to 3 GB.
const MAX_SIZE: u64 = 32_000_000_000;

/// The largest allowed number of members of an archive. LLVM's source has 170 thousand.
pub const MEMBERS: u64 = 2_000_000;

/// The user's limit is malformed.
#[derive(Debug, thiserror::Error)]
#[error("`{value}` in {variable} is not a size")]
pub struct BadLimit {
    /// The name of the variable.
    pub variable: &'static str,
    /// The value of the variable.
    pub value: String,
}

impl Diagnose for BadLimit {
    fn diagnosis(&self) -> Diagnosis {
        Kind::Config.with_help(format!("write a size, e.g. `{}=\"64 GB\"`", self.variable))
    }
}

/// Returns the value of [`VARIABLE`], if set.
fn stated() -> Result<Option<u64>, BadLimit> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let value = value.to_string_lossy().into_owned();
    match parse_size(&value) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(BadLimit { variable: VARIABLE, value }),
    }
}

/// Returns the size limit for a download in bytes. A wrong file of moderate size is downloaded as a
/// whole, so that the error can show its digest and its start.
pub fn file(announced: Option<u64>) -> Result<u64, BadLimit> {
    let most = stated()?.unwrap_or(MAX_SIZE);
    Ok(announced.map_or(most, |size| size.max(PAGE).min(most)))
}

/// Returns the size limit for unpacking an archive of this size, in bytes. The user's limit
/// replaces the one by ratio.
pub fn unpacked(archive: u64) -> Result<u64, BadLimit> {
    Ok(stated()?.unwrap_or_else(|| archive.saturating_mul(BOMB_RATIO).clamp(BOMB_SIZE, MAX_SIZE)))
}

/// Returns the help for a source that exceeds a limit.
pub fn help(limit: u64) -> String {
    format!("if you trust it, raise the limit, e.g. `{VARIABLE}=\"{} GB\"`", (limit >> 29).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_ratio_of_large_archives() {
        assert_eq!(unpacked(10).unwrap(), BOMB_SIZE);
        assert_eq!(unpacked(1 << 30).unwrap(), MAX_SIZE);
        assert_eq!(unpacked(4 << 20).unwrap(), 200 << 20);
        assert_eq!(file(None).unwrap(), MAX_SIZE);
        assert_eq!(file(Some(5)).unwrap(), PAGE);
        assert_eq!(file(Some(PAGE + 1)).unwrap(), PAGE + 1);
        assert_eq!(file(Some(u64::MAX)).unwrap(), MAX_SIZE);
    }
}
