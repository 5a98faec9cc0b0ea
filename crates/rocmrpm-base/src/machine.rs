//! This machine: distribution, Python, cores, memory, installed ROCm. Reads only files and runs
//! `python3 --version` once, so queries are cheap.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::OnceLock;

use crate::process::{Command, ProcessError, find_program};

/// The Python that host builds use: always the distribution's, regardless of `PATH`.
pub const PYTHON: &str = "/usr/bin/python3";

/// Fields of `/etc/os-release` (man 5 os-release).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsRelease {
    /// `ID`, such as `fedora` or `debian`.
    pub id: String,
    /// `VERSION_ID`, such as `43`; empty for rolling releases.
    pub version_id: String,
    /// `PRETTY_NAME`, the name for display.
    pub pretty_name: String,
}

/// Reads `/etc/os-release`. Missing fields are empty.
pub fn os_release() -> OsRelease {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let fields: BTreeMap<&str, String> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key, value.trim().trim_matches(['"', '\'']).to_owned()))
        .collect();
    let get = |key| fields.get(key).cloned().unwrap_or_default();
    OsRelease { id: get("ID"), version_id: get("VERSION_ID"), pretty_name: get("PRETTY_NAME") }
}

/// Returns whether the machine's own packages are RPMs, so that rpmbuild can check
/// BuildRequires against them.
pub fn packages_are_rpms() -> bool {
    let dpkg = Path::new("/var/lib/dpkg/status").exists();
    !dpkg && find_program("rpm").is_some()
}

/// Returns the version of [`PYTHON`], such as `3.14`. Caches it, because every component's spec
/// needs it.
pub fn python_version() -> Result<String, ProcessError> {
    static VERSION: OnceLock<String> = OnceLock::new();
    if let Some(version) = VERSION.get() {
        return Ok(version.clone());
    }
    let text = Command::new(PYTHON).arg("--version").text()?;
    let version =
        text.trim_start_matches("Python ").split('.').take(2).collect::<Vec<_>>().join(".");
    Ok(VERSION.get_or_init(|| version).clone())
}

/// The limit that the user has set.
static CORES: OnceLock<NonZeroUsize> = OnceLock::new();

/// Limits what [`cores`] returns. Only the first call has an effect.
pub fn limit_cores(limit: NonZeroUsize) {
    CORES.get_or_init(|| limit);
}

/// Returns how many cores this process may use.
pub fn cores() -> usize {
    let own = std::thread::available_parallelism().map_or(1, usize::from);
    CORES.get().map_or(own, |limit| own.min(limit.get()))
}

/// Returns the memory available for new work, in bytes: `MemAvailable` of `/proc/meminfo` (man 5
/// proc_meminfo), or 4 GB if that is unreadable.
pub fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(4_000_000_000, |kib| kib * 1024)
}

/// Returns `major.minor` from a header that defines `HIP_VERSION_MAJOR` and `HIP_VERSION_MINOR`,
/// such as `hip/hip_version.h`.
pub fn hip_version(header: &Path) -> Option<String> {
    let text = std::fs::read_to_string(header).ok()?;
    let number = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("#define") && words.next() == Some(name)).then(|| words.next())?
        })
    };
    let (major, minor) = (number("HIP_VERSION_MAJOR")?, number("HIP_VERSION_MINOR")?);
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (digits(major) && digits(minor)).then(|| format!("{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_from_the_hip_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hip_version.h");
        std::fs::write(&path, "#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 4\n")
            .unwrap();
        assert_eq!(hip_version(&path).as_deref(), Some("6.4"));
        std::fs::write(&path, "#define HIP_VERSION_MAJOR 6\n").unwrap();
        assert_eq!(hip_version(&path), None);
    }

    #[test]
    fn queries_this_machine() {
        assert!(!os_release().id.is_empty());
        assert!(available_memory() > 0 && cores() > 0);
    }
}
