//! Identifies single pieces of GPU code by their first bytes: AMDGPU ELF files with the processor
//! in `e_flags`, SPIR-V, and LLVM bitcode. It does not read the bundles around them.

use goblin::elf::header::{EI_ABIVERSION, EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, ELFMAG};

use super::elf_headers::{number, segments};
use super::entry_id::known_target;
use super::{metadata, version2};
use crate::facts::KernelCode;
use crate::finding::Depth;
use rocmrpm_base::gpu::GpuTarget;

/// How many of a code object's first bytes identify it: an ELF64 header.
pub(crate) const HEAD: usize = 64;

/// `e_machine` of AMD GPUs.
pub(crate) const EM_AMDGPU: u16 = 224;

const ELFOSABI_AMDGPU_HSA: u8 = 64;

/// The format of a piece of GPU code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    /// An AMDGPU ELF file.
    Amdgpu {
        /// The target in its flags, or in a note of version 2; `None` if it is not in the table.
        target: Option<GpuTarget>,
        /// `EF_AMDGPU_MACH`; `None` for code object version 2, which does not have it.
        mach: Option<u8>,
        /// The code object version; `None` if it is for a runtime other than HSA.
        version: Option<u8>,
        /// The features that the processor lacks, according to the flags of version 4 and later.
        lacks: &'static [&'static str],
    },
    /// SPIR-V.
    Spirv,
    /// LLVM bitcode, which is compiled for a target when it is linked.
    Bitcode,
}

/// The kernels of one or more code objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kernels {
    /// The number of kernels; `None` if they were not counted.
    pub(crate) count: Option<u64>,
    /// The size of their code; `None` if unknown.
    pub(crate) code: Option<KernelCode>,
}

impl Kernels {
    /// The kernels of zero code objects.
    pub(crate) const ZERO: Self =
        Self { count: Some(0), code: Some(KernelCode { bytes: 0, empty: 0 }) };

    /// Returns the sum of both. A value that is unknown in one of them is unknown in the sum.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.zip(other.count).map(|(a, b)| a.saturating_add(b)),
            code: self.code.zip(other.code).map(|(a, b)| a.plus(b)),
        }
    }
}

/// Identifies the code of `size` bytes that starts with `bytes`, and, in a deep inspection, its
/// kernels.
pub(crate) fn examine(bytes: &[u8], size: u64, depth: Depth) -> Result<(Object, Kernels), String> {
    let mut object = identify(&bytes[..bytes.len().min(HEAD)], size)?;
    if let Object::Amdgpu { target: target @ None, version: Some(2), .. } = &mut object {
        *target = version2::target(bytes, size);
    }
    let mut kernels = Kernels::default();
    if depth == Depth::Deep && matches!(object, Object::Amdgpu { .. }) {
        kernels.count = metadata::kernels(bytes, size);
        kernels.code = kernels.count.and_then(|count| metadata::code(bytes, size, count));
    }
    Ok((object, kernels))
}

/// Identifies the code of `size` bytes that starts with `head`, which has [`HEAD`] bytes or all if
/// there are fewer. The error explains why a GPU cannot run it.
pub(crate) fn identify(head: &[u8], size: u64) -> Result<Object, String> {
    if head.starts_with(&[0x03, 0x02, 0x23, 0x07]) {
        return Ok(Object::Spirv);
    }
    if !head.starts_with(ELFMAG) {
        return match head {
            [b'B', b'C', 0xc0, 0xde, ..] => Ok(Object::Bitcode),
            _ => Err("holds neither an ELF file nor SPIR-V".into()),
        };
    }
    let Some(head) = head.first_chunk::<HEAD>() else {
        return Err(format!("holds an ELF file of {size} bytes, shorter than its header"));
    };
    let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    if head[EI_CLASS] != ELFCLASS64 || head[EI_DATA] != ELFDATA2LSB || u16_at(18) != EM_AMDGPU {
        return Err(format!(
            "holds an ELF file for machine {}, not for AMD GPUs ({EM_AMDGPU})",
            u16_at(18)
        ));
    }
    for (what, offset, entry, count) in [
        ("program", u64_at(32), u16_at(54), u16_at(56)),
        ("section", u64_at(40), u16_at(58), u16_at(60)),
    ] {
        let end = offset.checked_add(u64::from(entry) * u64::from(count));
        if count > 0 && end.is_none_or(|end| end > size) {
            return Err(format!(
                "holds an ELF file cut short: {size} bytes, but its {what} headers begin at {offset}"
            ));
        }
    }
    let flags = u32::from_le_bytes([head[48], head[49], head[50], head[51]]);
    Ok(from_flags(flags, head[EI_ABIVERSION], head[7] == ELFOSABI_AMDGPU_HSA))
}

/// Reads the target and features from the flags. Source: LLVM, `AMDGPUUsage`, tables "AMDGPU ELF
/// Header `e_flags`" for code object versions 2, 3, and 4 to 6, which are ABI versions 0, 1, and 2
/// to 4.
fn from_flags(flags: u32, abi: u8, hsa: bool) -> Object {
    if hsa && abi == 0 {
        return Object::Amdgpu { target: None, mach: None, version: Some(2), lacks: &[] };
    }
    let version = abi.checked_add(2).filter(|version| hsa && *version <= 6);
    let mach = flags as u8;
    let sign = |bits: u32| match bits & 3 {
        2 => "-",
        3 => "+",
        _ => "",
    };
    let (sramecc, xnack) = match hsa && abi == 1 {
        true => {
            (if flags & 0x200 != 0 { "+" } else { "" }, if flags & 0x100 != 0 { "+" } else { "" })
        }
        false => (sign(flags >> 10), sign(flags >> 8)),
    };
    let target = GpuTarget::from_mach(mach).map(|processor| {
        let mut text = processor.as_str().to_owned();
        for (name, sign) in [("sramecc", sramecc), ("xnack", xnack)] {
            if !sign.is_empty() {
                text = format!("{text}:{name}{sign}");
            }
        }
        GpuTarget::parse(&text).unwrap_or(processor)
    });
    // Since version 4, both bits of a feature are clear if the processor does not have it.
    let lacks: &[&str] = match (version, flags >> 10 & 3, flags >> 8 & 3) {
        (Some(4..), 0, 0) => &["sramecc", "xnack"],
        (Some(4..), 0, _) => &["sramecc"],
        (Some(4..), _, 0) => &["xnack"],
        _ => &[],
    };
    Object::Amdgpu { target, mach: Some(mach), version, lacks }
}

/// Returns the end of the ELF file at the start of `bytes`: the end of its headers, its segments
/// and, in a complete file, its section headers, which compilers write last. `None` if that is
/// beyond `bytes`.
pub(crate) fn extent(bytes: &[u8]) -> Option<usize> {
    let table = |offset: u64, size: u64, count: u64| -> Option<u64> {
        number::<8>(bytes, offset)?
            .checked_add(number::<2>(bytes, size)? * number::<2>(bytes, count)?)
    };
    let end = (HEAD as u64).max(table(32, 54, 56)?).max(table(40, 58, 60)?);
    if end > bytes.len() as u64 {
        return None;
    }
    let mut ends = segments(bytes).map(|s| s.offset.checked_add(s.size));
    let end = ends.try_fold(end, |end, segment| Some(end.max(segment?)))?;
    usize::try_from(end).ok().filter(|end| *end <= bytes.len())
}

/// Describes how the flags contradict the target in an ID: a different processor, the opposite of a
/// feature, or a feature that the processor lacks. `None` if they agree.
pub(crate) fn contradiction(id_target: &str, object: &Object) -> Option<String> {
    let Object::Amdgpu { target, mach: Some(mach), lacks, .. } = object else { return None };
    if id_target.is_empty() {
        return None;
    }
    let declared = known_target(id_target);
    match (declared, target) {
        (None, None) => None,
        (_, None) => Some(format!("processor {mach:#04x}")),
        (None, Some(is)) => Some(is.to_string()),
        (Some(declared), Some(is)) => {
            // `contradicts` compares the features. A generic target must be named as such, so the
            // processors must be equal.
            let same = declared.processor() == is.processor() && !is.contradicts(&declared);
            let lacking = declared.features().find_map(|feature| {
                let name = feature.trim_end_matches(['+', '-']);
                lacks.contains(&name).then_some(name)
            });
            match lacking {
                Some(name) if same => Some(format!("{is}, which does not have {name}")),
                _ => (!same).then(|| is.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::code_object;

    fn target_of(head: &[u8]) -> String {
        match identify(head, head.len() as u64) {
            Ok(Object::Amdgpu { target: Some(target), .. }) => target.to_string(),
            other => format!("{other:?}"),
        }
    }

    fn with_flags(flags: u32, abi: u8) -> Vec<u8> {
        let mut object = code_object("gfx1151", 256);
        object[48..52].copy_from_slice(&flags.to_le_bytes());
        object[8] = abi;
        object
    }

    #[test]
    fn reads_flags_of_every_version() {
        // The values are from LLVM's own tests.
        assert_eq!(target_of(&with_flags(0x54c, 2)), "gfx942");
        assert_eq!(target_of(&with_flags(0x63f, 3)), "gfx90a:xnack-");
        assert_eq!(target_of(&with_flags(0x73f, 4)), "gfx90a:xnack+");
        assert_eq!(target_of(&with_flags(0x0100_0054, 4)), "gfx11-generic");
        assert_eq!(target_of(&with_flags(0x4a, 4)), "gfx1151");
        assert_eq!(target_of(&with_flags(0x32f, 1)), "gfx906:sramecc+:xnack+");
        assert_eq!(
            identify(&with_flags(0x60, 4), 256),
            Ok(Object::Amdgpu {
                target: None,
                mach: Some(0x60),
                version: Some(6),
                lacks: &["sramecc", "xnack"]
            })
        );
        assert_eq!(
            identify(&with_flags(0x01, 0), 256),
            Ok(Object::Amdgpu { target: None, mach: None, version: Some(2), lacks: &[] })
        );
    }

    #[test]
    fn rejects_other_code_with_its_kind() {
        let mut host = code_object("gfx1151", 256);
        host[18..20].copy_from_slice(&62u16.to_le_bytes());
        assert!(identify(&host, 256).unwrap_err().contains("machine 62"));
        assert_eq!(identify(b"BC\xc0\xde....", 8), Ok(Object::Bitcode));
        assert!(identify(b"", 0).is_err());
        let object = code_object("gfx1151", 256);
        for length in 0..HEAD {
            assert!(identify(&object[..length], length as u64).is_err(), "{length}");
        }
        let mut far = object;
        far[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        far[58..62].copy_from_slice(&[64, 0, 2, 0]);
        assert!(identify(&far, 256).unwrap_err().contains("cut short"));
    }

    #[test]
    fn reports_contradictions_between_ids_and_flags() {
        let object = |flags| identify(&with_flags(flags, 4), 256).unwrap();
        for (id, flags) in [
            ("gfx1151", 0x4a),
            ("gfx90a", 0x73f),
            ("gfx90a:xnack+", 0x73f),
            ("gfx90a:xnack+", 0x53f),
            ("", 0x4a),
        ] {
            assert_eq!(contradiction(id, &object(flags)), None, "{id}");
        }
        assert_eq!(contradiction("gfx9999", &object(0x60)), None);
        assert_eq!(contradiction("gfx1250-strict", &object(0x49)), None);
        for (id, flags, found) in [
            ("gfx1151", 0x41, "gfx1100"),
            ("gfx1151", 0x60, "processor 0x60"),
            ("gfx9999", 0x41, "gfx1100"),
            ("gfx90a:xnack+", 0x63f, "gfx90a:xnack-"),
            ("gfx1151", 0x0100_0054, "gfx11-generic"),
            ("gfx1151:xnack+", 0x4a, "gfx1151, which does not have xnack"),
            ("gfx1010:sramecc+", 0x133, "gfx1010, which does not have sramecc"),
        ] {
            assert_eq!(contradiction(id, &object(flags)).as_deref(), Some(found), "{id}");
        }
    }
}
