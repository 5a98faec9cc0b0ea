//! What a template can use of the ROCm provider, the chroot, and the component's Python closure.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::error::SpecError;
use super::escape::{escape, key};
use super::exclude::requires_pattern;
use crate::gpu::GpuTarget;
use crate::machine;
use crate::workspace::{
    Capability, Component, MemberPlace, PackageName, Provider, RocmVersion, Workspace,
};

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum RocmValue {
    Flag(bool),
    Text(String),
    Names(Vec<String>),
    Capability(BTreeMap<&'static str, String>),
}

#[derive(Serialize)]
pub(super) struct ChrootValues {
    name: String,
    release: String,
    python: String,
}

/// The last written Python closure of a component; empty if it has none.
#[derive(Serialize, Default)]
pub(super) struct ClosureValues {
    /// The package of the private members; empty if there are none.
    runtime: String,
    /// The prefix of the private members.
    prefix: String,
    /// Code at the top of a module that makes the system Python print which Python to use instead.
    guard: String,
    private: Vec<String>,
    dropped: Vec<DroppedValues>,
    /// The value of `__requires_exclude`; empty if nothing is excluded.
    requires_exclude: String,
    requires: Vec<String>,
    /// RPMs of an earlier release to remove on upgrade.
    obsoletes: Vec<String>,
}

#[derive(Serialize)]
struct DroppedValues {
    name: String,
    /// The feature that is unavailable without it.
    without: String,
}

/// Returns the ROCm version of the provider, such as `7.2`.
pub fn rocm_version(provider: &Provider) -> Result<String, SpecError> {
    match &provider.version {
        RocmVersion::Known(version) => Ok(version.clone()),
        RocmVersion::Header(path) => {
            let path = Path::new(path);
            machine::hip_version(path).ok_or_else(|| SpecError::NoRocm { path: path.to_owned() })
        }
    }
}

/// Returns the provider's values for a component with these GPU targets. Packages per target are
/// separated by spaces, as `Requires` and shells accept.
pub(super) fn rocm_values(
    provider: &Provider,
    targets: &[GpuTarget],
) -> BTreeMap<String, RocmValue> {
    let packages = |name: &PackageName| name.for_targets(targets).join(" ");
    let text = |value: &str| RocmValue::Text(escape(value));
    let mut values: BTreeMap<String, RocmValue> = provider
        .capabilities
        .iter()
        .map(|(name, Capability { runtime, devel, soname })| {
            let fields = [
                ("runtime", runtime.as_ref().map(packages)),
                ("devel", devel.as_ref().map(packages)),
                ("soname", soname.as_ref().map(ToString::to_string)),
            ];
            let fields = fields
                .into_iter()
                .filter_map(|(key, value)| value.map(|value| (key, escape(&value))));
            (key(name), RocmValue::Capability(fields.collect()))
        })
        .collect();
    for (name, value) in [
        ("provider", &provider.name),
        ("prefix", &provider.prefix),
        ("libdir", &provider.libdir),
        ("llvm_bin", &provider.llvm_bin),
        ("device_libs", &provider.device_libs),
    ] {
        values.insert(name.to_owned(), text(value));
    }
    // Search paths of files may only lead to folders of packages.
    let is_packaged = provider.delivery.is_none();
    values.insert("packaged".to_owned(), RocmValue::Flag(is_packaged));
    let brings = provider.brings.iter().map(|at| escape(&at.value)).collect();
    values.insert("brings".to_owned(), RocmValue::Names(brings));
    if let Ok(version) = rocm_version(provider) {
        values.insert("version".to_owned(), text(&version));
    }
    values
}

pub(super) fn chroot_values(workspace: &Workspace) -> Result<ChrootValues, SpecError> {
    let chroot = &workspace.chroot;
    let name = chroot.name.clone();
    if chroot.is_host() {
        let release = machine::os_release().version_id;
        return Ok(ChrootValues {
            name,
            release: escape(&release),
            python: machine::python_version()?,
        });
    }
    Ok(ChrootValues { name, release: escape(&chroot.release), python: escape(&chroot.python) })
}

pub(super) fn closure_values(workspace: &Workspace, component: &Component) -> ClosureValues {
    let (Some(rules), Some(written)) = (&component.closure, &workspace.closure) else {
        return ClosureValues::default();
    };
    let dropped = rules.members.iter().filter(|member| member.place == Some(MemberPlace::Dropped));
    let dropped = dropped.map(|member| DroppedValues {
        name: member.name.value.clone(),
        without: escape(member.without.as_deref().unwrap_or_default()),
    });
    let (runtime, prefix) = match written.private.is_empty() {
        true => Default::default(),
        false => (component.runtime_name(), format!("%{{_libdir}}/{}", component.prefix_name())),
    };
    ClosureValues {
        guard: guard(component.name.as_str(), &prefix),
        runtime,
        prefix,
        private: written.private.clone(),
        dropped: dropped.collect(),
        requires_exclude: requires_pattern(&written.not_required, &written.no_extras)
            .unwrap_or_default(),
        requires: written.requires.clone(),
        obsoletes: written.obsoletes.clone(),
    }
}

/// Returns the first lines of a module whose dependencies are in a private prefix. They reject the
/// system Python, which has other versions of these dependencies. Wheels and virtual environments
/// are unaffected.
fn guard(component: &str, prefix: &str) -> String {
    format!(
        "import os as _os\nimport sys as _sys\n\n\
         if _sys.prefix == \"%{{_prefix}}\" and _os.path.exists(\"{prefix}/bin/python3\"):\n    \
         raise ImportError(\n        \"{component} runs in {prefix}/bin/python3: \"\n        \
         \"this Python has other versions of what it requires\"\n    )\n"
    )
}
