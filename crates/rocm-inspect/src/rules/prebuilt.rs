//! Help for findings in prebuilt files, which come without a component.toml and a build log. It
//! does not change the findings otherwise.

use super::{RuleId, counts, damage, origins, targets};
use crate::finding::Finding;

const OTHER_BUILD: &str =
    "use a build with code for this GPU, or ask the project to add it to its list of targets";
const DOWNLOAD: &str =
    "download the file again; if the finding remains, report it to the project that built it";

const HELP: &[(RuleId, &str)] = &[
    (targets::MISSING.id, OTHER_BUILD),
    (targets::MISSING_IN_FILE.id, OTHER_BUILD),
    (targets::ABSENT.id, "use the project's build for ROCm: this one has no GPU code"),
    (targets::PARTIAL.id, "ask the project whether it omits kernels for this GPU on purpose"),
    (targets::BROADER.id, "nothing to fix; a build for this exact GPU may be faster"),
    (counts::FEW.id, OTHER_BUILD),
    (counts::STUBS.id, OTHER_BUILD),
    (damage::BUNDLE.id, DOWNLOAD),
    (damage::MISMATCH.id, DOWNLOAD),
    (damage::HASH.id, DOWNLOAD),
    (damage::ELF.id, DOWNLOAD),
    (
        origins::MISSING.id,
        "install the package that provides the library, or inspect its wheel or folder together with this one; \
         `ldconfig -p` lists this machine's libraries",
    ),
    (
        origins::FOREIGN.id,
        "use the project's build for ROCm that matches the installed ROCm release",
    ),
    (
        origins::UNKNOWN.id,
        "check with `dnf repoquery --whatprovides 'NAME()(64bit)'` whether the system has the library, or with \
         `ldconfig -p` whether this machine has it",
    ),
];

/// Replaces the help of a finding with help for users who did not build the file.
pub(super) fn advise(finding: &mut Finding) {
    if let Some((_, help)) = HELP.iter().find(|(rule, _)| *rule == finding.id) {
        finding.help = (*help).to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expectations::Expectations;
    use crate::rules::apply;
    use crate::testing::subject;

    #[test]
    fn helps_users_who_did_not_build_the_file() {
        let help = |built| {
            let expectations =
                Expectations { built, device_code: Some(true), ..Expectations::default() };
            apply(&[subject("a-1.whl", Vec::new())], &expectations).findings[0].help.clone()
        };
        assert!(help(true).contains("component.toml"));
        assert_eq!(help(false), "use the project's build for ROCm: this one has no GPU code");
        for (rule, help) in HELP {
            assert!(super::super::rule(rule.as_str()).is_some());
            assert!(!help.contains("component.toml") && !help.contains("build log"), "{rule}");
        }
    }
}
