//! Finds the compilers and libraries that build a source: those that CMakeLists.txt and meson.build
//! name, and those that its languages need. Does not read the metadata of Python.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use crate::sources::read_inside;

/// The contents of `native.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    cmake: BTreeMap<String, Vec<String>>,
    meson: BTreeMap<String, Vec<String>>,
    backend: BTreeMap<String, Vec<String>>,
    compiler: BTreeMap<String, String>,
    passed_over: PassedOver,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PassedOver {
    folders: BTreeSet<String>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // A test parses the table.
    toml::from_str(include_str!("native.toml")).unwrap_or_else(|error| unreachable!("{error}"))
});

/// The maximum number of folders between a source's top folder and a build script.
const DEPTH: usize = 4;

/// What the native part of a source needs, as the BuildRequires of a spec.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Native {
    /// The compilers of the source files' languages.
    pub compilers: BTreeSet<String>,
    /// The libraries and programs that the build system requires.
    pub required: BTreeSet<String>,
    /// Those that it uses if they are installed.
    pub optional: BTreeSet<String>,
    /// Whether the source has code for GPUs in HIP.
    pub hip: bool,
}

impl Native {
    /// Reads the build scripts of a source.
    pub fn of(root: &Path) -> Self {
        let mut native = Self::default();
        let mut walk = walkdir::WalkDir::new(root).max_depth(DEPTH).sort_by_file_name().into_iter();
        while let Some(entry) = walk.next() {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name().to_string_lossy();
            if entry.file_type().is_dir() {
                let is_passed_over = TABLE.passed_over.folders.contains(&name.to_lowercase());
                if entry.depth() > 0 && (is_passed_over || name.starts_with('.')) {
                    walk.skip_current_dir();
                }
                continue;
            }
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            if let Some(compiler) = TABLE.compiler.get(extension) {
                native.compilers.insert(compiler.clone());
            }
            let read: fn(&mut Self, &str) = match &*name {
                "CMakeLists.txt" => Self::read_cmake,
                "meson.build" => Self::read_meson,
                _ if extension == "pyx" => Self::read_cython,
                _ => continue,
            };
            let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
            // What cannot be read requires nothing that could be known.
            if let Ok(Some(bytes)) = read_inside(root, &path.to_string_lossy()) {
                read(&mut native, &String::from_utf8_lossy(&bytes));
            }
        }
        native.optional.retain(|name| !native.required.contains(name));
        native
    }

    fn read_cython(&mut self, text: &str) {
        if text.lines().any(|line| line.starts_with('#') && line.contains("c++")) {
            self.compilers.insert("gcc-c++".into());
        }
    }

    fn read_cmake(&mut self, text: &str) {
        for (command, arguments) in calls(text) {
            let words: Vec<&str> = arguments.split_whitespace().collect();
            let required = words.contains(&"REQUIRED");
            match command.to_ascii_lowercase().as_str() {
                "project" | "enable_language" => self.hip |= words.contains(&"HIP"),
                "find_package" => {
                    let Some(name) = words.first().filter(|name| is_name(name)) else { continue };
                    self.hip |= name.eq_ignore_ascii_case("hip");
                    if !name.eq_ignore_ascii_case("hip") {
                        let other = || vec![format!("cmake({name})")];
                        let packages = TABLE.cmake.get(*name).cloned().unwrap_or_else(other);
                        self.add(packages, required);
                    }
                }
                "pkg_check_modules" | "pkg_search_module" => {
                    let options = ["REQUIRED", "QUIET", "IMPORTED_TARGET", "GLOBAL"];
                    let modules = words.iter().skip(1).filter(|word| !options.contains(word));
                    let modules = modules.filter_map(|word| {
                        let name = word.trim_matches('"');
                        let end = name.find(['<', '>', '=']).unwrap_or(name.len());
                        is_name(&name[..end]).then(|| format!("pkgconfig({})", &name[..end]))
                    });
                    self.add(modules.collect(), required);
                }
                _ => {}
            }
        }
    }

    fn read_meson(&mut self, text: &str) {
        for (command, arguments) in calls(text) {
            if command != "dependency" {
                continue;
            }
            let Some(name) = arguments.trim().strip_prefix('\'') else { continue };
            let Some((name, options)) = name.split_once('\'') else { continue };
            if is_name(name) {
                let other = || vec![format!("pkgconfig({name})")];
                let packages = TABLE.meson.get(name).cloned().unwrap_or_else(other);
                let options: String = options.split_whitespace().collect();
                self.add(
                    packages,
                    !options.contains("required:") || options.contains("required:true"),
                );
            }
        }
    }

    fn add(&mut self, packages: Vec<String>, required: bool) {
        let list = if required { &mut self.required } else { &mut self.optional };
        list.extend(packages);
    }
}

/// Returns the programs that a build backend runs.
pub(super) fn of_backend(backend: &str) -> &'static [String] {
    TABLE.backend.get(backend).map_or(&[], Vec::as_slice)
}

/// Returns whether a name is safe in a spec and does not contain a variable.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b))
}

/// Returns the calls in a build script of CMake or Meson with their arguments, without comments.
pub(super) fn calls(text: &str) -> Vec<(String, String)> {
    static CALL: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"([A-Za-z_]+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)").ok());
    let code: Vec<&str> = text.lines().map(|l| l.split_once('#').map_or(l, |(c, _)| c)).collect();
    let code = code.join("\n");
    let found = CALL.iter().flat_map(|call| call.captures_iter(&code));
    found.map(|call| (call[1].to_owned(), call[2].to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(files: &[(&str, &str)]) -> Native {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        Native::of(dir.path())
    }

    fn list(names: &BTreeSet<String>) -> String {
        names.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn reads_requirements_of_cmake() {
        let text = "project(x LANGUAGES CXX HIP)\nfind_package(ZLIB REQUIRED)\n\
            # find_package(Old REQUIRED)\nfind_package(fmt 10 CONFIG\n  REQUIRED)\n\
            find_package(OpenMP)\nfind_package(ALSA)\nfind_package(${NAME} REQUIRED)\n\
            pkg_check_modules(AV REQUIRED IMPORTED_TARGET libavcodec>=58 libavutil)\n";
        let found = native(&[
            ("CMakeLists.txt", text),
            ("tests/CMakeLists.txt", "find_package(GTest REQUIRED)"),
            ("x.cpp", ""),
        ]);
        assert_eq!(
            list(&found.required),
            "cmake(fmt) pkgconfig(libavcodec) pkgconfig(libavutil) pkgconfig(zlib)"
        );
        assert_eq!(list(&found.optional), "pkgconfig(alsa)");
        assert_eq!((list(&found.compilers).as_str(), found.hip), ("gcc-c++", true));
    }

    #[test]
    fn reads_requirements_of_meson() {
        let text = "py = import('python').find_installation()\ndep = dependency('zlib', version: '>=1')\n\
            blas = dependency('openblas', required : false)\nthreads = dependency('threads')\n\
            x = dependency('libpng', required: get_option('png'))\n";
        let found = native(&[("meson.build", text), ("src/a.c", ""), ("src/b.f90", "")]);
        assert_eq!(list(&found.required), "pkgconfig(zlib)");
        assert_eq!(list(&found.optional), "pkgconfig(libpng) pkgconfig(openblas)");
        assert_eq!(list(&found.compilers), "gcc gcc-gfortran");
    }

    #[test]
    fn finds_cxx_in_cython() {
        assert_eq!(list(&native(&[("a.pyx", "x = 1\n")]).compilers), "gcc");
        let found = native(&[("a.pyx", "# distutils: language = c++\n")]);
        assert_eq!(list(&found.compilers), "gcc gcc-c++");
    }

    #[test]
    fn names_programs_of_build_backends() {
        assert_eq!(of_backend("mesonpy"), ["ninja-build"]);
        assert!(of_backend("hatchling.build").is_empty());
    }
}
