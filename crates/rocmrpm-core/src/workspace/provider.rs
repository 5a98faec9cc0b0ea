//! ROCm providers, read from `mock-configs/rocm/*.toml`: where ROCm is, and the packages that have
//! it.

use std::collections::{BTreeMap, BTreeSet};

use super::chroot::{check_key, check_macro};
use super::delivery::{Delivery, PREFIX_MACRO};
use super::document::{At, File, Table};
use super::rocm_lock::RocmLock;
use crate::canonical::Canonical;
use crate::error::Problem;
use crate::gpu::GpuTarget;
use crate::inspect::SearchPathTag;
use crate::names::Soname;
use crate::text::visible;

/// A provider of ROCm RPMs.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The definition's file name without `.toml`.
    pub name: String,
    /// The install prefix, such as `/usr`; [`PREFIX_MACRO`] if no package has its ROCm.
    pub prefix: String,
    /// The folder of libraries, such as `/usr/lib64`.
    pub libdir: String,
    /// The folder of LLVM's programs, such as `/usr/lib64/rocm/llvm/bin`.
    pub llvm_bin: String,
    /// The folder of the device libraries, which are bitcode, as a word for a shell: either a path
    /// or one that asks the compiler.
    pub device_libs: String,
    /// The package tables that list what it has: files of `mock-configs/packages/`.
    pub packages: Vec<At<String>>,
    /// Components that its packages already are, and that are therefore not built.
    pub brings: Vec<At<String>>,
    /// The version of ROCm, or the file that states it.
    pub version: RocmVersion,
    /// RPM macros with the list of GPU targets.
    pub gpu_macros: Vec<String>,
    /// The packages for each capability.
    pub capabilities: BTreeMap<String, Capability>,
    /// Its packages for Ubuntu, for the container file of the flavor `ubuntu`.
    pub ubuntu: Option<AptSource>,
    /// The tag with which its own files state search paths; `None` for either.
    pub search_path_tag: Option<SearchPathTag>,
    /// Where builds get ROCm from if no package has it.
    pub delivery: Option<Delivery>,
    /// The locked files of that ROCm, if they were locked.
    pub lock: Option<RocmLock>,
    /// The file it was read from.
    pub file: File,
}

/// A provider's repository for apt (sources.list(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AptSource {
    /// The repository's URL.
    pub url: String,
    /// The suite and the components, such as `stable main`.
    pub suite: String,
    /// The URL or file of the key, in ASCII armor.
    pub gpg_key: String,
    /// The packages that the stack needs at run time.
    pub packages: Vec<PackageName>,
}

impl AptSource {
    fn read(table: &mut Table<'_>) -> Self {
        let url = line(table, "url", "the URL of the repository");
        let suite = line(table, "suite", "the suite and the components, such as `stable main`");
        let gpg_key = line(table, "gpg-key", "the URL or file of the repository's key");
        let at = At { value: gpg_key.clone(), span: table.span() };
        check_key(table, &at);
        if gpg_key.contains(char::is_whitespace) {
            // `ADD` would take each word as a separate source.
            table.problem(at.span, "`gpg-key` has a space", "expected one URL or file", None);
        }
        let packages = table.strings("packages");
        for At { value, span } in &packages {
            let name = At { value: value.replace(PLACEHOLDER, "gfx"), span: span.clone() };
            table.must_be_plain(&name, "a package's name");
        }
        let packages = packages.into_iter().map(PackageName).collect();
        Self { url, suite, gpg_key, packages }
    }
}

/// Reads a required value that becomes part of a line of a file.
fn line(table: &mut Table<'_>, key: &str, what: &str) -> String {
    let Some(At { value, span }) = table.required_string(key, what) else { return String::new() };
    if value.contains(['\'', '"', '\\']) {
        table.problem(
            span,
            format!("`{key}` has a quote or a backslash"),
            format!("expected {what}"),
            None,
        );
    }
    value
}

/// Where the version of ROCm comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RocmVersion {
    /// The definition states it.
    Known(String),
    /// A header of the machine defines it as `HIP_VERSION_MAJOR` and `HIP_VERSION_MINOR`.
    Header(String),
}

impl RocmVersion {
    fn read(root: &mut Table<'_>) -> Self {
        match (root.string("version"), root.string("version-header")) {
            (Some(At { value, span }), None) => {
                let number =
                    |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
                if !value.split('.').all(number) {
                    let message = "this is not a version of ROCm";
                    root.problem(span, message, "expected a version such as `7.2`", None);
                }
                Self::Known(value)
            }
            (None, Some(header)) => Self::Header(header.value),
            (both, _) => {
                let span = both.map_or(0..0, |at| at.span);
                let message = "expected exactly one of `version` and `version-header`";
                let label = "ROCm's version decides how wheels are labelled";
                root.problem(span, message, label, None);
                Self::Known(String::new())
            }
        }
    }
}

impl Canonical for RocmVersion {
    fn write(&self, text: &mut String) {
        let (word, value) = match self {
            Self::Known(version) => ("Known", version),
            Self::Header(path) => ("Header", path),
        };
        text.push_str(word);
        text.push('(');
        value.write(text);
        text.push(')');
    }
}

/// The provider's packages for one capability, such as `hip`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capability {
    /// The package to run with.
    pub runtime: Option<PackageName>,
    /// The package to build with.
    pub devel: Option<PackageName>,
    /// The SONAME that programs need.
    pub soname: Option<Soname>,
}

/// What stands for each GPU target in the name of a package.
const PLACEHOLDER: &str = "{gpu-target}";

/// The name of a package. With `{gpu-target}` in it, there is one package per GPU target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName(At<String>);

impl PackageName {
    fn read(table: &mut Table<'_>, key: &str) -> Option<Self> {
        let name = table.string(key)?;
        if name.value.replace(PLACEHOLDER, "").contains(['{', '}']) {
            let message = format!("`{key}` has a brace outside of `{PLACEHOLDER}`");
            let help = format!("write `{PLACEHOLDER}` where the name has a GPU target");
            table.problem(name.span.clone(), message, "expected a package's name", Some(help));
        }
        Some(Self(name))
    }

    /// Returns the packages for these GPU targets, sorted; one if the name does not depend on them.
    pub fn for_targets(&self, targets: &[GpuTarget]) -> Vec<String> {
        let Self(At { value: name, .. }) = self;
        match name.contains(PLACEHOLDER) {
            true => {
                let processors: BTreeSet<&str> = targets.iter().map(GpuTarget::processor).collect();
                processors.into_iter().map(|gpu| name.replace(PLACEHOLDER, gpu)).collect()
            }
            false => vec![name.clone()],
        }
    }

    /// Returns the problem of a name that is for another GPU target than all those of the stack: the
    /// stack would get the wrong package, or lack those of its other targets.
    fn problem(&self, file: &File, targets: &[GpuTarget]) -> Option<Problem> {
        let Self(At { value: name, span }) = self;
        let named = GpuTarget::named_in(name)?;
        let others: BTreeSet<&str> =
            targets.iter().map(GpuTarget::processor).filter(|gpu| *gpu != named).collect();
        if others.is_empty() {
            return None;
        }
        let others = others.into_iter().collect::<Vec<_>>().join(" and ");
        let message = match targets.iter().any(|target| target.processor() == named) {
            true => format!("`{name}` is only for {named}, but the stack is also for {others}"),
            false => format!("`{name}` is for {named}, but the stack is for {others}"),
        };
        let pattern = name.replace(named, PLACEHOLDER);
        let help = format!("write `{pattern}`, which is one package per GPU target of the stack");
        let problem = file.problem(span.clone(), message, "a GPU target in a package's name");
        Some(Problem { help: Some(help), ..problem })
    }
}

impl Provider {
    /// Reads a provider's definition.
    pub fn read(name: &str, file: File, problems: &mut Vec<Problem>) -> Self {
        file.clone().parse(problems, |root| {
            let delivery = Delivery::read(root);
            let prefix = prefix(root, delivery.as_ref());
            let mut below = |key: &str, rest: &str| match root.string(key) {
                Some(at) => folder(root, at),
                None => format!("{}/{rest}", prefix.trim_end_matches('/')),
            };
            let libdir = below("libdir", "lib");
            let llvm_bin = below("llvm-bin", "lib/llvm/bin");
            let device_libs = device_libs(root, &prefix, &llvm_bin);
            let packages = root.strings("packages");
            let brings = root.strings("brings");
            let version = RocmVersion::read(root);
            let capabilities = root.table("capabilities", |table| {
                table.each_table(|key, table| {
                    let capability = Capability {
                        runtime: PackageName::read(table, "runtime"),
                        devel: PackageName::read(table, "devel"),
                        soname: table.string("soname").map(|at| Soname::new(at.value)),
                    };
                    (key.value, capability)
                })
            });
            Self {
                name: name.to_owned(),
                prefix,
                libdir,
                llvm_bin,
                device_libs,
                packages,
                brings,
                version,
                gpu_macros: {
                    let names = root.strings("gpu-macros");
                    names.iter().for_each(|at| check_macro(root, &at.value, &at.span));
                    names.into_iter().map(|at| at.value).collect()
                },
                capabilities: capabilities.unwrap_or_default().into_iter().collect(),
                ubuntu: root.table("ubuntu", AptSource::read),
                search_path_tag: search_path_tag(root),
                delivery,
                lock: None,
                file,
            }
        })
    }
}

impl Provider {
    /// Adds the problems of packages that are for other GPU targets than these of the stack.
    pub(super) fn check_targets(&self, targets: &[GpuTarget], problems: &mut Vec<Problem>) {
        let capabilities = self.capabilities.values();
        let names = capabilities.flat_map(|one| [&one.runtime, &one.devel]).flatten();
        let names = names.chain(self.ubuntu.iter().flat_map(|source| &source.packages));
        problems.extend(names.filter_map(|name| name.problem(&self.file, targets)));
    }
}

/// Reads the install prefix. Only a build knows where ROCm is if no package has it.
fn prefix(root: &mut Table<'_>, delivery: Option<&Delivery>) -> String {
    let Some(delivery) = delivery else {
        let prefix = root.required_string("prefix", "where ROCm is installed, such as `/usr`");
        return prefix.map(|at| folder(root, at)).unwrap_or_default();
    };
    if let Some(At { span, .. }) = root.string("prefix") {
        let message = format!("`prefix` and `[{}]` exclude each other", delivery.table());
        root.problem(span, message, "a build unpacks its ROCm below its own folder", None);
    }
    PREFIX_MACRO.to_owned()
}

/// Reads the folder of the device libraries, in which `{resource-dir}` is clang's.
fn device_libs(root: &mut Table<'_>, prefix: &str, llvm_bin: &str) -> String {
    let Some(At { value, span }) = root.string("device-libs") else {
        return format!("{}/lib/llvm/amdgcn/bitcode", prefix.trim_end_matches('/'));
    };
    match value.strip_prefix("{resource-dir}") {
        Some(rest) => {
            let rest = folder(root, At { value: rest.to_owned(), span });
            format!("\"$({llvm_bin}/clang -print-resource-dir)\"{rest}")
        }
        None => folder(root, At { value, span }),
    }
}

/// Reads a folder of the target system. It becomes part of specs, container files and scripts, so
/// it must be an absolute path of plain characters.
fn folder(root: &mut Table<'_>, At { value, span }: At<String>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-@~".contains(c);
    let dots = value.split('/').any(|part| matches!(part, "." | ".."));
    if !value.starts_with('/') || dots || !value.chars().all(plain) {
        let message = format!("`{}` is not an absolute path of plain characters", visible(&value));
        root.problem(span, message, "expected a folder such as `/opt/rocm/lib`", None);
    }
    value
}

fn search_path_tag(root: &mut Table<'_>) -> Option<SearchPathTag> {
    let At { value, span } = root.string("search-path-tag")?;
    match value.as_str() {
        "rpath" => Some(SearchPathTag::Rpath),
        "runpath" => Some(SearchPathTag::Runpath),
        _ => {
            let message = format!("`{value}` is not a tag for search paths");
            root.problem(span, message, "expected `rpath` or `runpath`", None);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(names: &[&str]) -> Vec<GpuTarget> {
        names.iter().map(|name| GpuTarget::parse(name).unwrap()).collect()
    }

    fn read(text: &str) -> (Provider, Vec<Problem>) {
        let text = format!("prefix = \"/r\"\nversion = \"7.2\"\n{text}");
        let mut problems = Vec::new();
        let file = File { name: "p.toml".into(), text };
        (Provider::read("p", file, &mut problems), problems)
    }

    #[test]
    fn names_one_package_per_gpu_target() {
        let (provider, problems) = read(
            "[capabilities.blas]\nruntime = \"blas-{gpu-target}\"\ndevel = \"blas-devel\"\n\
             [ubuntu]\nurl = \"u\"\nsuite = \"s\"\ngpg-key = \"https://k\"\n\
             packages = [\"all-{gpu-target}\"]\n",
        );
        assert!(problems.is_empty(), "{problems:?}");
        let Capability { runtime, devel, .. } = provider.capabilities["blas"].clone();
        let both = targets(&["gfx90a:xnack+", "gfx1201", "gfx90a:xnack-"]);
        assert_eq!(runtime.unwrap().for_targets(&both), ["blas-gfx1201", "blas-gfx90a"]);
        assert_eq!(devel.unwrap().for_targets(&both), ["blas-devel"]);
        let packages = provider.ubuntu.unwrap().packages;
        assert_eq!(packages[0].for_targets(&both), ["all-gfx1201", "all-gfx90a"]);
    }

    #[test]
    fn rejects_unknown_placeholders_in_names_of_packages() {
        let (_, problems) = read("[capabilities.blas]\nruntime = \"blas-{gpu}\"\n");
        let help = problems[0].help.as_deref();
        assert_eq!(help, Some("write `{gpu-target}` where the name has a GPU target"));
        let ubuntu = "[ubuntu]\nurl = \"u\"\nsuite = \"s\"\ngpg-key = \"https://k\"\n";
        assert_eq!(read(&format!("{ubuntu}packages = [\"a-{{gpu}}\"]\n")).1.len(), 1);
    }

    #[test]
    fn rejects_packages_for_other_gpu_targets() {
        let (provider, _) = read("[capabilities.blas]\nruntime = \"blas-gfx1151\"\n");
        let problems = |names: &[&str]| {
            let mut problems = Vec::new();
            provider.check_targets(&targets(names), &mut problems);
            problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>()
        };
        assert_eq!(problems(&["gfx1151"]), [""; 0]);
        let other = "`blas-gfx1151` is for gfx1151, but the stack is for gfx1100 and gfx1201";
        assert_eq!(problems(&["gfx1100", "gfx1201"]), [other]);
        let also = "`blas-gfx1151` is only for gfx1151, but the stack is also for gfx1100";
        assert_eq!(problems(&["gfx1100", "gfx1151"]), [also]);
    }

    #[test]
    fn rejects_provider_folders_that_are_relative_or_need_quoting() {
        let read = |text: &str| {
            let mut problems = Vec::new();
            Provider::read("p", File { name: "x.toml".into(), text: text.into() }, &mut problems);
            problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>()
        };
        let good = "prefix = \"/opt/rocm/core-7.14\"\nlibdir = \"/usr/lib64\"\nversion = \"7.2\"\n";
        assert_eq!(read(good), [""; 0]);
        for bad in [
            "/usr'; touch /pwned; echo '",
            "/a b",
            "/a$(id)",
            "/a\\n",
            "usr",
            "",
            "/a/../b",
            "/a{b}",
            "/a%b",
        ] {
            let of_prefix = read(&format!("prefix = \"{bad}\"\nversion = \"7.2\"\n"));
            assert_eq!(of_prefix.len(), 1, "{bad}: {of_prefix:?}");
            for key in ["libdir", "llvm-bin", "device-libs"] {
                let text = format!("prefix = \"/usr\"\n{key} = \"{bad}\"\nversion = \"7.2\"\n");
                assert_eq!(read(&text).len(), 1, "{key} {bad}: {:?}", read(&text));
            }
        }
    }

    #[test]
    fn asks_the_compiler_for_device_libraries() {
        let device_libs = |text: &str| {
            let text = format!("prefix = \"/r\"\nversion = \"7.2\"\n{text}");
            let file = File { name: "p.toml".into(), text };
            let mut problems = Vec::new();
            (Provider::read("p", file, &mut problems).device_libs, problems.len())
        };
        assert_eq!(device_libs(""), ("/r/lib/llvm/amdgcn/bitcode".into(), 0));
        assert_eq!(device_libs("device-libs = \"/r/b\""), ("/r/b".into(), 0));
        let asked = "llvm-bin = \"/r/bin\"\ndevice-libs = \"{resource-dir}/lib/amdgcn/bitcode\"";
        let word = "\"$(/r/bin/clang -print-resource-dir)\"/lib/amdgcn/bitcode";
        assert_eq!(device_libs(asked), (word.into(), 0));
        for bad in ["{resource-dir}", "{resource-dir}x", "{resource-dir}/$(id)", "/{resource-dir}"]
        {
            assert_eq!(device_libs(&format!("device-libs = \"{bad}\"")).1, 1, "{bad}");
        }
    }
}
