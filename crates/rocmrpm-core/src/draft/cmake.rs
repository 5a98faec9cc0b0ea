//! Reads what CMakeLists.txt says about a project and what it installs. Does not run CMake.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::calls::linux_calls;
use super::native::{Native, scripts};
use super::project::Project;

/// The folders of GNUInstallDirs. Source: cmake-modules(7), "GNUInstallDirs".
const FOLDERS: &[(&str, &str)] = &[
    ("${CMAKE_INSTALL_BINDIR}", "%{_bindir}"),
    ("${CMAKE_INSTALL_DATADIR}", "%{_datadir}"),
    ("${CMAKE_INSTALL_DATAROOTDIR}", "%{_datadir}"),
    ("${CMAKE_INSTALL_INCLUDEDIR}", "%{_includedir}"),
    ("${CMAKE_INSTALL_LIBDIR}", "%{_libdir}"),
    ("${CMAKE_INSTALL_LIBEXECDIR}", "%{_libexecdir}"),
    ("${CMAKE_INSTALL_MANDIR}", "%{_mandir}"),
    ("${CMAKE_INSTALL_SBINDIR}", "%{_sbindir}"),
    ("bin", "%{_bindir}"),
    ("include", "%{_includedir}"),
    ("lib", "%{_prefix}/lib"),
    ("libexec", "%{_libexecdir}"),
    ("man", "%{_prefix}/man"),
    ("sbin", "%{_sbindir}"),
    ("share", "%{_datadir}"),
];

/// A target that makes a file.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Program,
    Shared,
    Static,
    Other,
}

#[derive(Debug, Default)]
struct Targets {
    kinds: BTreeMap<String, Kind>,
    /// Other names of their files.
    names: BTreeMap<String, String>,
    /// Those with a version in their file name.
    versioned: BTreeSet<String>,
    /// Those with a property PUBLIC_HEADER.
    headers: BTreeMap<String, Vec<String>>,
}

pub(super) fn project(root: &Path, native: &Native) -> Project {
    let mut project = Project { file: "CMakeLists.txt", ..Project::default() };
    project.build_requires.insert("cmake".to_owned());
    project.install = "DESTDIR=%{buildroot} cmake --install build\n".into();
    let scripts = scripts(root, "CMakeLists.txt");
    let all: Vec<(String, String)> =
        scripts.iter().flat_map(|(_, text)| linux_calls(text)).collect();
    project.build = build(native.hip, is_older_than_cmake_4_accepts(&all));
    let name = all.iter().find(|(command, _)| command.eq_ignore_ascii_case("project"));
    let name =
        name.and_then(|(_, arguments)| arguments.split_whitespace().next()).unwrap_or_default();
    let all: Vec<(String, String)> = all
        .iter()
        .map(|(command, arguments)| {
            let arguments = ["${PROJECT_NAME}", "${CMAKE_PROJECT_NAME}"]
                .iter()
                .fold(arguments.clone(), |text, variable| text.replace(variable, name));
            (command.to_ascii_lowercase(), arguments)
        })
        .collect();
    let mut targets = Targets::default();
    for (command, arguments) in &all {
        if command == "project" {
            read_project(&mut project, arguments);
        } else {
            targets.read(command, arguments);
        }
    }
    for (folder, text) in &scripts {
        for (command, arguments) in linux_calls(text) {
            if command.eq_ignore_ascii_case("install") {
                let arguments = arguments
                    .replace("${PROJECT_NAME}", name)
                    .replace("${CMAKE_PROJECT_NAME}", name);
                let words: Vec<&str> =
                    arguments.split_whitespace().map(|word| word.trim_matches('"')).collect();
                install(&mut project, &targets, &root.join(folder), &words);
            }
        }
    }
    project.installs_more |= project.installed.is_empty();
    project
}

/// Returns whether a project declares compatibility only with versions of CMake before 3.5. CMake 4
/// refuses it unless a variable permits it. Source: cmake_minimum_required in CMake's manual,
/// "Compatibility with versions of CMake older than 3.5 has been removed".
fn is_older_than_cmake_4_accepts(calls: &[(String, String)]) -> bool {
    let call =
        calls.iter().find(|(command, _)| command.eq_ignore_ascii_case("cmake_minimum_required"));
    let version = call.and_then(|(_, arguments)| {
        let version = arguments.split_whitespace().skip_while(|word| *word != "VERSION").nth(1)?;
        let newest = version.rsplit("...").next()?;
        let mut numbers = newest.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next().unwrap_or(Ok(0)).ok()?))
    });
    version.is_some_and(|version: (u32, u32)| version < (3, 5))
}

fn build(hip: bool, is_old: bool) -> String {
    let mut build =
        "cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_SKIP_RPATH=ON \\\n    \
         -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_PREFIX=%{_prefix} -DCMAKE_INSTALL_LIBDIR=%{_lib}"
            .to_owned();
    if is_old {
        build += " \\\n    -DCMAKE_POLICY_VERSION_MINIMUM=3.5";
    }
    if hip {
        build += " \\\n    -DGPU_TARGETS='<{ gpu_targets | join(sep=\";\") }>'";
    }
    build + "\ncmake --build build --parallel \"$MAX_JOBS\"\n"
}

fn read_project(project: &mut Project, arguments: &str) {
    let value = |key: &str| {
        let rest = arguments.split_once(key)?.1.trim_start();
        let value = match rest.strip_prefix('"') {
            Some(rest) => rest.split_once('"')?.0,
            None => rest.split_whitespace().next()?,
        };
        Some(value.to_owned())
    };
    if project.summary.is_empty() {
        project.summary = value("DESCRIPTION").unwrap_or_default();
        project.home = value("HOMEPAGE_URL");
    }
}

impl Targets {
    fn read(&mut self, command: &str, arguments: &str) {
        let words: Vec<&str> =
            arguments.split_whitespace().map(|word| word.trim_matches('"')).collect();
        let Some((name, rest)) = words.split_first() else { return };
        let has = |word: &str| rest.contains(&word);
        match command {
            "add_executable" | "hip_add_executable" => {
                self.kinds.insert((*name).to_owned(), Kind::Program);
            }
            "add_library" | "hip_add_library" => {
                let kind = if ["INTERFACE", "OBJECT", "ALIAS", "MODULE", "IMPORTED"]
                    .iter()
                    .any(|word| has(word))
                {
                    Kind::Other
                } else if has("STATIC") {
                    Kind::Static
                } else {
                    Kind::Shared
                };
                self.kinds.insert((*name).to_owned(), kind);
            }
            "set_target_properties" | "set_property" => {
                let is_property = |word: &&&str| {
                    **word != "PROPERTIES" && **word != "TARGET" && **word != "PROPERTY"
                };
                let names: Vec<&str> = words
                    .iter()
                    .take_while(|word| **word != "PROPERTIES" && **word != "PROPERTY")
                    .filter(is_property)
                    .copied()
                    .collect();
                let after = |key: &str| {
                    words.iter().position(|word| *word == key).map(|at| &words[at + 1..])
                };
                for name in names {
                    if after("SOVERSION").or(after("VERSION")).is_some() {
                        self.versioned.insert(name.to_owned());
                    }
                    if let Some([file, ..]) = after("OUTPUT_NAME") {
                        self.names.insert(name.to_owned(), (*file).to_owned());
                    }
                    if let Some(headers) = after("PUBLIC_HEADER") {
                        let headers = headers
                            .iter()
                            .flat_map(|word| word.split(';'))
                            .filter(|word| word.contains(".h"));
                        self.headers.insert(name.to_owned(), headers.map(str::to_owned).collect());
                    }
                }
            }
            _ => {}
        }
    }
}

/// The words that end a list in `install(...)`.
fn is_keyword(word: &str) -> bool {
    word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// Adds what a call of `install` in a folder of the source installs.
fn install(project: &mut Project, targets: &Targets, folder: &Path, words: &[&str]) {
    let Some((what, rest)) = words.split_first() else { return };
    let named: Vec<&str> = rest.iter().take_while(|word| !is_keyword(word)).copied().collect();
    let at = |key: &str| rest.iter().position(|word| *word == key);
    let to = at("DESTINATION").and_then(|at| rest.get(at + 1)).and_then(|to| destination(to));
    let base = |path: &str| {
        path.trim_end_matches('/').rsplit('/').next().map(str::to_owned).unwrap_or_default()
    };
    match *what {
        "TARGETS" => {
            for name in named {
                let file = targets.names.get(name).map_or(name, String::as_str);
                let is_known = !file.contains('$');
                for header in targets.headers.get(name).into_iter().flatten() {
                    project.installed.add(format!("%{{_includedir}}/{}", base(header)));
                }
                match targets.kinds.get(name) {
                    Some(Kind::Program) if is_known => project.installed.add_program(file),
                    Some(Kind::Shared) if is_known => {
                        let version = targets.versioned.contains(name).then_some("*");
                        project.installed.add_library(file, version);
                    }
                    Some(Kind::Static) if is_known => {
                        project.installed.add(format!("%{{_libdir}}/lib{file}.a"))
                    }
                    Some(Kind::Other) => {}
                    _ => project.installs_more = true,
                }
            }
        }
        "FILES" | "PROGRAMS" => {
            for file in named {
                let file = base(file);
                match &to {
                    Some(to) if !file.contains('$') && to.starts_with("%{_mandir}") => {
                        project.installed.add_man_page(&file)
                    }
                    Some(to) if !file.contains('$') => {
                        project.installed.add(format!("{to}/{file}"))
                    }
                    // A list of headers in a folder of their own.
                    Some(to) if to.starts_with("%{_includedir}/") => {
                        project.installed.add(format!("{to}/"))
                    }
                    _ => project.installs_more = true,
                }
            }
        }
        "DIRECTORY" => {
            for source in named {
                let Some(to) = to.as_ref().filter(|_| !source.contains('$')) else {
                    project.installs_more = true;
                    continue;
                };
                if !source.ends_with('/') {
                    project.installed.add(format!("{to}/{}/", base(source)));
                } else if to.starts_with("%{_includedir}/") {
                    project.installed.add(format!("{to}/"));
                } else {
                    let inside = folder.join(source);
                    for name in crate::files::names_in(&inside).unwrap_or_default() {
                        let slash = if inside.join(&name).is_dir() { "/" } else { "" };
                        project.installed.add(format!("{to}/{name}{slash}"));
                    }
                }
            }
        }
        "EXPORT" => match to {
            Some(to) => project.installed.add(to + "/"),
            None => project.installs_more = true,
        },
        "CODE" | "SCRIPT" => project.installs_more = true,
        _ => {}
    }
}

/// Returns the path of a destination, with rpm's macros; `None` if it has unknown variables.
fn destination(text: &str) -> Option<String> {
    let (first, rest) = text
        .split_once('/')
        .map_or((text, String::new()), |(first, rest)| (first, format!("/{rest}")));
    let (_, folder) = FOLDERS.iter().find(|(name, _)| *name == first)?;
    let path = format!("{folder}{}", rest.trim_end_matches('/'));
    (!path.contains('$')).then(|| path.replace("%{_datadir}/man", "%{_mandir}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Project {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(dir.path().join("include/vec")).unwrap();
        fs_err::write(dir.path().join("CMakeLists.txt"), text).unwrap();
        project(dir.path(), &Native::default())
    }

    #[test]
    fn reads_installed_files() {
        let project = read(
            "project(vec VERSION 1.0 DESCRIPTION \"Adds vectors\" HOMEPAGE_URL https://h/x)\n\
             add_library(${PROJECT_NAME} x.cpp)\nadd_library(inner STATIC a.c)\nadd_executable(vec_tool main.c)\n\
             set_target_properties(vec PROPERTIES SOVERSION 1 PUBLIC_HEADER vec.h)\n\
             set_target_properties(vec_tool PROPERTIES OUTPUT_NAME vec-tool)\n\
             install(TARGETS vec vec_tool EXPORT vecTargets LIBRARY DESTINATION lib)\n\
             install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})\n\
             install(EXPORT vecTargets DESTINATION \"${CMAKE_INSTALL_LIBDIR}/cmake/vec\")\n\
             install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vec.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)\n",
        );
        let files = project.installed.files();
        assert_eq!(files.runtime.join(" "), "%{_bindir}/vec-tool %{_libdir}/libvec.so.*");
        assert_eq!(
            files.devel.join(" "),
            "%{_includedir}/vec.h %{_includedir}/vec/ %{_libdir}/cmake/vec/ %{_libdir}/libvec.so \
             %{_libdir}/pkgconfig/vec.pc"
        );
        assert_eq!(
            (project.summary.as_str(), project.home.as_deref()),
            ("Adds vectors", Some("https://h/x"))
        );
        assert!(!project.installs_more);
        assert!(read("project(x)\ninstall(TARGETS ${ALL})\n").installs_more);
    }

    #[test]
    fn permits_old_compatibility_only_if_it_is_declared() {
        for (version, is_old) in [
            ("VERSION 3.1", true),
            ("VERSION 2.8.12 FATAL_ERROR", true),
            ("VERSION 3.5", false),
            ("VERSION 3", true),
            ("VERSION 3.1...3.28", false),
            ("VERSION ${OLD}", false),
            ("", false),
        ] {
            let project = read(&format!("cmake_minimum_required({version})\nproject(x)\n"));
            let permits = project.build.contains("-DCMAKE_POLICY_VERSION_MINIMUM=3.5");
            assert_eq!(permits, is_old, "{version}");
        }
    }
}
