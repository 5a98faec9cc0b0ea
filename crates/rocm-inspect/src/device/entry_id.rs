//! Parses the IDs of bundle entries, such as `hipv4-amdgcn-amd-amdhsa--gfx1151`, in all the
//! spellings that compilers have used. It does not read the bundles.

use rocmrpm_base::gpu::GpuTarget;

/// The kind of code that an entry's ID declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryId {
    /// The host's code, which is empty in practice.
    Host,
    /// Code for AMD GPUs.
    Amd {
        /// The target as written after the triple, such as `gfx90a:xnack+`; empty if the ID ends
        /// with the triple.
        target: String,
    },
    /// Code for other devices.
    Foreign,
}

impl EntryId {
    /// Parses `<kind>-<arch>-<vendor>-<os>-<environment>[-<target>]`. Source: LLVM,
    /// `ClangOffloadBundler`, "Code Object Composition". ROCm 4 omitted the environment together
    /// with its dash, so the target is in its position.
    pub(crate) fn parse(id: &str) -> Self {
        let mut fields = id.splitn(6, '-');
        let mut next = || fields.next().unwrap_or_default();
        let (kind, arch, vendor, _os, environment) = (next(), next(), next(), next(), next());
        let rest = next();
        if kind == "host" {
            return Self::Host;
        }
        // LLVM 24 renames the architecture to `amdgpu` with a number.
        let amd = arch.starts_with("amdgcn") || arch.starts_with("amdgpu") || vendor == "amd";
        match (amd, environment, rest) {
            (false, ..) => Self::Foreign,
            (true, "", "") => Self::Amd { target: in_triple(arch) },
            (true, "", target) => Self::Amd { target: target.to_owned() },
            (true, target, "") if is_target(target) => Self::Amd { target: target.to_owned() },
            (true, target, rest) if is_target(target) => {
                Self::Amd { target: format!("{target}-{rest}") }
            }
            (true, _, target) => Self::Amd { target: target.to_owned() },
        }
    }
}

/// Returns the processor in the triple, which LLVM 24 may state: `amdgpu11.51` is `gfx1151`.
fn in_triple(arch: &str) -> String {
    let number = arch.strip_prefix("amdgpu").unwrap_or_default();
    if number.is_empty() { String::new() } else { format!("gfx{}", number.replace('.', "")) }
}

fn is_target(text: &str) -> bool {
    text.starts_with("gfx") || text == "amdgcnspirv"
}

/// Returns the processor in a target's text, without features of either spelling (`:xnack+`,
/// `+sram-ecc`) and the suffix `-strict`.
pub(crate) fn processor(target: &str) -> &str {
    let end = target.find([':', '+']).unwrap_or(target.len());
    let name = &target[..end];
    name.strip_suffix("-strict").unwrap_or(name)
}

/// Returns the target of a text in either spelling, or `None` if its processor is not in the table.
pub(crate) fn known_target(target: &str) -> Option<GpuTarget> {
    GpuTarget::parse(target).or_else(|| GpuTarget::parse(processor(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_targets_in_every_spelling() {
        for (id, target) in [
            ("hipv4-amdgcn-amd-amdhsa--gfx1151", "gfx1151"),
            ("hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
            ("hip-amdgcn-amd-amdhsa-gfx908+sram-ecc", "gfx908+sram-ecc"),
            ("hip-amdgcn-amd-amdhsa-gfx906", "gfx906"),
            ("hip-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"),
            ("hipv4-amdgcn-amd-amdhsa--gfx11-generic", "gfx11-generic"),
            ("hipv4-amdgcn-amd-amdhsa-unknown-gfx11-generic", "gfx11-generic"),
            ("openmp-amdgcn-amd-amdhsa--gfx10-3-generic", "gfx10-3-generic"),
            ("hip-amdgpu-amd-amdhsa--gfx906", "gfx906"),
            ("hip-amdgpu11.51-amd-amdhsa", "gfx1151"),
            ("hipv4-amdgpu9.0a-amd-amdhsa--", "gfx90a"),
            ("hip-amdgpu-amd-amdhsa", ""),
        ] {
            assert_eq!(EntryId::parse(id), EntryId::Amd { target: target.into() }, "{id}");
        }
        for id in [
            "host-x86_64-unknown-linux-gnu-",
            "host-x86_64-unknown-linux",
            "host-x86_64-unknown-linux--",
        ] {
            assert_eq!(EntryId::parse(id), EntryId::Host);
        }
        for id in ["openmp-nvptx64-nvidia-cuda--sm_80", "", "hip", "----"] {
            assert_eq!(EntryId::parse(id), EntryId::Foreign);
        }
    }

    #[test]
    fn strips_features_and_suffixes() {
        assert_eq!(processor("gfx908+sram-ecc"), "gfx908");
        assert_eq!(processor("gfx1250-strict"), "gfx1250");
        assert_eq!(processor("gfx11-generic"), "gfx11-generic");
        assert_eq!(known_target("gfx908+sram-ecc"), GpuTarget::parse("gfx908"));
        assert_eq!(known_target("gfx90a:xnack+"), GpuTarget::parse("gfx90a:xnack+"));
        assert_eq!(known_target("gfx9999"), None);
    }
}
