//! AMD GPU targets: the names that ROCm's compilers know and the numbers that code objects use for
//! them. How a build system spells them is not part of this module.

use std::fmt;

/// One row of the ISA table: the target's name and its `EF_AMDGPU_MACH` value.
struct Isa {
    name: &'static str,
    mach: u8,
}

/// Every AMDGCN processor and generic target, with the value of the low eight bits of a code
/// object's `e_flags`. Source: LLVM, `AMDGPUUsage`, table "AMDGPU EF_AMDGPU_MACH Values" and
/// `llvm/BinaryFormat/ELF.h`. LLVM 20 removed `gfx940` and `gfx941`; they stay here for files built
/// before that.
#[rustfmt::skip]
const ISAS: &[Isa] = &[
    isa("gfx600", 0x20), isa("gfx601", 0x21), isa("gfx602", 0x3a),
    isa("gfx700", 0x22), isa("gfx701", 0x23), isa("gfx702", 0x24), isa("gfx703", 0x25),
    isa("gfx704", 0x26), isa("gfx705", 0x3b),
    isa("gfx801", 0x28), isa("gfx802", 0x29), isa("gfx803", 0x2a), isa("gfx805", 0x3c),
    isa("gfx810", 0x2b),
    isa("gfx900", 0x2c), isa("gfx902", 0x2d), isa("gfx904", 0x2e), isa("gfx906", 0x2f),
    isa("gfx908", 0x30), isa("gfx909", 0x31), isa("gfx90a", 0x3f), isa("gfx90c", 0x32),
    isa("gfx940", 0x40), isa("gfx941", 0x4b), isa("gfx942", 0x4c), isa("gfx950", 0x4f),
    isa("gfx1010", 0x33), isa("gfx1011", 0x34), isa("gfx1012", 0x35), isa("gfx1013", 0x42),
    isa("gfx1030", 0x36), isa("gfx1031", 0x37), isa("gfx1032", 0x38), isa("gfx1033", 0x39),
    isa("gfx1034", 0x3e), isa("gfx1035", 0x3d), isa("gfx1036", 0x45),
    isa("gfx1100", 0x41), isa("gfx1101", 0x46), isa("gfx1102", 0x47), isa("gfx1103", 0x44),
    isa("gfx1150", 0x43), isa("gfx1151", 0x4a), isa("gfx1152", 0x55), isa("gfx1153", 0x58),
    isa("gfx1154", 0x57),
    isa("gfx1170", 0x5d), isa("gfx1171", 0x5e), isa("gfx1172", 0x5c),
    isa("gfx1200", 0x48), isa("gfx1201", 0x4e),
    isa("gfx1250", 0x49), isa("gfx1251", 0x5a), isa("gfx1310", 0x50),
    isa("gfx9-generic", 0x51), isa("gfx9-4-generic", 0x5f),
    isa("gfx10-1-generic", 0x52), isa("gfx10-3-generic", 0x53),
    isa("gfx11-generic", 0x54), isa("gfx11-7-generic", 0x62),
    isa("gfx12-generic", 0x59), isa("gfx12-5-generic", 0x5b), isa("gfx13-generic", 0x63),
];

const fn isa(name: &'static str, mach: u8) -> Isa {
    Isa { name, mach }
}

/// The processors that run a generic target's code. Source: LLVM, `AMDGPUUsage`, table "AMDGPU
/// Generic Processors".
#[rustfmt::skip]
const GENERICS: &[(&str, &[&str])] = &[
    ("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic", &["gfx940", "gfx941", "gfx942", "gfx950"]),
    ("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx10-3-generic", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    ("gfx11-generic", &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx11-7-generic", &["gfx1170", "gfx1171", "gfx1172"]),
    ("gfx12-generic", &["gfx1200", "gfx1201"]),
    ("gfx12-5-generic", &["gfx1250", "gfx1251"]),
    ("gfx13-generic", &["gfx1310"]),
];

/// Integrated GPUs with XNACK. They share the CPU's page tables, so XNACK is on by default.
const INTEGRATED: &[&str] = &["gfx801", "gfx810", "gfx902", "gfx909", "gfx90c"];

/// A GPU target: a processor or generic name that LLVM knows, such as `gfx1151`,
/// with optional features, such as `gfx90a:sramecc+:xnack-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuTarget(String);

impl GpuTarget {
    /// Parses a target. Returns `None` if its processor is not in the table or if a feature is not
    /// `xnack` or `sramecc` with `+` or `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let processor = parts.next()?;
        let known = ISAS.iter().any(|isa| isa.name == processor);
        let features = parts.all(|f| matches!(f, "xnack+" | "xnack-" | "sramecc+" | "sramecc-"));
        (known && features).then(|| Self(text.to_owned()))
    }

    /// Returns the target of code objects with `mach` in the low eight bits of `e_flags`, or `None`
    /// if the number is not in the table.
    pub fn from_mach(mach: u8) -> Option<Self> {
        ISAS.iter().find(|isa| isa.mach == mach).map(|isa| Self(isa.name.to_owned()))
    }

    /// Returns the processor with this version, such as `gfx1151` for 11.5.1.
    pub fn from_version(major: u32, minor: u32, stepping: u32) -> Option<Self> {
        Self::parse(&format!("gfx{major}{minor:x}{stepping:x}"))
    }

    /// Returns the processor's version: major, minor, and stepping. `None` for a generic target.
    pub fn version(&self) -> Option<(u32, u32, u32)> {
        let digits = self.processor().strip_prefix("gfx").filter(|d| !d.contains('-'))?;
        let (major, rest) = digits.split_at_checked(digits.len().checked_sub(2)?)?;
        let digit = |at| rest.chars().nth(at)?.to_digit(16);
        Some((major.parse().ok()?, digit(0)?, digit(1)?))
    }

    /// Returns the `EF_AMDGPU_MACH` value of this target's code objects.
    pub fn mach(&self) -> u8 {
        let isa = ISAS.iter().find(|isa| isa.name == self.processor());
        isa.map_or(0, |isa| isa.mach)
    }

    /// Returns the names of all known processors and generic targets.
    pub fn known() -> impl Iterator<Item = &'static str> {
        ISAS.iter().map(|isa| isa.name)
    }

    /// Returns the processor that a name contains as a word, such as `gfx1151` of the package
    /// `amdrocm-blas7.14-gfx1151`.
    pub fn named_in(text: &str) -> Option<&'static str> {
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        let contains = |name: &&str| {
            text.match_indices(*name).any(|(at, name)| ends(&text[at + name.len()..]))
        };
        // The name of a generic target begins with another word: `gfx12-5-generic`.
        Self::known().filter(contains).max_by_key(|name| name.len())
    }

    /// Returns the full text, including the features.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the processor's name without features.
    pub fn processor(&self) -> &str {
        self.0.split(':').next().unwrap_or(&self.0)
    }

    /// Returns the features in the target's text, such as `xnack+`.
    pub fn features(&self) -> impl Iterator<Item = &str> {
        self.0.split(':').skip(1)
    }

    /// Returns whether the two targets have opposite values of the same feature.
    pub fn contradicts(&self, other: &GpuTarget) -> bool {
        let opposite = |a: &str, b: &str| {
            a != b && a.trim_end_matches(['+', '-']) == b.trim_end_matches(['+', '-'])
        };
        self.features().any(|mine| other.features().any(|theirs| opposite(mine, theirs)))
    }

    /// Returns whether code compiled for `self` runs on the GPU `wanted`: `self` is the same
    /// processor without a contradicting feature, or a generic target that covers it. A GPU named
    /// without features runs in its default mode, in which XNACK is off except on integrated GPUs.
    /// Source: LLVM, `AMDGPUUsage`, "Target ID" and "Generic Processors"; the ROCm documentation,
    /// "GPU isolation and unified memory", `HSA_XNACK`.
    pub fn serves(&self, wanted: &GpuTarget) -> bool {
        let processor = self.processor() == wanted.processor()
            || GENERICS.iter().any(|(generic, covered)| {
                *generic == self.processor() && covered.contains(&wanted.processor())
            });
        let xnack =
            |target: &GpuTarget| target.features().any(|feature| feature.starts_with("xnack"));
        let off = !xnack(wanted) && !INTEGRATED.contains(&wanted.processor());
        processor
            && !self.contradicts(wanted)
            && !(off && self.features().any(|mine| mine == "xnack+"))
    }
}

impl fmt::Display for GpuTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for GpuTarget {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

crate::text_schema!(GpuTarget, {
    "description": "A GPU target: LLVM's name of a processor or generic target, with optional features.",
    "pattern": "^gfx[0-9a-z-]+(:(xnack|sramecc)[+-])*$",
});

/// Returns the name that an RPM provides if it has GPU code for a target.
pub fn provide(target: &str) -> String {
    format!("rocm-gfx({target})")
}

/// Returns the target in a name that an RPM provides; `None` for all other names.
pub fn of_provide(name: &str) -> Option<&str> {
    name.strip_prefix("rocm-gfx(")?.strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> GpuTarget {
        GpuTarget::parse(text).unwrap()
    }

    #[test]
    fn knows_the_number_of_strix_halo() {
        assert_eq!(target("gfx1151").mach(), 0x4a);
        assert_eq!(GpuTarget::from_mach(0x4a), Some(target("gfx1151")));
        assert_eq!(GpuTarget::from_mach(0x27), None);
    }

    #[test]
    fn processors_have_versions() {
        for isa in ISAS {
            let target = target(isa.name);
            let again = target.version().map(|(a, b, c)| GpuTarget::from_version(a, b, c).unwrap());
            let expected = Some(target).filter(|target| !target.as_str().ends_with("-generic"));
            assert_eq!(again, expected);
        }
        assert_eq!(target("gfx90a").version(), Some((9, 0, 10)));
        assert_eq!(target("gfx1151").version(), Some((11, 5, 1)));
        assert_eq!(GpuTarget::from_version(11, 5, 9), None);
    }

    #[test]
    fn names_and_numbers_are_unique() {
        let names: std::collections::BTreeSet<_> = ISAS.iter().map(|i| i.name).collect();
        let machs: std::collections::BTreeSet<_> = ISAS.iter().map(|i| i.mach).collect();
        assert_eq!((names.len(), machs.len()), (ISAS.len(), ISAS.len()));
        for (generic, covered) in GENERICS {
            assert!(names.contains(generic) && covered.iter().all(|c| names.contains(c)));
        }
    }

    #[test]
    fn finds_targets_in_names_of_packages() {
        for (name, target) in [
            ("amdrocm-blas7.14-gfx1151", Some("gfx1151")),
            ("rocblas-gfx90a-devel", Some("gfx90a")),
            ("k-gfx11-generic", Some("gfx11-generic")),
            ("amdrocm-blas7.14", None),
            ("k-gfx110X-all", None),
            ("k-gfx11510", None),
        ] {
            assert_eq!(GpuTarget::named_in(name), target, "{name}");
        }
    }

    #[test]
    fn rejects_unknown_names() {
        for bad in ["gfx1155", "gfx", "", "gfx90a:xnack", "gfx90a:foo+", "GFX1151"] {
            assert!(GpuTarget::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn generic_targets_and_unset_features_serve() {
        assert!(target("gfx11-generic").serves(&target("gfx1151")));
        assert!(!target("gfx1100").serves(&target("gfx1151")));
        assert!(target("gfx90a").serves(&target("gfx90a:xnack-")));
        assert!(target("gfx90a:xnack-").serves(&target("gfx90a")));
        assert!(!target("gfx90a:xnack+").serves(&target("gfx90a:xnack-")));
        assert!(target("gfx90a:xnack+").serves(&target("gfx90a:xnack+")));
        assert!(target("gfx90a:sramecc+").serves(&target("gfx90a")));
        assert!(target("gfx902:xnack+").serves(&target("gfx902")));
    }

    #[test]
    fn code_for_xnack_does_not_run_in_the_default_mode() {
        assert!(!target("gfx90a:xnack+").serves(&target("gfx90a")));
        assert!(!target("gfx90a:sramecc+:xnack+").serves(&target("gfx90a:sramecc+")));
    }
}
