//! Applies the waivers of a component, and finds waivers that do not match anything. `workspace`
//! parses them.

use super::{Rule, RuleId, Severity};
use crate::expectations::Waiver;
use crate::finding::{Finding, Waived};
use rocmrpm_base::text::covers;

pub(super) const UNUSED: Rule = Rule {
    id: RuleId("waiver-unused"),
    severity: Severity::Error,
    what: "a waiver matches no finding",
    why: "the finding that it accepted is gone, or its rule, file or text is misspelled; if it stays, it may hide \
          a new finding that no one has reviewed",
    incident: "",
    help: "remove the `[[inspect.waive]]` table, or correct its `rule`, `file` and `found`",
};

/// Splits findings into those that remain and those that a waiver accepts. The first matching
/// waiver provides the reason; every matching one counts as used.
pub(super) fn apply(findings: Vec<Finding>, waivers: &[Waiver]) -> (Vec<Finding>, Vec<Waived>) {
    let mut used = vec![false; waivers.len()];
    let (mut kept, mut waived) = (Vec::new(), Vec::new());
    for finding in findings {
        let mut by = None;
        for (waiver, used) in
            waivers.iter().zip(&mut used).filter(|(waiver, _)| matches(waiver, &finding))
        {
            *used = true;
            by = by.or(Some(waiver));
        }
        match by {
            None => kept.push(finding),
            Some(Waiver { reason, place, .. }) => {
                waived.push(Waived { finding, reason: reason.clone(), place: place.clone() });
            }
        }
    }
    let unused = waivers.iter().zip(used).filter(|(_, used)| !used);
    kept.extend(unused.map(|(waiver, _)| unused_finding(waiver)));
    (kept, waived)
}

fn unused_finding(waiver: &Waiver) -> Finding {
    let part = |name, value: &Option<String>| match value {
        Some(value) => format!(", {name} `{value}`"),
        None => String::new(),
    };
    let (file, found) = (part("file", &waiver.file), part("found", &waiver.found));
    let found = format!("a waiver of `{}`{file}{found} that matches no finding", waiver.rule);
    let finding = UNUSED.finding(found, "a matching finding");
    Finding { file: Some(waiver.place.clone()), ..finding }
}

fn matches(waiver: &Waiver, finding: &Finding) -> bool {
    let file = match (&waiver.file, &finding.file) {
        (None, _) => true,
        (Some(pattern), Some(file)) => covers(pattern, file),
        (Some(_), None) => false,
    };
    waiver.rule == finding.id.as_str()
        && file
        && waiver.found.as_ref().is_none_or(|part| finding.found.contains(part.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{damage, hygiene};

    fn waiver(rule: &str, file: Option<&str>, found: Option<&str>) -> Waiver {
        Waiver {
            rule: rule.into(),
            file: file.map(str::to_owned),
            found: found.map(str::to_owned),
            reason: "known".into(),
            place: "specs-templates/k/component.toml".into(),
        }
    }

    fn stripped(file: &str) -> Finding {
        let finding =
            hygiene::NOT_STRIPPED.finding("a full symbol table (.symtab)", "a stripped file");
        Finding { subject: Some("k.rpm".into()), file: Some(file.into()), ..finding }
    }

    fn outcome(findings: &[Finding], waivers: &[Waiver]) -> (Vec<String>, Vec<String>) {
        let (kept, waived) = apply(findings.to_vec(), waivers);
        let kept = kept.iter().map(|f| format!("{} {}", f.id, f.file.as_deref().unwrap_or("-")));
        let waived = waived.iter().map(|w| format!("{} {}", w.finding.id, w.reason));
        (kept.collect(), waived.collect())
    }

    #[test]
    fn removes_waived_findings_of_any_severity() {
        let damaged = Finding {
            file: Some("/usr/lib/x.so".into()),
            ..damage::ELF.finding("nonsense", "sense")
        };
        let findings = [stripped("/usr/lib64/liba.so"), stripped("/usr/lib64/b.so.1"), damaged];
        let waivers = [
            waiver("not-stripped", Some("/usr/*/lib*.so"), None),
            waiver("elf-damaged", None, None),
        ];
        let (kept, waived) = outcome(&findings, &waivers);
        assert_eq!(kept, ["not-stripped /usr/lib64/b.so.1"]);
        assert_eq!(waived, ["not-stripped known", "elf-damaged known"]);
    }

    #[test]
    fn requires_every_condition() {
        let found = |waiver: Waiver| outcome(&[stripped("/usr/a.so")], &[waiver]).1.len();
        assert_eq!(found(waiver("not-stripped", None, None)), 1);
        assert_eq!(found(waiver("not-stripped", None, Some(".symtab"))), 1);
        assert_eq!(found(waiver("not-stripped", None, Some(".debug_info"))), 0);
        assert_eq!(found(waiver("not-stripped", Some("/usr/b.so"), None)), 0);
        assert_eq!(found(waiver("build-id-missing", None, None)), 0);
        // A finding about the whole set does not have a file.
        let absent = crate::rules::targets::ABSENT.finding("none", "some");
        let waivers = [waiver("device-code-absent", Some("*"), None)];
        assert_eq!(outcome(std::slice::from_ref(&absent), &waivers).1, [""; 0]);
        assert_eq!(outcome(&[absent], &[waiver("device-code-absent", None, None)]).1.len(), 1);
    }

    #[test]
    fn reports_unused_waivers_at_their_file() {
        let (kept, waived) = apply(Vec::new(), &[waiver("not-stripped", Some("*.so"), Some("x"))]);
        assert_eq!(waived, []);
        assert_eq!(
            kept[0].to_string(),
            "specs-templates/k/component.toml: found a waiver of `not-stripped`, file `*.so`, found `x` that \
             matches no finding, expected a matching finding [waiver-unused]"
        );
        assert_eq!(kept[0].severity, Severity::Error);
        // Two waivers that match the same finding are both used.
        let two = [waiver("not-stripped", None, None), waiver("not-stripped", Some("*"), None)];
        assert_eq!(outcome(&[stripped("/a")], &two).0, [""; 0]);
    }

    #[test]
    fn matches_any_characters_with_stars() {
        for (pattern, text) in [
            ("/usr/a.so", "/usr/a.so"),
            ("*", ""),
            ("*", "/a/b"),
            ("*.so", "/a/b.so"),
            ("/usr/*", "/usr/"),
            ("/usr/*/torch/lib/*.so", "/usr/lib64/python3.14/site-packages/torch/lib/libx.so"),
            ("a*b*c", "abbc"),
            ("a**b", "ab"),
        ] {
            assert!(covers(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("/usr", "/usr/a"),
            ("*.so", "a.so.1"),
            ("a*b*c", "acb"),
            ("ab*ba", "aba"),
            ("a*a", "a"),
        ] {
            assert!(!covers(pattern, text), "{pattern} {text}");
        }
    }
}
