//! Describes the system that a workspace's packages are for: the properties of its chroot and its
//! ROCm provider that inspection needs. Does not inspect anything.

use crate::gpu::GpuTarget;
use crate::inspect::{self, Rocm, System};
use crate::names::Soname;
use crate::process::ProcessError;
use crate::wheel;
use crate::workspace::{Chroot, Provider, RocmVersion, Workspace};

/// Returns what the chroot of a workspace contains: the built-in tables, those of the chroot, and
/// those of its provider. If the chroot is the host, asks the machine itself.
pub fn system(workspace: &Workspace) -> Result<System, ProcessError> {
    of(&workspace.chroot, &workspace.provider, &workspace.manifest.gpu_targets)
}

/// Returns the packages and SONAME of each capability for these GPU targets.
pub(super) fn sonames<'p>(
    provider: &'p Provider,
    targets: &'p [GpuTarget],
) -> impl Iterator<Item = (&'p String, (Option<String>, Option<Soname>))> {
    provider.capabilities.iter().map(|(name, one)| {
        let packages = one.runtime.as_ref().map(|name| name.for_targets(targets).join(", "));
        (name, (packages, one.soname.clone()))
    })
}

fn of(chroot: &Chroot, provider: &Provider, targets: &[GpuTarget]) -> Result<System, ProcessError> {
    let rocm = rocm(provider, targets);
    let mut system = match chroot.is_host() {
        true => System::this_machine(&rocm)?,
        false => System::release(&chroot.name, &chroot.arch, &chroot.python, &rocm),
    };
    if provider.delivery.is_some() {
        // The machine does not have it; wheels find it in ROCm's Python packages.
        let sonames = wheel::sdk_stems().flat_map(|stem| {
            inspect::rocm_sonames(stem, rocm.major.unwrap_or(0)).unwrap_or_default()
        });
        for soname in sonames {
            let package = || format!("ROCm of the provider {}", provider.name);
            system.rocm.entry(soname.to_owned()).or_insert_with(package);
        }
    }
    for (soname, package) in &chroot.libraries {
        match package.as_str() {
            // The built-in table covers all releases; this one lacks the library.
            "" => system.libraries.remove(soname),
            package => system.libraries.insert(soname.clone(), package.to_owned()),
        };
    }
    system.symbol_versions.extend(chroot.symbol_versions.clone());
    Ok(system)
}

fn rocm(provider: &Provider, targets: &[GpuTarget]) -> Rocm {
    Rocm {
        prefix: provider.prefix.clone(),
        major: match &provider.version {
            RocmVersion::Known(version) => {
                version.split('.').next().and_then(|major| major.parse().ok())
            }
            RocmVersion::Header(_) => None,
        },
        search_path_tag: provider.search_path_tag,
        capabilities: sonames(provider, targets).map(|(name, one)| (name.clone(), one)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::SearchPathTag;
    use crate::workspace::document::File;

    fn chroot(name: &str, text: &str) -> Chroot {
        let mut problems = Vec::new();
        let chroot =
            Chroot::read(name, File { name: name.into(), text: text.into() }, &mut problems);
        assert_eq!(problems.len(), 0, "{problems:?}");
        chroot
    }

    fn provider(text: &str) -> Provider {
        let mut problems = Vec::new();
        let provider =
            Provider::read("p", File { name: "p".into(), text: text.into() }, &mut problems);
        assert_eq!(problems.len(), 0, "{problems:?}");
        provider
    }

    fn targets() -> [GpuTarget; 2] {
        ["gfx1100", "gfx1201"].map(|name| GpuTarget::parse(name).unwrap())
    }

    const FEDORA: &str = include_str!("../../../../mock-configs/fedora-43.toml");
    const AMD: &str = include_str!("../../../../mock-configs/rocm/amdrocm.toml");
    const FEDORA_ROCM: &str = include_str!("../../../../mock-configs/rocm/fedora-43.toml");

    #[test]
    fn combines_libraries_of_release_provider_and_chroot() {
        let own =
            format!("{FEDORA}\n[libraries]\n\"libfoo.so.1\" = \"foo\"\n\"libm.so.6\" = \"\"\n");
        let system = of(&chroot("fedora-43", &own), &provider(AMD), &targets()).unwrap();
        assert_eq!((system.name.as_str(), system.arch.as_str()), ("fedora-43", "x86_64"));
        assert_eq!(system.package("libc.so.6"), Some("glibc"));
        assert_eq!(system.package("libfoo.so.1"), Some("foo"));
        assert_eq!(
            system.package("libm.so.6"),
            None,
            "the chroot's definition removes this library"
        );
        assert_eq!(system.package("libpython3.14.so.1.0"), Some("python3-libs"));
        assert_eq!(system.package("libamdhip64.so.7"), Some("amdrocm-runtime7.14"));
        assert_eq!(system.package("libamdhip64.so.6"), None);
        // This library is not in the provider's table of SONAMEs.
        assert_eq!(
            system.package("librocrand.so.1"),
            Some("amdrocm-rand7.14-gfx1100, amdrocm-rand7.14-gfx1201")
        );
        assert_eq!(system.package("libhiprtc.so.7"), Some("amdrocm-runtime7.14"));
        assert_eq!(system.package("libhiprtc.so.6"), None);
        assert_eq!(system.symbol_versions["GLIBC"], "2.42");
        assert_eq!(system.symbol_versions["GLIBCXX"], "3.4.34");
        assert_eq!(system.search_path_tag, Some(SearchPathTag::Rpath));
        assert_eq!(system.rocm_prefix, "/opt/rocm/core-7.14");
    }

    #[test]
    fn fedora_43_has_rocm_6() {
        let system = of(&chroot("fedora-43", FEDORA), &provider(FEDORA_ROCM), &targets()).unwrap();
        assert_eq!(system.package("libamdhip64.so.6"), Some("rocm-hip"));
        assert_eq!(system.package("libamdhip64.so.7"), None);
        assert_eq!(system.search_path_tag, None);
        assert_eq!(system.rocm_prefix, "/usr");
        let any = System::fedora();
        assert!(
            any.package("libamdhip64.so.6").is_some() && any.package("libamdhip64.so.7").is_some()
        );
        assert!(any.symbol_versions.is_empty());
    }

    #[test]
    fn host_chroot_uses_this_machine() {
        let host = chroot("host", "rocm-provider = \"p\"\n[symbol-versions]\nGCC = \"9\"\n");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("lib")).unwrap();
        std::fs::write(folder.path().join("lib/libamd_smi.so.99"), "").unwrap();
        let rocm = provider(&format!("prefix = {:?}\nversion = \"7.2\"\n", folder.path()));
        let system = of(&host, &rocm, &targets()).unwrap();
        assert_eq!(system.name, "this machine");
        assert!(system.package("libc.so.6").is_some_and(|path| path.starts_with('/')));
        assert!(system.rocm["libamd_smi.so.99"].ends_with("lib/libamd_smi.so.99"));
        assert_eq!(system.symbol_versions["GCC"], "9");
    }
}
