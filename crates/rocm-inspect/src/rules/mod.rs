//! The rules of an inspection: one table that describes them, one file for each group, and the
//! function that applies them to facts, which the readers have collected.

mod closure;
mod counts;
mod damage;
mod hidden;
mod hygiene;
mod kpack;
mod linkage;
mod origins;
mod paths;
mod placement;
mod prebuilt;
mod provides;
mod search_paths;
mod served;
mod symbols;
mod targets;
mod unread;
mod waivers;

pub use counts::Shortfall;
use serde::Serialize;
pub(super) use served::verdict;
pub use served::{Served, Verdict};

use super::expectations::Expectations;
use super::facts::{FileFacts, Subject};
use super::finding::{Finding, Judgement, RuleId};
use rocmrpm_base::severity::Severity;
use rocmrpm_base::text::visible;

/// The description of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its stable ID.
    pub id: RuleId,
    /// The severity of its findings.
    pub severity: Severity,
    /// What it finds, in one sentence.
    pub what: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// A known case of the problem, with its source; empty if none is known.
    pub incident: &'static str,
    /// How to fix it.
    pub help: &'static str,
}

/// Increases whenever a rule changes its judgment, so that files accepted by an older rocmrpm are
/// inspected again.
pub const RULES_VERSION: u32 = 7;

/// All rules, by group.
pub const RULES: &[Rule] = &[
    targets::MISSING,
    targets::ABSENT,
    targets::UNEXPECTED,
    targets::BROADER,
    targets::MISSING_IN_FILE,
    targets::PARTIAL,
    provides::FALSE,
    provides::MISSING,
    kpack::UNRESOLVED,
    kpack::MISSING,
    kpack::PARTIAL,
    kpack::MISPLACED,
    counts::FEW,
    counts::STUBS,
    counts::LOST,
    linkage::RPATH_BUILD,
    linkage::RUNPATH_BUILD,
    linkage::RPATH_RELATIVE,
    linkage::RUNPATH_RELATIVE,
    linkage::NEEDED_ABSOLUTE,
    search_paths::BOTH,
    search_paths::RPATH_FORBIDDEN,
    search_paths::RUNPATH_FORBIDDEN,
    search_paths::RPATH_ABSOLUTE,
    search_paths::RUNPATH_ABSOLUTE,
    search_paths::RPATH_UNRESOLVED,
    search_paths::RUNPATH_UNRESOLVED,
    origins::MISSING,
    origins::UNKNOWN,
    origins::FOREIGN,
    origins::OTHER_WHEEL,
    origins::ALTERNATIVE,
    closure::MIXED,
    closure::TWICE,
    closure::BUNDLED,
    symbols::UNDERLINKED,
    symbols::UNRESOLVED,
    symbols::TOO_NEW,
    symbols::TORCH,
    unread::FILE,
    unread::ARCHIVE,
    damage::BUNDLE,
    damage::MISMATCH,
    damage::HASH,
    damage::ELF,
    paths::OUTSIDE,
    hygiene::NOT_STRIPPED,
    hygiene::SYMBOLS_KEPT,
    hygiene::BUILD_ID,
    hygiene::TEXT_RELOCATIONS,
    hygiene::EXECUTABLE_STACK,
    hygiene::MACHINE,
    hygiene::HEADERS,
    hygiene::HEADERS_ODD,
    hygiene::OPT_ROCM,
    hygiene::BUILD_PATH,
    hidden::LOST,
    waivers::UNUSED,
];

/// The groups of [`RULES`]: the name of each and its first rule.
const GROUPS: &[(&str, RuleId)] = &[
    ("GPU targets", targets::MISSING.id),
    ("linkage", linkage::RPATH_BUILD.id),
    ("damage", unread::FILE.id),
    ("hygiene", hygiene::NOT_STRIPPED.id),
    ("waivers", waivers::UNUSED.id),
];

/// Returns all rules by group, with the names of the groups.
pub fn rule_groups() -> Vec<(&'static str, &'static [Rule])> {
    let start = |id: RuleId| RULES.iter().position(|rule| rule.id == id).unwrap_or(RULES.len());
    let starts = GROUPS.iter().map(|(_, id)| start(*id));
    let ends = starts.clone().skip(1).chain([RULES.len()]);
    let ranges = starts.zip(ends).map(|(start, end)| RULES.get(start..end).unwrap_or_default());
    GROUPS.iter().map(|(name, _)| *name).zip(ranges).collect()
}

/// Returns the rule with this ID.
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id.0 == id)
}

/// Judges the subjects as one set.
pub(super) fn apply(subjects: &[Subject], expectations: &Expectations) -> Judgement {
    let mut findings = targets::check(subjects, expectations);
    for subject in subjects {
        findings.extend(provides::check(subject, expectations));
        findings.extend(paths::check(subject));
        findings.extend(unread::check(subject));
        for file in &subject.files {
            findings.extend(linkage::check(subject, file, expectations));
            findings.extend(search_paths::check(subject, file, expectations));
            findings.extend(damage::check(subject, file));
        }
    }
    findings.extend(closure::check(subjects, expectations));
    findings.extend(hygiene::check(subjects, expectations));
    findings.extend(kpack::check(subjects, expectations));
    findings.extend(hidden::check(subjects));
    findings.extend(counts::check(subjects, expectations));
    if !expectations.built {
        findings.iter_mut().for_each(prebuilt::advise);
    }
    let (findings, waived) = waivers::apply(findings, &expectations.waivers);
    let gpu_targets = expectations.gpu_targets.clone();
    Judgement { gpu_targets, system: expectations.system.name.clone(), findings, waived }
}

impl Rule {
    /// Returns a finding about the whole set, with the rule's help.
    fn finding(&self, found: impl Into<String>, expected: impl Into<String>) -> Finding {
        Finding {
            severity: self.severity,
            subject: None,
            file: None,
            id: self.id,
            // Findings quote names from untrusted files.
            found: visible(&found.into()),
            expected: visible(&expected.into()),
            help: self.help.to_owned(),
        }
    }
}

impl Finding {
    fn at(self, subject: &Subject, file: &FileFacts) -> Self {
        Self { subject: Some(subject.path.clone()), file: Some(file.path.clone()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_unique_names_and_all_texts() {
        let names: std::collections::BTreeSet<_> = RULES.iter().map(|rule| rule.id).collect();
        assert_eq!(names.len(), RULES.len());
        for Rule { id, what, why, help, .. } in RULES {
            assert!(id.0.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{id}");
            assert!([what, why, help].iter().all(|text| text.len() > 20), "{id}");
        }
        assert_eq!(rule("needed-absolute").unwrap().severity, Severity::Error);
        assert!(rule("no-such-rule").is_none());
    }

    #[test]
    fn applies_rules_about_numbers_and_paths() {
        use crate::facts::DeviceCode;
        use crate::testing::{device_code, gpu};
        use rocmrpm_base::gpu::GpuTarget;
        let code =
            |target, kernels| DeviceCode { kernels: Some(kernels), ..device_code(gpu(target)) };
        let device = vec![code("gfx1151", 3), code("gfx1100", 646)];
        let file = FileFacts { path: "/usr/../a.so".into(), device, ..FileFacts::default() };
        let subjects = [crate::testing::subject("a.rpm", vec![file])];
        let expectations = Expectations {
            gpu_targets: vec![GpuTarget::parse("gfx1151").unwrap()],
            previous_kernels: [("gfx1151".to_owned(), 646)].into(),
            ..Expectations::default()
        };
        let judgement = apply(&subjects, &expectations);
        for id in ["kernels-few", "kernels-lost", "path-outside"] {
            assert!(
                judgement.findings.iter().any(|finding| finding.id.as_str() == id),
                "{id}: {:?}",
                judgement.findings
            );
        }
    }

    #[test]
    fn escapes_control_characters_in_findings() {
        let finding = linkage::NEEDED_ABSOLUTE.finding("/lib/\x1b[31mred\n.so", "x");
        assert_eq!(finding.found, "/lib/\\u{1b}[31mred\\n.so");
    }

    #[test]
    fn puts_every_rule_in_one_group() {
        let groups = rule_groups();
        assert!(groups.iter().all(|(_, rules)| !rules.is_empty()), "{groups:?}");
        let ids: Vec<_> =
            groups.iter().flat_map(|(_, rules)| rules.iter()).map(|rule| rule.id).collect();
        assert_eq!(ids, RULES.iter().map(|rule| rule.id).collect::<Vec<_>>());
    }
}
