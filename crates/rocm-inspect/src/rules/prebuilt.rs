//! Help for findings in prebuilt files, which come without a component.toml and a build log. It
//! does not change the findings otherwise.

use super::{Rule, RuleId, counts, damage, kpack, origins, provides, symbols, targets, waivers};
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
    (targets::UNEXPECTED.id, "nothing to fix; code for other GPUs makes the package larger"),
    (counts::LOST.id, OTHER_BUILD),
    (kpack::MISPLACED.id, "report it to the project that built the package"),
    (provides::FALSE.id, "report it to the project that built the package"),
    (provides::MISSING.id, "report it to the project that built the package"),
    (symbols::TOO_NEW.id, "use a build for the oldest release that you support"),
    (waivers::UNUSED.id, "remove the waiver, or correct it"),
];

fn prebuilt(id: RuleId) -> Option<&'static str> {
    HELP.iter().find(|(rule, _)| *rule == id).map(|(_, help)| *help)
}

impl Rule {
    /// Returns how to fix a finding in files that came without a component.toml and a build log; `help` is for
    /// those who built the files from a component of a rocmrpm workspace.
    pub fn help_for_prebuilt(&self) -> &'static str {
        prebuilt(self.id).unwrap_or(self.help)
    }
}

/// Replaces the help of a finding with help for users who did not build the file.
pub(super) fn advise(finding: &mut Finding) {
    if let Some(help) = prebuilt(finding.id) {
        finding.help = help.to_owned();
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
        // The program of this crate knows no workspaces.
        for rule in super::super::RULES {
            let texts = [rule.what, rule.why, rule.help_for_prebuilt()];
            for word in
                ["component.toml", "chroot", "mock-configs", "gpu_provides", "rocmrpm", "%exclude"]
            {
                assert!(!texts.iter().any(|text| text.contains(word)), "{}: {word}", rule.id);
            }
        }
    }
}
