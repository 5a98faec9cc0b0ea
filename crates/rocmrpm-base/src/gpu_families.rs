//! Families of GPU targets, as TheRock names them. What a target is, is in `gpu`; the GPUs of this
//! machine are in `gpu_machine`.

use crate::gpu::GpuTarget;
use crate::names::nearest;

/// The name on command lines for the GPUs of this machine.
pub const NATIVE: &str = "native";

/// Every family with its targets. Source: ROCm/TheRock at 89553ce37 (2026-08-22),
/// cmake/therock_amdgpu_targets.cmake.
#[rustfmt::skip]
const FAMILIES: &[(&str, &[&str])] = &[
    ("gfx900-dgpu", &["gfx900"]),
    ("gfx906-dgpu", &["gfx906"]),
    ("gfx908-dcgpu", &["gfx908"]),
    ("gfx90a-dcgpu", &["gfx90a"]),
    ("gfx90c-igpu", &["gfx90c"]),
    ("gfx94X-all", &["gfx942"]),
    ("gfx94X-dcgpu", &["gfx942"]),
    ("gfx950-all", &["gfx950"]),
    ("gfx950-dcgpu", &["gfx950"]),
    ("gfx101X-all", &["gfx1010", "gfx1011", "gfx1012"]),
    ("gfx101X-dgpu", &["gfx1010", "gfx1011", "gfx1012"]),
    ("gfx103X-all", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    ("gfx103X-dgpu", &["gfx1030", "gfx1031", "gfx1032", "gfx1034"]),
    ("gfx103X-igpu", &["gfx1033", "gfx1035", "gfx1036"]),
    ("gfx110X-all", &["gfx1100", "gfx1101", "gfx1102", "gfx1103"]),
    ("gfx110X-dgpu", &["gfx1100", "gfx1101", "gfx1102"]),
    ("gfx110X-igpu", &["gfx1103"]),
    ("gfx115X-all", &["gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx115X-igpu", &["gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx120X-all", &["gfx1200", "gfx1201"]),
    ("gfx125X-all", &["gfx1250"]),
    ("gfx125X-dcgpu", &["gfx1250"]),
    ("dcgpu-all", &["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1250"]),
    ("dgpu-all", &[
        "gfx900", "gfx906", "gfx1010", "gfx1011", "gfx1012", "gfx1030", "gfx1031", "gfx1032",
        "gfx1034", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201",
    ]),
    ("igpu-all", &[
        "gfx90c", "gfx1033", "gfx1035", "gfx1036", "gfx1103", "gfx1150", "gfx1151", "gfx1152",
        "gfx1153",
    ]),
];

/// Returns the names of all families.
pub fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// Returns the targets of a family, or the target of this name. `None` if there is neither.
pub fn targets_of(name: &str) -> Option<Vec<GpuTarget>> {
    match FAMILIES.iter().find(|(family, _)| *family == name) {
        Some((_, targets)) => Some(targets.iter().filter_map(|t| GpuTarget::parse(t)).collect()),
        None => GpuTarget::parse(name).map(|target| vec![target]),
    }
}

/// Returns the target or family that an unknown name may stand for.
pub fn nearest_to(name: &str) -> Option<&'static str> {
    let start = |family: &str| family.split_once('-').map(|(start, _)| start.to_owned());
    let same = |family: &&str| {
        family.eq_ignore_ascii_case(name)
            || start(family).is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    families().find(same).or_else(|| nearest(name, GpuTarget::known().chain(families())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_families_for_parts_of_their_names() {
        assert_eq!(nearest_to("gfx110X"), Some("gfx110X-all"));
        assert_eq!(nearest_to("gfx110x-dgpu"), Some("gfx110X-dgpu"));
        assert_eq!(nearest_to("gfx94x-dcgpus"), Some("gfx94X-dcgpu"));
        assert_eq!(nearest_to("gfx1511"), Some("gfx1151"));
        assert_eq!(nearest_to("x"), None);
    }

    #[test]
    fn every_family_has_known_targets() {
        for (family, targets) in FAMILIES {
            let expanded = targets_of(family).unwrap();
            assert_eq!(expanded.len(), targets.len(), "{family}");
            assert!(GpuTarget::parse(family).is_none(), "{family} is also a target");
        }
    }

    #[test]
    fn expands_families_and_targets() {
        let names = |name| {
            let targets = targets_of(name)?;
            Some(targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names("gfx110X-dgpu").as_deref(), Some("gfx1100 gfx1101 gfx1102"));
        assert_eq!(names("gfx94X-dcgpu").as_deref(), Some("gfx942"));
        assert_eq!(names("gfx90a:xnack+").as_deref(), Some("gfx90a:xnack+"));
        assert_eq!(names("gfx110x-all"), None);
    }
}
