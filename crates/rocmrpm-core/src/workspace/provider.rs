//! ROCm providers, read from `mock-configs/rocm/*.toml`: where ROCm is, and the packages that have
//! it.

use std::collections::BTreeMap;

use super::chroot::{check_key, check_macro};
use super::document::{At, File, Table};
use crate::canonical::Canonical;
use crate::error::Problem;
use crate::inspect::SearchPathTag;
use crate::names::Soname;
use crate::text::visible;

/// A provider of ROCm RPMs.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The definition's file name without `.toml`.
    pub name: String,
    /// The install prefix, such as `/usr`.
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
    pub packages: Vec<String>,
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
        packages.iter().for_each(|name| table.must_be_plain(name, "a package's name"));
        Self { url, suite, gpg_key, packages: packages.into_iter().map(|at| at.value).collect() }
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
    pub runtime: Option<String>,
    /// The package to build with.
    pub devel: Option<String>,
    /// The SONAME that programs need.
    pub soname: Option<Soname>,
}

impl Provider {
    /// Reads a provider's definition.
    pub fn read(name: &str, file: File, problems: &mut Vec<Problem>) -> Self {
        file.clone().parse(problems, |root| {
            let prefix = root.required_string("prefix", "where ROCm is installed, such as `/usr`");
            let prefix = prefix.map(|at| folder(root, at)).unwrap_or_default();
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
                        runtime: table.string("runtime").map(|at| at.value),
                        devel: table.string("devel").map(|at| at.value),
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
                file,
            }
        })
    }
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
