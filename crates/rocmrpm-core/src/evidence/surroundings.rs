//! The machine and the programs that records name.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::record::EvidenceMachine;
use crate::machine;
use crate::process::{Command, find_program};

/// The programs that builds and checks run.
const PROGRAMS: &[&str] =
    &["createrepo_c", "dnf5", "gcc", "git", "gpg", "mock", "rpmbuild", machine::PYTHON];

/// Describes this machine, without its name.
pub(super) fn this_machine() -> EvidenceMachine {
    let read = |path| fs_err::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let processor = model.and_then(|rest| rest.split_once(':')).map(|(_, name)| name.trim());
    // proc_meminfo(5)
    let memory = read("/proc/meminfo");
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    EvidenceMachine {
        system: machine::os_release().pretty_name,
        processor: processor.unwrap_or(std::env::consts::ARCH).to_owned(),
        cores: machine::cores(),
        memory: kib.unwrap_or(0) * 1024,
    }
}

/// Returns the versions of rocmrpm and of the programs on this machine that it may run.
pub(super) fn tools() -> &'static BTreeMap<String, String> {
    static TOOLS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let version = |&program: &&str| {
            find_program(program)?;
            let text = Command::new(program).arg("--version").text().ok()?;
            let line = text.lines().find(|line| line.chars().any(|c| c.is_ascii_digit()))?;
            let name = program.rsplit('/').next().unwrap_or(program);
            Some((name.to_owned(), crate::text::visible(line.trim())))
        };
        let own = ("rocmrpm".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        PROGRAMS.iter().filter_map(version).chain([own]).collect()
    })
}
