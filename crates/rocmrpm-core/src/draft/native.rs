//! Finds the compilers and libraries that build a source: those that CMakeLists.txt, meson.build, and
//! configure.ac name, and those that its languages need. Does not read the metadata of Python.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::calls::{all_calls, linux_calls, without_comments};
use crate::sources::read_inside;

/// The contents of `native.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    cmake: BTreeMap<String, Vec<String>>,
    meson: BTreeMap<String, Vec<String>>,
    backend: BTreeMap<String, Backend>,
    compiler: BTreeMap<String, String>,
    passed_over: PassedOver,
}

/// What `native.toml` says about a build backend.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Backend {
    /// The programs that it runs.
    pub programs: Vec<String>,
    /// Options of `%pyproject_wheel`, after a space.
    #[serde(default)]
    pub options: String,
    /// Whether it states what a package requires only in the wheel.
    #[serde(default)]
    pub metadata_in_wheel: bool,
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
    /// Of those, the ones that Meson uses if features are on by default.
    pub features: BTreeSet<String>,
    /// Whether the source has code for GPUs in HIP.
    pub hip: bool,
    /// Whether the build would download libraries that it does not find.
    downloads: bool,
}

/// The options of Meson.
#[derive(Default)]
struct Options {
    /// The packages that options decide about.
    packages: Vec<(String, Vec<String>)>,
    /// Those that are off by default.
    off: BTreeSet<String>,
}

impl Options {
    fn read(&mut self, text: &str) {
        let code = without_comments(text);
        for call in all_calls(&code).iter().filter(|call| call.name == "option") {
            let off = matches!(call.keyword("value"), Some("'disabled'" | "false"));
            let name = call.positional().next().and_then(literal).filter(|_| off);
            self.off.extend(name.map(str::to_owned));
        }
    }
}

/// Returns the text of a literal of Meson.
fn literal(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.strip_suffix('\'')
}

/// Returns the files of a source that take part in its build.
fn files(root: &Path) -> impl Iterator<Item = walkdir::DirEntry> {
    let is_build = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let passed_over = TABLE.passed_over.folders.contains(&name) || name.starts_with('.');
        entry.depth() == 0 || !entry.file_type().is_dir() || !passed_over
    };
    let walk = walkdir::WalkDir::new(root).max_depth(DEPTH).sort_by_file_name().into_iter();
    walk.filter_entry(is_build).flatten().filter(|entry| !entry.file_type().is_dir())
}

/// Returns the text of a file of a source. What cannot be read says nothing.
fn text_of(root: &Path, entry: &walkdir::DirEntry) -> Option<(PathBuf, String)> {
    let path = entry.path().strip_prefix(root).ok()?;
    let bytes = read_inside(root, &path.to_string_lossy()).ok()??;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Some((folder, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns the build scripts with this name, each with its folder below the top folder. That of the
/// top folder comes first.
pub(super) fn scripts(root: &Path, name: &str) -> Vec<(PathBuf, String)> {
    let found = files(root).filter(|entry| entry.file_name() == name);
    let mut scripts: Vec<_> = found.filter_map(|entry| text_of(root, &entry)).collect();
    scripts.sort_by_key(|(folder, _)| folder.components().count());
    scripts
}

impl Native {
    /// Reads the build scripts of a source.
    pub fn of(root: &Path) -> Self {
        let mut native = Self::default();
        let mut options = Options::default();
        for entry in files(root) {
            let name = entry.file_name().to_string_lossy();
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            if let Some(compiler) = TABLE.compiler.get(extension) {
                native.compilers.insert(compiler.clone());
            }
            let known = [
                "CMakeLists.txt",
                "meson.build",
                "meson_options.txt",
                "meson.options",
                "configure.ac",
            ];
            if !known.contains(&&*name) && extension != "pyx" {
                continue;
            }
            let Some((_, text)) = text_of(root, &entry) else { continue };
            match &*name {
                "CMakeLists.txt" => native.read_cmake(&text),
                "meson.build" => native.read_meson(&text, &mut options),
                "configure.ac" => native.read_autoconf(&text),
                "meson_options.txt" | "meson.options" => options.read(&text),
                _ => native.read_cython(&text),
            }
        }
        let enabled =
            options.packages.into_iter().filter(|(option, _)| !options.off.contains(option));
        native.features = enabled.flat_map(|(_, packages)| packages).collect();
        if native.downloads {
            let modules = native.optional.iter().filter(|name| name.starts_with("pkgconfig("));
            native.required.extend(modules.cloned().collect::<Vec<_>>());
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
        for (command, arguments) in linux_calls(text) {
            let words: Vec<&str> = arguments.split_whitespace().collect();
            let required = words.contains(&"REQUIRED");
            match command.to_ascii_lowercase().as_str() {
                "fetchcontent_declare" | "externalproject_add" => self.downloads = true,
                "project" | "enable_language" => self.read_languages(&command, &words),
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

    /// Reads the languages of `project()` and `enable_language()`, which CMake needs compilers for even
    /// if no file is in them. Without languages, a project has C and C++.
    fn read_languages(&mut self, command: &str, words: &[&str]) {
        let known = [("C", "gcc"), ("CXX", "gcc-c++"), ("Fortran", "gcc-gfortran")];
        let stated: Vec<_> = known.iter().filter(|(name, _)| words.contains(name)).collect();
        let has_others = ["ASM", "CUDA", "HIP", "LANGUAGES", "NONE"];
        let by_default = command.eq_ignore_ascii_case("project")
            && stated.is_empty()
            && !words.iter().any(|word| has_others.contains(word));
        let compilers = if by_default { &known[..2] } else { &[][..] };
        let compilers = stated.into_iter().chain(compilers);
        self.compilers.extend(compilers.map(|(_, package)| (*package).to_owned()));
        self.hip |= words.contains(&"HIP");
    }

    fn read_meson(&mut self, text: &str, options: &mut Options) {
        let code = without_comments(text);
        for call in all_calls(&code).iter().filter(|call| call.name == "dependency") {
            let name = call.positional().next().and_then(literal).filter(|name| is_name(name));
            let Some(name) = name else { continue };
            let other = || vec![format!("pkgconfig({name})")];
            let packages = TABLE.meson.get(name).cloned().unwrap_or_else(other);
            let required = call.keyword("required").unwrap_or("true");
            if let Some(option) =
                required.strip_prefix("get_option(").and_then(|t| t.strip_suffix(')'))
                && let Some(option) = literal(option)
            {
                options.packages.push((option.to_owned(), packages.clone()));
            }
            self.add(packages, required == "true");
        }
    }

    fn read_autoconf(&mut self, text: &str) {
        for call in all_calls(text).iter().filter(|call| call.name == "PKG_CHECK_MODULES") {
            let modules = call.arguments.get(1).map(|text| text.trim_matches(['[', ']', ' ']));
            let names = modules.into_iter().flat_map(|text| text.split([' ', ',', '\n']));
            // A version follows an operator.
            let names = names
                .filter(|name| is_name(name) && !name.starts_with(|c: char| c.is_ascii_digit()));
            let packages = names.map(|name| format!("pkgconfig({name})")).collect();
            self.add(packages, call.arguments.len() < 4);
        }
    }

    fn add(&mut self, packages: Vec<String>, required: bool) {
        let list = if required { &mut self.required } else { &mut self.optional };
        list.extend(packages);
    }
}

/// Returns what is known about a build backend: nothing for those that do not compile.
pub(super) fn backend(name: &str) -> &'static Backend {
    static OTHER: LazyLock<Backend> = LazyLock::new(Backend::default);
    TABLE.backend.get(name).unwrap_or(&OTHER)
}

/// Returns whether a name is safe in a spec and does not contain a variable.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b))
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
    fn libraries_are_required_if_the_build_would_download_them() {
        let text = "pkg_check_modules(zmq libzmq IMPORTED_TARGET)\nfind_package(OpenMP)\n\
            find_package(Sphinx)\n";
        let required = |text: &str| list(&native(&[("CMakeLists.txt", text)]).required);
        assert_eq!(required(text), "");
        let fetches = format!("{text}FetchContent_Declare(zmq URL ${{URL}})\n");
        assert_eq!(required(&fetches), "pkgconfig(libzmq)");
    }

    #[test]
    fn reads_languages_of_cmake() {
        for (text, compilers) in [
            ("project(x)", "gcc gcc-c++"),
            ("project(x VERSION 1)", "gcc gcc-c++"),
            ("project(x LANGUAGES NONE)\nenable_language(Fortran)", "gcc-gfortran"),
            ("project(x C)", "gcc"),
            ("project(x LANGUAGES HIP)", ""),
            ("enable_language(${LANGUAGE})", ""),
        ] {
            let found = native(&[("CMakeLists.txt", text)]);
            assert_eq!(list(&found.compilers), compilers, "{text}");
        }
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
        assert_eq!(list(&found.features), "pkgconfig(libpng)");
        let options = "option('png', type: 'feature', value: 'disabled')\n";
        let found = native(&[("meson.build", text), ("meson_options.txt", options)]);
        assert!(found.features.is_empty() && found.optional.contains("pkgconfig(libpng)"));
    }

    #[test]
    fn reads_requirements_of_autoconf() {
        let text = "PKG_CHECK_MODULES([A], [zlib >= 1.2 libpng])\nAS_IF([test x = y], [\n\
            PKG_CHECK_MODULES(X, x11, [have=yes], [have=no])])\n";
        let found = native(&[("configure.ac", text)]);
        assert_eq!(list(&found.required), "pkgconfig(libpng) pkgconfig(zlib)");
        assert_eq!(list(&found.optional), "pkgconfig(x11)");
    }

    #[test]
    fn finds_cxx_in_cython() {
        assert_eq!(list(&native(&[("a.pyx", "x = 1\n")]).compilers), "gcc");
        let found = native(&[("a.pyx", "# distutils: language = c++\n")]);
        assert_eq!(list(&found.compilers), "gcc gcc-c++");
    }

    #[test]
    fn knows_build_backends() {
        assert_eq!(backend("mesonpy").programs, ["ninja-build", "patchelf"]);
        assert!(backend("hatchling.build").programs.is_empty());
        let options = backend("scikit_build_core.build").options.as_str();
        assert_eq!(options, " -Ccmake.build-type=RelWithDebInfo");
        assert!(backend("mesonpy").metadata_in_wheel && !backend("flit_core").metadata_in_wheel);
    }
}
