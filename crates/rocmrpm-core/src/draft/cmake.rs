//! Drafts the package of a library or program that is built with CMake.

use super::native::{Native, calls};
use super::{Draft, comment, component_toml, head, license, license_lines, license_texts, tag};
use crate::closure::generate::facts::{license_files, names_in};
use crate::closure::generate::text::{literal, url, wrapped};
use crate::error::Error;
use crate::lint_rules::PLACEHOLDER;
use crate::sources::Tree;
use crate::workspace::pin::Pin;

/// What CMakeLists.txt says about the project.
#[derive(Debug, Default, PartialEq, Eq)]
struct Project {
    summary: String,
    home: Option<String>,
    /// Whether it makes shared libraries.
    library: bool,
    /// Whether a shared library has a version in its file name.
    versioned: bool,
    /// Whether it installs headers.
    headers: bool,
    /// Whether it makes programs.
    program: bool,
}

impl Project {
    fn read(text: &str) -> Self {
        let mut project = Self::default();
        for (command, arguments) in calls(text) {
            let words: Vec<&str> = arguments.split_whitespace().collect();
            let quoted = |key: &str| {
                let rest = arguments.split_once(key)?.1.trim_start();
                let value = match rest.strip_prefix('"') {
                    Some(rest) => rest.split_once('"')?.0,
                    None => rest.split_whitespace().next()?,
                };
                Some(value.to_owned())
            };
            match command.to_ascii_lowercase().as_str() {
                "project" => {
                    project.summary = quoted("DESCRIPTION").unwrap_or_default();
                    project.home = quoted("HOMEPAGE_URL");
                }
                "add_library" => {
                    let not_shared =
                        ["STATIC", "INTERFACE", "OBJECT", "ALIAS", "MODULE", "IMPORTED"];
                    project.library |= !words.iter().any(|word| not_shared.contains(word));
                }
                "add_executable" | "hip_add_executable" => project.program = true,
                "set_target_properties" | "set_property" => {
                    project.versioned |= words.contains(&"SOVERSION") || words.contains(&"VERSION");
                    project.headers |= words.contains(&"PUBLIC_HEADER");
                }
                "install" => {
                    let header = |word: &&str| word.contains("include") || word.ends_with(".h");
                    project.headers |= words.iter().any(header) || words.contains(&"PUBLIC_HEADER");
                }
                _ => {}
            }
        }
        project
    }
}

pub(super) fn draft(pin: &Pin, tree: &Tree) -> Result<Draft, Error> {
    let names = names_in(&tree.dir, std::fs::FileType::is_file)?;
    let files = license_files(&tree.dir, &names)?;
    let project = Project::read(&tree.text("CMakeLists.txt")?.unwrap_or_default());
    let native = Native::of(&tree.dir);
    let mut warnings = Vec::new();
    let license =
        license_lines(&license::decide(None, &license_texts(&tree.dir, &files)), &mut warnings);
    let name = match native.hip {
        // The distribution may have the same library, built for other GPUs.
        true => format!("{}-rocm", pin.component),
        false => pin.component.to_string(),
    };
    let missing = format!("{PLACEHOLDER}: one line, no period at its end");
    if project.summary.is_empty() {
        warnings.push("write `Summary:`: CMakeLists.txt has no description".to_owned());
    }
    let home = url(project.home.as_deref());
    let mut out = head(&name, &project.summary, &license, home.as_deref(), &missing);
    out += &build_requires(&native);
    let described = match literal(&project.summary) {
        text if text.is_empty() => missing,
        text => format!("{}.", text.trim_end_matches('.')),
    };
    out += &format!("\n%description\n{}\n", wrapped(&described));
    let devel = project.library && project.headers;
    if devel {
        out += "\n%package devel\nSummary:        Headers of %{name}\n\
                Requires:       %{name}%{?_isa} = %{version}-%{release}\n\
                \n%description devel\nHeaders for building against %{name}.\n";
    }
    out += "\n%prep\n%autosetup -p1 -n <{ source_dir }>\n<@ include \"_shared/edits.tera\" @>\n\
            %build\n<@ include \"_shared/build-env.tera\" @>\n\
            cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_SKIP_RPATH=ON \\\n    \
            -DCMAKE_INSTALL_PREFIX=%{_prefix} -DCMAKE_INSTALL_LIBDIR=%{_lib}";
    if native.hip {
        out += " \\\n    -DGPU_TARGETS='<{ gpu_targets | join(sep=\";\") }>'";
    }
    out += "\ncmake --build build --parallel \"$MAX_JOBS\"\n\
            \n%install\nDESTDIR=%{buildroot} cmake --install build\n\
            \n# Add the files that rpmbuild reports as unpackaged.\n%files\n";
    files.iter().for_each(|file| out += &format!("%license {file}\n"));
    out += match (project.library || !project.program, devel && project.versioned, devel) {
        (true, true, _) => "%{_libdir}/*.so.*\n",
        (true, false, true) => "%{_libdir}/*.so\n",
        (true, ..) => "%{_libdir}/*\n",
        (false, ..) => "",
    };
    if project.program {
        out += "%{_bindir}/*\n";
    }
    if devel {
        out += "\n%files devel\n%{_includedir}/*\n";
        out += if project.versioned { "%{_libdir}/*.so\n" } else { "" };
    }
    out += "\n%changelog\n<{ changelog }>\n";
    let file_name = format!("{name}.spec.tera");
    Ok(Draft {
        file_name,
        template: out,
        component: component_toml(true),
        warnings,
        ..Draft::default()
    })
}

fn build_requires(native: &Native) -> String {
    let mut all: std::collections::BTreeSet<&str> = ["cmake", "gcc-c++"].into();
    all.extend(native.compilers.iter().chain(&native.required).map(String::as_str));
    let mut out: String = all.into_iter().map(|name| tag("BuildRequires", name)).collect();
    if native.hip {
        out += &tag("BuildRequires", "<{ rocm.hipcc.runtime }>");
        out += &tag("BuildRequires", "<{ rocm.hip.devel }>");
    }
    if !native.optional.is_empty() {
        let more: Vec<&str> = native.optional.iter().map(String::as_str).collect();
        out += &comment(&format!("The build also uses, if installed: {}", more.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_project_installs() {
        let text = "project(x VERSION 1.0 DESCRIPTION \"Adds vectors\" HOMEPAGE_URL https://h/x)\n\
            add_library(x SHARED x.cpp)\nset_target_properties(x PROPERTIES SOVERSION 1 PUBLIC_HEADER x.h)\n\
            install(TARGETS x)\n";
        let expected = Project {
            summary: "Adds vectors".into(),
            home: Some("https://h/x".into()),
            library: true,
            versioned: true,
            headers: true,
            program: false,
        };
        assert_eq!(Project::read(text), expected);
        let text = "project(x)\nadd_library(inner STATIC a.c)\nadd_executable(x main.c)\n";
        assert_eq!(Project::read(text), Project { program: true, ..Project::default() });
    }
}
