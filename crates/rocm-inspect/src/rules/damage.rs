//! Rules about inconsistent files: unreadable parts, and code that does not match its ID. The
//! readers detect the damage.

use super::{Rule, RuleId, Severity};
use crate::facts::{Damage, FileFacts, Subject};
use crate::finding::Finding;

pub(super) const BUNDLE: Rule = Rule {
    id: RuleId("bundle-damaged"),
    severity: Severity::Error,
    what: "an offload bundle or a code object cannot be read",
    why: "the loader fails when the program starts or when it first calls a kernel; the GPU code that \
          follows cannot be checked",
    incident: "ROCm/TheRock, issue 6712: patchelf 0.18.0 corrupted seven large libraries with GPU code",
    help: "find the build step that edits ELF files after linking (strip, patchelf, objcopy), remove it, and \
           build again",
};

pub(super) const MISMATCH: Rule = Rule {
    id: RuleId("bundle-id-mismatch"),
    severity: Severity::Error,
    what: "a code object was compiled for a target that differs from the ID in its bundle",
    why: "the loader chooses code by the ID, then refuses it or runs code that is wrong for the GPU",
    incident: "",
    help: "compile and bundle the code object again for one target; never edit IDs",
};

pub(super) const HASH: Rule = Rule {
    id: RuleId("bundle-hash-mismatch"),
    severity: Severity::Error,
    what: "the content of a compressed bundle does not match the hash in its header",
    why: "the content is not what the compiler stored; the loader does not check the hash and runs wrong code",
    incident: "",
    help: "build the file again; if that does not help, remove build steps that edit files after linking",
};

pub(super) const ELF: Rule = Rule {
    id: RuleId("elf-damaged"),
    severity: Severity::Error,
    what: "an ELF file has headers that cannot be read",
    why: "the loader may refuse the file; its dependencies and GPU code cannot be checked",
    incident: "",
    help: "find the build step that edits ELF files after linking (strip, patchelf, objcopy), remove it, and \
           build again",
};

pub(super) fn check(subject: &Subject, file: &FileFacts) -> Vec<Finding> {
    let (elf, bundle): (Vec<&Damage>, Vec<&Damage>) =
        file.damage.iter().partition(|damage| damage.elf);
    let whole = [
        (&ELF, elf, "an ELF file with headers and tables inside the file"),
        (&BUNDLE, bundle, "a complete offload bundle or code object"),
    ];
    let whole = whole.into_iter().filter_map(|(rule, damage, expected)| {
        let first = damage.iter().min_by_key(|damage| damage.offset)?;
        let found = format!("the data at byte {} {}", first.offset, first.what);
        Some(rule.finding(found + &more(damage.len()), expected))
    });
    let mismatch = file.mismatches.iter().min_by_key(|mismatch| mismatch.offset).map(|mismatch| {
        let times =
            if mismatch.count > 1 { format!(", {} times", mismatch.count) } else { String::new() };
        let found = format!(
            "code for {} under the ID `{}`{times}, first at byte {}{}",
            mismatch.flags,
            mismatch.id,
            mismatch.offset,
            more(file.mismatches.len())
        );
        MISMATCH.finding(found, format!("code for the target in `{}`", mismatch.id))
    });
    let hash = file.wrong_hashes.first().map(|wrong| {
        let found = format!(
            "content with the hash {} in the bundle at byte {}{}",
            wrong.computed,
            wrong.offset,
            more(file.wrong_hashes.len())
        );
        HASH.finding(found, format!("content with the hash {}, as the header states", wrong.stated))
    });
    whole.chain(mismatch).chain(hash).map(|finding| finding.at(subject, file)).collect()
}

/// Describes how many similar problems there are in addition to the first one, which is shown.
fn more(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        2 => ", and 1 more like it in this file".to_owned(),
        count => format!(", and {} more like it in this file", count - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Mismatch, WrongHash};
    use crate::testing::subject;

    fn found(file: FileFacts) -> Vec<String> {
        let subject = subject("a.rpm", vec![file]);
        check(&subject, &subject.files[0])
            .into_iter()
            .map(|f| format!("{}: {}", f.id, f.found))
            .collect()
    }

    #[test]
    fn accepts_an_undamaged_file() {
        assert_eq!(found(FileFacts::default()), [""; 0]);
    }

    #[test]
    fn reports_each_kind_of_damage_once_per_file() {
        let damage = |elf, offset| Damage { elf, offset, what: "is broken".into() };
        let mismatch =
            |id: &str| Mismatch { id: id.into(), flags: "gfx1100".into(), count: 2, offset: 7 };
        let file = FileFacts {
            damage: vec![damage(false, 9), damage(true, 3), damage(false, 5), damage(false, 6)],
            mismatches: vec![mismatch("hip-a"), mismatch("hip-b")],
            wrong_hashes: vec![WrongHash {
                offset: 4096,
                stated: "00".into(),
                computed: "ff".into(),
            }],
            ..FileFacts::default()
        };
        assert_eq!(
            found(file),
            [
                "elf-damaged: the data at byte 3 is broken",
                "bundle-damaged: the data at byte 5 is broken, and 2 more like it in this file",
                "bundle-id-mismatch: code for gfx1100 under the ID `hip-a`, 2 times, first at byte 7, and 1 more \
                 like it in this file",
                "bundle-hash-mismatch: content with the hash ff in the bundle at byte 4096",
            ]
        );
    }
}
