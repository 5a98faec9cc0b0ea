//! Rules about files that contradict themselves: what cannot be read, and code
//! that is other than its ID says.

use super::{Rule, RuleId, Severity};
use crate::inspect::facts::{FileFacts, Subject};
use crate::inspect::report::Finding;

pub(super) const BUNDLE: Rule = Rule {
    id: RuleId("bundle-damaged"),
    severity: Severity::Error,
    what: "an offload bundle or a code object cannot be read",
    why: "the loader fails on it when the program starts or when a kernel is first called, and nothing is known \
          about the GPU code behind it",
    incident: "",
    mend: "look for the step of the build that edits ELF files after they were linked (strip, patchelf, objcopy) \
           and leave it out, then build again",
};

pub(super) const MISMATCH: Rule = Rule {
    id: RuleId("bundle-id-mismatch"),
    severity: Severity::Error,
    what: "a code object was compiled for another target than the ID in its bundle says",
    why: "the loader chooses by the ID and then refuses the code, or runs code that is wrong for the GPU",
    incident: "",
    mend: "compile and bundle the code object again for one target; IDs must not be edited",
};

pub(super) const ELF: Rule = Rule {
    id: RuleId("elf-damaged"),
    severity: Severity::Error,
    what: "an ELF file has headers that cannot be read",
    why: "the loader may refuse the file, and what it needs or holds is not known",
    incident: "",
    mend: "look for the step of the build that edits ELF files after they were linked (strip, patchelf, objcopy) \
           and leave it out, then build again",
};

pub(super) fn check(subject: &Subject, file: &FileFacts) -> Vec<Finding> {
    let damage = file.damage.iter().map(|damage| {
        let found = format!("what stands at byte {} {}", damage.offset, damage.what);
        match damage.elf {
            true => ELF.finding(found, "an ELF file with headers and tables inside the file"),
            false => BUNDLE.finding(found, "a whole offload bundle or code object"),
        }
    });
    let mismatches = file.mismatches.iter().map(|mismatch| {
        let times = if mismatch.count > 1 { format!(", {} times", mismatch.count) } else { String::new() };
        let found = format!(
            "code for {} under the ID `{}`{times}, first at byte {}",
            mismatch.flags, mismatch.id, mismatch.offset
        );
        MISMATCH.finding(found, format!("code for the target in `{}`", mismatch.id))
    });
    damage.chain(mismatches).map(|finding| finding.at(subject, file)).collect()
}
