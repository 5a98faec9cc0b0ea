//! Rules about the GPU code that a package declares: `Provides: rocm-gfx(TARGET)` must match the
//! code in its files exactly. It does not check whether the targets are wanted.

use std::collections::BTreeSet;

use super::{Rule, RuleId, Severity};
use crate::expectations::Expectations;
use crate::facts::{DeviceCode, Subject, Target};
use crate::finding::Finding;
use rocmrpm_base::gpu::GpuTarget;

pub(super) const FALSE: Rule = Rule {
    id: RuleId("gpu-provide-false"),
    severity: Severity::Error,
    what: "a package provides rocm-gfx(TARGET), but none of its GPU code runs on that target",
    why: "dnf installs it for that GPU, where programs fail at their first kernel",
    incident: "",
    help: "find out why the build has no code for the target; or, if this package never has device code, remove \
           `gpu_provides` from its preamble in the template",
};

pub(super) const MISSING: Rule = Rule {
    id: RuleId("gpu-provide-missing"),
    severity: Severity::Error,
    what: "a package has GPU code that its component promises, but does not provide rocm-gfx(TARGET)",
    why: "neither dnf nor other packages can request code for one GPU: a package for another GPU satisfies them, \
          too",
    incident: "",
    help: "add `<{ gpu_provides }>` to the preamble of this package in the component's template",
};

pub(super) fn check(subject: &Subject, expectations: &Expectations) -> Vec<Finding> {
    let Some(provided) = subject.contents.gpu_provides.as_ref().filter(|_| !subject.debug) else {
        return Vec::new();
    };
    let device = subject.files.iter().flat_map(|file| &file.device);
    let found: BTreeSet<&Target> = device
        .filter(|code: &&DeviceCode| code.storage.serves())
        .map(|code| &code.target)
        .collect();
    let about = |finding: Finding| Finding { subject: Some(subject.path.clone()), ..finding };
    let serves = |gpu: &GpuTarget| found.iter().any(|target| target.serves(gpu));
    let has = match found.len() {
        0 => "no GPU code".to_owned(),
        _ => format!(
            "GPU code for {}",
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ),
    };
    // `kpack` checks code that was moved to archives.
    let moved = found.contains(&Target::Unread);
    let mut findings = Vec::new();
    for name in provided {
        if !moved && !GpuTarget::parse(name).is_some_and(|gpu| serves(&gpu)) {
            let expected = format!("GPU code for {name}, as the package provides rocm-gfx({name})");
            findings.push(about(FALSE.finding(has.clone(), expected)));
        }
    }
    if expectations.device_code == Some(true) {
        for gpu in expectations.gpu_targets.iter().filter(|gpu| serves(gpu)) {
            if !provided.contains(gpu.as_str()) {
                let expected = format!("Provides: rocm-gfx({gpu})");
                findings.push(about(MISSING.finding(format!("{has}, but not provided"), expected)));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Contents, FileFacts};
    use crate::testing::device_code;

    fn found(code: &[&str], provides: Option<&[&str]>, promised: Option<bool>) -> Vec<String> {
        let target = |name: &&str| GpuTarget::parse(name).map_or(Target::Unread, Target::Gpu);
        let device = code.iter().map(|name| device_code(target(name)));
        let file = FileFacts { device: device.collect(), ..FileFacts::default() };
        let gpu_provides =
            provides.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        let contents = Contents { gpu_provides, ..Contents::default() };
        let subject = Subject { contents, ..crate::testing::subject("a.rpm", vec![file]) };
        let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
        let expectations =
            Expectations { gpu_targets, device_code: promised, ..Default::default() };
        check(&subject, &expectations)
            .into_iter()
            .map(|f| format!("{}: {}", f.id, f.found))
            .collect()
    }

    #[test]
    fn accepts_provides_that_match_the_code() {
        assert_eq!(found(&["gfx1151"], Some(&["gfx1151"]), Some(true)), [""; 0]);
        assert_eq!(found(&["gfx11-generic"], Some(&["gfx1151"]), Some(true)), [""; 0]);
        assert_eq!(found(&[], Some(&[]), Some(true)), [""; 0]);
        assert_eq!(found(&["gfx1151"], None, Some(true)), [""; 0], "a wheel");
        let one = found(&["gfx1151"], Some(&[]), Some(true));
        assert_eq!(one, ["gpu-provide-missing: GPU code for gfx1151, but not provided"]);
        assert_eq!(found(&["gfx1151"], Some(&[]), None), [""; 0], "another project's package");
    }

    #[test]
    fn rejects_provides_without_code_in_any_package() {
        let one = found(&["gfx1100"], Some(&["gfx1151"]), None);
        assert_eq!(one, ["gpu-provide-false: GPU code for gfx1100"]);
        assert_eq!(found(&[], Some(&["gfx1151"]), None), ["gpu-provide-false: no GPU code"]);
        assert_eq!(found(&["gfx1151"], Some(&["gfx9999"]), None).len(), 1);
        assert_eq!(found(&["moved"], Some(&["gfx1151"]), None), [""; 0], "kernels in archives");
    }
}
