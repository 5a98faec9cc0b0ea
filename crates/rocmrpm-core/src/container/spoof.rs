//! GPUs that an image presents under the name of another: which targets of the stack can pass for it,
//! and what that risks.

use crate::gpu::GpuTarget;
use crate::text::visible;
use crate::workspace::Workspace;

/// The variable with which ROCm's runtime reports another version of the GPU (ROCm/rocm-systems,
/// libhsakmt, topology.c).
pub(super) const VARIABLE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// Returns the target with a version such as `11.0.0`.
fn presented(version: &str) -> Option<GpuTarget> {
    let numbers: Vec<u32> =
        version.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [major, minor, stepping] = numbers[..] else { return None };
    GpuTarget::from_version(major, minor, stepping)
}

/// Returns whether two processors have the same instructions: LLVM has a generic target for both.
fn alike(one: &GpuTarget, other: &GpuTarget) -> bool {
    let generics = GpuTarget::known().filter_map(GpuTarget::parse);
    generics
        .into_iter()
        .any(|generic| generic.version().is_none() && generic.serves(one) && generic.serves(other))
}

/// Returns the stack's processors that have the instructions of the presented one, under another
/// name.
pub(super) fn passing<'w>(workspace: &'w Workspace, version: &str) -> Vec<&'w str> {
    let Some(presented) = presented(version) else { return Vec::new() };
    let others = others(workspace, &presented);
    others
        .into_iter()
        .filter(|target| alike(target, &presented))
        .map(GpuTarget::processor)
        .collect()
}

/// Returns whether an image that presents this version is of no use: it is not the version of a GPU, or of
/// none that one of the stack's can pass for.
pub(super) fn is_useless(workspace: &Workspace, version: &str) -> bool {
    let targets = workspace.manifest.gpu_targets.len();
    let own =
        presented(version).is_some_and(|presented| others(workspace, &presented).len() < targets);
    !own && passing(workspace, version).is_empty()
}

/// Returns the stack's targets that are presented under another name.
fn others<'w>(workspace: &'w Workspace, presented: &GpuTarget) -> Vec<&'w GpuTarget> {
    let targets = workspace.manifest.gpu_targets.iter();
    targets.filter(|target| target.processor() != presented.processor()).collect()
}

/// Returns the risks of presenting the stack's GPUs as another version.
pub(super) fn risk(workspace: &Workspace, version: &str) -> Vec<String> {
    let Some(presented) = presented(version) else {
        return vec![format!(
            "{VARIABLE} is `{}`, which is not the version of a GPU: ROCm ignores it or finds no GPU",
            visible(version)
        )];
    };
    let name = presented.processor();
    let (same, different): (Vec<&GpuTarget>, Vec<&GpuTarget>) =
        others(workspace, &presented).into_iter().partition(|target| alike(target, &presented));
    let names = |targets: &[&GpuTarget]| {
        targets.iter().map(|target| target.processor()).collect::<Vec<_>>().join(" and ")
    };
    let mut risks = Vec::new();
    if !same.is_empty() {
        risks.push(format!(
            "runs code for {name} on {} ({VARIABLE}={version}): wrong results, illegal instructions \
             and crashes are possible",
            names(&same)
        ));
    }
    if !different.is_empty() {
        risks.push(format!(
            "runs code for {name} on {} ({VARIABLE}={version}), which has other instructions: \
             programs crash",
            names(&different)
        ));
    }
    risks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::testing::sample;

    #[test]
    fn risk_depends_on_what_is_presented() {
        let dir = tempfile::tempdir().unwrap();
        let mut workspace = sample(dir.path(), "fedora-43");
        workspace.manifest.gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
        let shown = |version: &str| risk(&workspace, version).concat();
        let expected =
            "runs code for gfx1100 on gfx1151 (HSA_OVERRIDE_GFX_VERSION=11.0.0): wrong results";
        assert!(shown("11.0.0").starts_with(expected), "{}", shown("11.0.0"));
        assert!(shown("11.0.2").contains("gfx1102 on gfx1151"));
        assert!(shown("10.3.0").ends_with("which has other instructions: programs crash"));
        assert_eq!(shown("11.5.1"), "", "its own version");
        for wrong in ["", "11", "11.0", "11.0.0.0", "gfx1100", "99.0.0"] {
            assert!(shown(wrong).contains("is not the version of a GPU"), "{wrong}");
        }
        assert_eq!(passing(&workspace, "11.0.0"), ["gfx1151"]);
        assert_eq!(passing(&workspace, "10.3.0"), [""; 0]);
        assert_eq!(passing(&workspace, "11.5.1"), [""; 0]);
    }
}
