//! Drafts the package of a library or program from what its build system says: CMake, Meson,
//! Autotools, Cargo, or a Makefile.

use std::collections::BTreeSet;

use super::installed::Files;
use super::native::Native;
use super::project::Project;
use super::{
    Draft, autotools, cargo, cmake, comment, component_toml, head, license, license_lines,
    license_texts, makefile, meson, summary, tag, with_linked,
};
use crate::closure::generate::facts::{license_files, names_in};
use crate::closure::generate::member::installed_licenses;
use crate::closure::generate::text::{literal, url, wrapped};
use crate::error::{Error, Kind};
use crate::lint_rules::PLACEHOLDER;
use crate::sources::{Fetcher, Tree};
use crate::text::visible;
use crate::workspace::pin::Pin;

fn read(pin: &Pin, tree: &Tree, native: &Native) -> Result<Project, Error> {
    let has = |name: &str| tree.dir.join(name).is_file();
    let text = |name: &str| Ok::<_, Error>(tree.text(name)?.unwrap_or_default());
    let project = if has("CMakeLists.txt") {
        cmake::project(&tree.dir, native)
    } else if has("meson.build") {
        meson::project(&tree.dir, native)
    } else if let Some(script) = ["configure.ac", "configure.in"].into_iter().find(|f| has(f)) {
        autotools::project(&tree.dir, &text(script)?, has("configure"))
    } else if has("Cargo.toml") {
        cargo::project(pin, &tree.dir)?
    } else if let Some(file) = makefile::NAMES.iter().find(|f| has(f)) {
        makefile::project(pin, &text(file)?, has("configure"))?
    } else {
        let message = format!("found no build system in the source of `{}`", pin.component);
        return Err(Error::new(Kind::Usage, message).with_help(
            "write the template yourself: `add` knows pyproject.toml, setup.py, CMakeLists.txt, \
             meson.build, configure.ac, Cargo.toml, and Makefile, in the top folder",
        ));
    };
    Ok(project)
}

pub(super) fn draft(
    pin: &Pin,
    tree: &Tree,
    arch: &str,
    fetcher: &Fetcher<'_>,
) -> Result<Draft, Error> {
    let native = Native::of(&tree.dir);
    let mut project = read(pin, tree, &native)?;
    let mut warnings = Vec::new();
    if project.summary.is_empty() {
        match summary::find(&tree.dir, pin.component.as_str()) {
            Some(found) => {
                warnings.push(format!("check `Summary:`: it is from {}", visible(&found.file)));
                project.summary = found.text;
            }
            None => warnings.push(format!("write `Summary:`: {} has no description", project.file)),
        }
    }
    let names = names_in(&tree.dir, std::fs::FileType::is_file)?;
    let licenses = license_files(&tree.dir, &names)?;
    let mut license =
        license::decide(project.license.as_deref(), &license_texts(&tree.dir, &licenses));
    if let Some(rust) = &project.rust {
        with_linked(&mut license, rust, pin, arch, fetcher);
    }
    let license = license_lines(&license, &mut warnings);
    let name = match native.hip {
        // The distribution may have the same library, built for other GPUs.
        true => format!("{}-rocm", pin.component),
        false => pin.component.to_string(),
    };
    if project.installs_more {
        warnings.push(format!(
            "review `%files`: {} does not state all installed files in a form that rocmrpm reads, so the \
             build lists them",
            project.file
        ));
    }
    let mut installed = installed_licenses(&licenses, project.rust.as_ref());
    if let Some(readme) = names.iter().find(|name| name.starts_with("README") && is_plain(name)) {
        installed += &format!("%doc {readme}\n");
    }
    let cargo_lock = project.rust.as_ref().map(|rust| rust.lock_file.clone());
    Ok(Draft {
        file_name: format!("{name}.spec.tera"),
        template: template(&name, &license, &project, &native, &installed),
        component: component_toml(true),
        cargo_lock,
        warnings,
        ..Draft::default()
    })
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn template(
    name: &str,
    license: &str,
    project: &Project,
    native: &Native,
    documents: &str,
) -> String {
    let missing = format!("{PLACEHOLDER}: one line, no period at its end");
    let files = project.installed.files();
    let home = url(project.home.as_deref());
    let header = head(name, &project.summary, license, home.as_deref(), &missing);
    let (first, rest) = header.split_once('\n').unwrap_or((&header, ""));
    let mut out = format!("{first}\n{}", project.globals);
    let has_code = !files.runtime.is_empty() || project.installs_more || files.devel.is_empty();
    if !has_code {
        out += "# There are no programs or shared libraries.\n%global debug_package %{nil}\n";
    }
    let has_devel = !files.devel.is_empty();
    if project.installs_more {
        out += "# Lists of files that the build writes may be empty.\n\
                %global _empty_manifest_terminate_build 0\n";
    }
    out += rest;
    if is_noarch(project, native, &files) {
        out += &tag("BuildArch", "noarch");
    }
    out += &build_requires(project, native);
    let described = match literal(&project.summary) {
        text if text.is_empty() => missing,
        text => format!("{}.", text.trim_end_matches('.')),
    };
    out += &format!("\n%description\n{}\n", wrapped(&described));
    if has_devel {
        out += "\n%package devel\nSummary:        Files for building against %{name}\n";
        if has_code {
            out += "Requires:       %{name}%{?_isa} = %{version}-%{release}\n";
        }
        if files.is_static {
            out += "Provides:       %{name}-static = %{version}-%{release}\n";
        }
        out += "\n%description devel\nFiles for building against %{name}.\n";
    }
    let Project { prep, build, install, check, .. } = project;
    out += &format!(
        "\n%prep\n%autosetup -p1 -n <{{ source_dir }}>{prep}\n<@ include \"_shared/edits.tera\" @>\n\
         %build\n<@ include \"_shared/build-env.tera\" @>\n{build}\n%install\n{install}"
    );
    if files.info || project.installs_more {
        out += "rm -f %{buildroot}%{_infodir}/dir\n";
    }
    // The lists have translations, too.
    let translations = project.translations.as_ref().filter(|_| !project.installs_more);
    let translations = translations.map(|name| {
        out += &format!("%find_lang {name}\n");
        format!(" -f {name}.lang")
    });
    if project.installs_more {
        out += &listed(project.file, has_devel);
    }
    if !check.is_empty() {
        out += &format!("\n%check\n{check}");
    }
    out += "\n";
    let lines = |paths: &[String]| paths.iter().map(|path| format!("{path}\n")).collect::<String>();
    if project.installs_more {
        out += &format!("%files -f runtime.files\n{documents}");
        if has_devel {
            out += "\n%files devel -f devel.files\n";
        }
        return out + "\n%changelog\n<{ changelog }>\n";
    }
    if has_code {
        let translations = translations.unwrap_or_default();
        out += &format!("%files{translations}\n{documents}{}", lines(&files.runtime));
    }
    if has_devel {
        let documents =
            if has_code { "\n%files devel\n" } else { &format!("%files devel\n{documents}") };
        out += &format!("{documents}{}", lines(&files.devel));
    }
    out + "\n%changelog\n<{ changelog }>\n"
}

/// Returns the end of `%install`, which writes the lists for `%files`: of what is installed if the build
/// system does not state that. Each line has a path and its type, which the last commands remove. The
/// folders of headers, of CMake's files, and of the package's own data are listed as a whole; rpm
/// compresses manual pages later.
fn listed(file: &str, has_devel: bool) -> String {
    let mut out = format!(
        "# {file} does not state all installed files in a form that rocmrpm reads.\n\
         find %{{buildroot}} ! -type d -printf '/%%P %%y\\n' | sed -E \\\n    \
         -e 's#^((%{{_includedir}}|%{{_libdir}}/cmake|%{{_datadir}}/cmake)/[^/]+/).*#\\1 d#' \\\n    \
         -e 's#^(%{{_datadir}}/%{{name}}/).*#\\1 d#' -e 's#^((%{{_mandir}}|%{{_infodir}})/.*) #\\1* #' \\\n    \
         -e 's#^%{{_datadir}}/locale/([^/_@]+)#%%lang(\\1) &#' | sort -u > installed.files\n"
    );
    match has_devel {
        true => {
            out += "devel='^(%{_includedir}|(%{_libdir}|%{_datadir})/(pkgconfig|cmake|aclocal)|%{_mandir}/man[23])/'\n\
                    devel=\"$devel|^%{_libdir}/[^/]+[.](a .|so l)$\"\n\
                    { grep -E \"$devel\" installed.files || :; } | sed 's/ .$//' > devel.files\n\
                    { grep -vE \"$devel\" installed.files || :; } | sed 's/ .$//' > runtime.files\n";
        }
        false => out += "sed 's/ .$//' installed.files > runtime.files\n",
    }
    out
}

/// Returns whether the packages have no compiled files and none in a folder of the architecture.
fn is_noarch(project: &Project, native: &Native, files: &Files) -> bool {
    let of_arch = |path: &String| path.contains("%{_libdir}");
    let all = || files.runtime.iter().chain(&files.devel);
    native.compilers.is_empty()
        && project.file != "Cargo.toml"
        && !project.installs_more
        && all().next().is_some()
        && !all().any(of_arch)
}

fn build_requires(project: &Project, native: &Native) -> String {
    let mut all: BTreeSet<&str> = project.build_requires.iter().map(String::as_str).collect();
    all.extend(native.compilers.iter().chain(&native.required).map(String::as_str));
    if project.translations.is_some() {
        all.insert("gettext");
    }
    let mut out: String = all.iter().map(|name| tag("BuildRequires", name)).collect();
    if native.hip {
        out += &tag("BuildRequires", "<{ rocm.hipcc.runtime }>");
        out += &tag("BuildRequires", "<{ rocm.hip.devel }>");
    }
    let more: Vec<&str> =
        native.optional.iter().map(String::as_str).filter(|name| !all.contains(name)).collect();
    if !more.is_empty() {
        out += &comment(&format!("The build also uses, if installed: {}", more.join(", ")));
    }
    out
}
