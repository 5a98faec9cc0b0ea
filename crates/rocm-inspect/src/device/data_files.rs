//! Recognizes files for one GPU target by their names: tuning data, and kernels in formats that are
//! not decoded. ELF files and bundles are recognized by content instead. Sources of the names:
//! ROCm/rocm-libraries, Tensile's `library/` and MIOpen's `db/`; ROCm/aotriton, `aotriton.images/`.

use crate::facts::{Storage, Target};
use rocmrpm_base::gpu::GpuTarget;

/// Returns which targets the file at `path` is for, if its name shows that: one target, or the
/// processors of a family.
pub(crate) fn look(path: &str) -> Option<(Vec<Target>, Storage)> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let found = tensile(folders, name).map(|target| (vec![target], Storage::DataFile));
    found.or_else(|| miopen(name)).or_else(|| image(folders, name))
}

/// `library/TensileLibrary_Type_HH_gfx1151.dat` and `library/gfx1151/*.dat`.
fn tensile(folders: &str, name: &str) -> Option<Target> {
    let stem = name.strip_suffix(".dat").or_else(|| name.strip_suffix(".dat.gz"))?;
    let mut folders = folders.rsplit('/');
    let (last, before) = (folders.next().unwrap_or_default(), folders.next());
    if last != "library" && before != Some("library") && !name.starts_with("TensileLibrary") {
        return None;
    }
    let in_name = stem.rfind("gfx").and_then(|at| target(&stem[at..]));
    in_name.or_else(|| target(last))
}

/// `gfx942130.db.txt`, `gfx1030_36.HIP.fdb.txt`, `gfx90878.kdb`: the processor and the number of
/// compute units, with or without a separator.
fn miopen(name: &str) -> Option<(Vec<Target>, Storage)> {
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let storage = match name.starts_with("gfx") {
        true if ends(&[".kdb", ".kdb.bz2"]) => Storage::KernelFile,
        true if ends(&[".db", ".db.txt", ".fdb.txt", ".tn.model"]) => Storage::DataFile,
        _ => return None,
    };
    Some((vec![Target::Gpu(longest(name)?.0)], storage))
}

/// `aotriton.images/amd-gfx11xx/flash/*.aks2`; since 0.13 `flash/*.zip`, which contain these.
fn image(folders: &str, name: &str) -> Option<(Vec<Target>, Storage)> {
    if !name.ends_with(".aks2") && !name.ends_with(".zip") {
        return None;
    }
    let folders: Vec<&str> = folders.split('/').collect();
    let family = folders.windows(2).find_map(|pair| {
        let family = pair[1].strip_prefix("amd-")?;
        (pair[0].ends_with(".images") && family.starts_with("gfx")).then_some(family)
    })?;
    let all = GpuTarget::known().filter(|name| in_family(name, family));
    let all: Vec<Target> = all.filter_map(GpuTarget::parse).map(Target::Gpu).collect();
    let unknown = || vec![Target::Unknown(family.chars().take(64).collect())];
    Some((if all.is_empty() { unknown() } else { all }, Storage::KernelFile))
}

/// Returns whether a family such as `gfx11xx` covers a processor. It does not include processors
/// newer than those that `gfx11-generic` covers.
fn in_family(name: &str, family: &str) -> bool {
    let fits = name.len() == family.len()
        && name.bytes().zip(family.bytes()).all(|(is, pattern)| pattern == b'x' || is == pattern);
    let later = family == "gfx11xx" && (name.starts_with("gfx117") || name == "gfx1154");
    fits && !later && !name.contains("generic") && family.starts_with("gfx")
}

/// Returns the target at the start of a text, such as `gfx1151` or `gfx90a-xnack+`.
fn target(text: &str) -> Option<Target> {
    let (target, rest) = longest(text)?;
    let feature = ["xnack+", "xnack-"].into_iter().find(|feature| rest.get(1..) == Some(feature));
    match feature {
        Some(feature) => GpuTarget::parse(&format!("{target}:{feature}")).map(Target::Gpu),
        None if rest.starts_with(|c: char| c.is_ascii_alphanumeric()) => None,
        None => Some(Target::Gpu(target)),
    }
}

/// Returns the longest known name that the text starts with, and the rest of the text.
fn longest(text: &str) -> Option<(GpuTarget, &str)> {
    let names = GpuTarget::known().filter(|name| text.starts_with(name));
    let name = names.max_by_key(|name| name.len())?;
    Some((GpuTarget::parse(name)?, &text[name.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> String {
        match look(path) {
            Some((targets, storage)) => {
                let targets: Vec<_> = targets.iter().map(ToString::to_string).collect();
                format!("{storage} {}", targets.join(" "))
            }
            None => String::new(),
        }
    }

    #[test]
    fn derives_targets_from_names() {
        for (path, wanted) in [
            (
                "usr/lib64/rocblas/library/TensileLibrary_Type_HH_Contraction_gfx1151.dat",
                "data-file gfx1151",
            ),
            ("rocblas/library/TensileLibrary_lazy_gfx90a-xnack+.dat", "data-file gfx90a:xnack+"),
            ("hipblaslt/library/gfx1151/TensileLibrary_lazy.dat", "data-file gfx1151"),
            ("hipblaslt/library/gfx1151/hipblasltTransform.hsaco", ""),
            ("share/miopen/db/gfx942130.db.txt", "data-file gfx942"),
            ("share/miopen/db/gfx1030_36.HIP.fdb.txt", "data-file gfx1030"),
            ("share/miopen/db/gfx90a68.HIP.fdb.txt", "data-file gfx90a"),
            ("share/miopen/db/gfx90878.kdb", "kernel-file gfx908"),
            (
                "lib/aotriton.images/amd-gfx115x/flash/a.aks2",
                "kernel-file gfx1150 gfx1151 gfx1152 gfx1153 gfx1154",
            ),
            (
                "lib/aotriton.images/amd-gfx11xx/flash/attn_fwd/a.aks2",
                "kernel-file gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153",
            ),
            ("lib/aotriton.images/amd-gfx942/flash/a.aks2", "kernel-file gfx942"),
            ("lib64/aotriton.images/amd-gfx942/flash/attn_fwd.zip", "kernel-file gfx942"),
            ("lib/aotriton.images/amd-gfx77/a.aks2", "kernel-file gfx77"),
        ] {
            assert_eq!(found(path), wanted, "{path}");
        }
    }

    #[test]
    fn ignores_other_names() {
        for path in [
            "",
            "/",
            "usr/share/doc/gfx1151.txt",
            "data/gfx1151.dat",
            "library/gfx11519.dat",
            "library/names.dat",
            "gfx.kdb",
            "xgfx1151.kdb",
            "aotriton.images/a.aks2",
            "amd-gfx942/a.aks2",
            "library/\u{e9}gfx\u{e9}.dat",
        ] {
            assert_eq!(found(path), "", "{path}");
        }
    }
}
