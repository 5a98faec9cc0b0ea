//! Reads what configure.ac and Makefile.am say about a project. Does not run them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::calls::all_calls;
use super::native::scripts;
use super::project::Project;
use crate::sources::read_inside;

/// The folders of Automake, by the prefix of a variable such as `bin_PROGRAMS`. Source: Automake
/// manual, "The Uniform Naming Scheme"; `NAME` stands for the name of the package.
const FOLDERS: &[(&str, &str)] = &[
    ("bin", "%{_bindir}"),
    ("data", "%{_datadir}"),
    ("doc", "%{_docdir}/NAME"),
    ("include", "%{_includedir}"),
    ("lib", "%{_libdir}"),
    ("libexec", "%{_libexecdir}"),
    ("pkgdata", "%{_datadir}/NAME"),
    ("pkginclude", "%{_includedir}/NAME"),
    ("pkglib", "%{_libdir}/NAME"),
    ("pkglibexec", "%{_libexecdir}/NAME"),
    ("sbin", "%{_sbindir}"),
    ("sysconf", "%{_sysconfdir}"),
];

type Variables = BTreeMap<String, String>;

pub(super) fn project(root: &Path, configure_ac: &str, has_configure: bool) -> Project {
    let code: Vec<&str> =
        configure_ac.lines().map(|line| line.split("dnl ").next().unwrap_or(line)).collect();
    let code = code.join("\n");
    let mut project = Project { file: "configure.ac", ..Project::default() };
    let calls = all_calls(&code);
    let quoted = |text: &str| text.trim_matches(['[', ']', ' ', '"']).to_owned();
    let mut name = String::new();
    if let Some(init) = calls.iter().find(|call| call.name == "AC_INIT") {
        let argument =
            |at: usize| init.arguments.get(at).map(|text| quoted(text)).unwrap_or_default();
        name = argument(3);
        if name.is_empty() {
            name = argument(0).trim_start_matches("GNU ").to_lowercase().replace(' ', "-");
        }
        project.home = Some(argument(4)).filter(|home| !home.is_empty());
    }
    let calls_any = |names: &[&str]| names.iter().any(|name| code.contains(name));
    let has_libtool = calls_any(&["LT_INIT", "AC_PROG_LIBTOOL", "AM_PROG_LIBTOOL"]);
    project.build_requires.insert("make".into());
    if !has_configure {
        project.build += "autoreconf -fiv\n";
        for tool in ["autoconf", "automake"] {
            project.build_requires.insert(tool.into());
        }
        if has_libtool {
            project.build_requires.insert("libtool".into());
        }
    }
    project.build += if has_libtool { "%configure --disable-static\n" } else { "%configure\n" };
    project.build += "%make_build\n";
    project.install += "%make_install\n";
    if has_libtool {
        project.install += "find %{buildroot} -name '*.la' -delete\n";
    }
    if code.contains("AM_GNU_GETTEXT") {
        project.translations = Some(name.clone());
    }
    let scripts = scripts(root, "Makefile.am");
    if scripts.is_empty() {
        project.installs_more = true;
    } else {
        project.check += "%make_build check\n";
    }
    let mut substituted = assignments(&code);
    for name_of_package in ["PACKAGE", "PACKAGE_NAME", "PACKAGE_TARNAME"] {
        substituted.insert(name_of_package.into(), name.clone());
    }
    for (folder, text) in &scripts {
        let mut variables = substituted.clone();
        variables.extend(assignments(&with_fragments(root, folder, text)));
        for (variable, value) in &variables {
            if !substituted.contains_key(variable) {
                installed(&mut project, &name, variable, value, &variables);
            }
        }
    }
    project
}

/// Returns the text of a Makefile.am with that of the fragments that it includes; fragments of
/// fragments are not read. Source: Automake manual, "Include".
fn with_fragments(root: &Path, folder: &Path, text: &str) -> String {
    let fragment = |line: &str| {
        let path = line.strip_prefix("include ")?.trim();
        let (start, rest) = path.split_once('/').unwrap_or(("", path));
        let base = match start {
            "$(top_srcdir)" | "${top_srcdir}" => Path::new(""),
            "$(srcdir)" | "${srcdir}" => folder,
            _ => return None,
        };
        let bytes = read_inside(root, &base.join(rest).to_string_lossy()).ok()??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let lines = text.lines().map(|line| fragment(line).unwrap_or_else(|| line.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the variables that a script assigns, with continued lines joined.
fn assignments(text: &str) -> Variables {
    static ASSIGNMENT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^\s*([A-Za-z_][A-Za-z0-9_]*)\s*(\+?)=\s*(.*)$").ok());
    let joined = text.replace("\\\n", " ");
    let mut variables = Variables::new();
    for line in joined.lines() {
        let Some(found) = ASSIGNMENT.as_ref().and_then(|one| one.captures(line)) else { continue };
        let value = found[3].trim().trim_matches(['"', '\'']);
        let all: &mut String = variables.entry(found[1].to_owned()).or_default();
        match &found[2] {
            "+" => *all = format!("{all} {value}"),
            _ => value.clone_into(all),
        }
    }
    variables
}

/// Adds what one variable of Automake installs, such as `bin_PROGRAMS`.
fn installed(project: &mut Project, package: &str, variable: &str, value: &str, all: &Variables) {
    let Some((folder, primary)) = variable.rsplit_once('_') else { return };
    let primaries = [
        "PROGRAMS",
        "LTLIBRARIES",
        "LIBRARIES",
        "HEADERS",
        "SCRIPTS",
        "DATA",
        "MANS",
        "TEXINFOS",
        "PYTHON",
    ];
    if !primaries.contains(&primary) {
        return;
    }
    let is_nobase = folder.contains("nobase_");
    let folder = ["dist", "nodist", "nobase", "notrans"].iter().fold(folder, |folder, word| {
        folder.strip_prefix(word).map_or(folder, |f| f.trim_start_matches('_'))
    });
    if matches!(folder, "noinst" | "check" | "EXTRA") {
        return;
    }
    let files = expanded(value, all);
    let known = FOLDERS
        .iter()
        .find(|(name, _)| *name == folder)
        .map(|(_, path)| path.replace("NAME", package));
    let path = known.or_else(|| place(all.get(&format!("{folder}dir"))?, package, all));
    for file in files.split_whitespace() {
        let base = file.rsplit('/').next().unwrap_or(file);
        let add = &mut project.installed;
        match (primary, &path) {
            _ if file.contains(['$', '@']) => project.installs_more = true,
            ("MANS", _) => add.add_man_page(file),
            // Of others, it is what a manual includes.
            ("TEXINFOS", _) if folder == "info" => {
                let stem = base.split('.').next().unwrap_or(base);
                add.add(format!("%{{_infodir}}/{stem}.info*"));
            }
            ("TEXINFOS", _) => {}
            ("LTLIBRARIES", Some(path)) if path == "%{_libdir}" => library(project, base, all),
            // Fedora's %configure --disable-static; modules have no versions.
            ("LTLIBRARIES", Some(path)) => {
                add.add(format!("{path}/{}.so*", base.trim_end_matches(".la")))
            }
            ("HEADERS", Some(path)) if path != "%{_includedir}" => add.add(format!("{path}/")),
            ("HEADERS", Some(path)) if is_nobase && file.contains('/') => {
                add.add(format!("{path}/{}/", file.split('/').next().unwrap_or(file)));
            }
            (_, Some(path)) => add.add(format!("{path}/{base}")),
            (_, None) => project.installs_more = true,
        }
    }
}

/// Adds a library of Libtool, whose SONAME follows from its flags. Source: Libtool manual, "Updating
/// library version information" and "Link mode".
fn library(project: &mut Project, file: &str, all: &Variables) {
    let Some(name) = file.strip_prefix("lib").and_then(|name| name.strip_suffix(".la")) else {
        return;
    };
    let canonical: String =
        file.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    let flags = [format!("{canonical}_LDFLAGS"), "AM_LDFLAGS".into()];
    let flags = flags
        .iter()
        .find_map(|key| all.get(key))
        .map(|text| expanded(text, all))
        .unwrap_or_default();
    let words: Vec<&str> = flags.split_whitespace().collect();
    let option =
        |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    let version = if words.contains(&"-avoid-version") {
        None
    } else if let Some(info) = option("-version-info") {
        let mut parts = info.split(':');
        let (current, age) = (number(parts.next()), parts.nth(1));
        let age = age.map_or(Some(0), |age| age.parse().ok());
        let first = current.zip(age).and_then(|(current, age)| current.checked_sub(age));
        Some(first.map_or("*".to_owned(), |first| first.to_string()))
    } else if let Some(info) = option("-version-number") {
        Some(number(info.split(':').next()).map_or("*".to_owned(), |first| first.to_string()))
    } else {
        Some("0".to_owned())
    };
    match option("-release") {
        Some(_) => {
            project.installed.add(format!("%{{_libdir}}/lib{name}-*.so*"));
            project.installed.add(format!("%{{_libdir}}/lib{name}.so"));
        }
        None => project.installed.add_library(name, version.as_deref()),
    }
}

/// Returns the path that a value such as `$(includedir)/x` stands for.
fn place(value: &str, package: &str, all: &Variables) -> Option<String> {
    let value = expanded(value, all);
    let (start, rest) = value.split_once('/').unwrap_or((&value, ""));
    let variable = start.strip_prefix("$(").or_else(|| start.strip_prefix("${"))?;
    let name = variable.trim_end_matches([')', '}']).strip_suffix("dir")?;
    let base = match FOLDERS.iter().find(|(known, _)| *known == name) {
        Some((_, path)) => path.replace("NAME", package),
        None if name == "man" => "%{_mandir}".to_owned(),
        None => return None,
    };
    Some(if rest.is_empty() { base } else { format!("{base}/{rest}") })
}

/// Returns a value with the variables that are known, written `$(x)`, `${x}`, or `@x@`.
fn expanded(text: &str, all: &Variables) -> String {
    static VARIABLE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\$\((\w+)\)|\$\{(\w+)\}|@(\w+)@").ok());
    let mut text = text.to_owned();
    // Variables of variables; more levels are unusual, and a circle must end.
    for _ in 0..4 {
        let Some(variable) = VARIABLE.as_ref() else { break };
        let next = variable.replace_all(&text, |found: &regex::Captures<'_>| {
            let name = (1..4).find_map(|at| found.get(at)).map_or("", |name| name.as_str());
            let value = all.get(name).filter(|value| value.len() < 4096);
            value.cloned().unwrap_or_else(|| found[0].to_owned())
        });
        if next == text || next.len() > 1 << 16 {
            break;
        }
        text = next.into_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_installed_files() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(
            dir.path().join("Makefile.am"),
            "lib_LTLIBRARIES = libvec.la libold.la\nlibvec_la_LDFLAGS = -version-info $(CURRENT):2:@AGE@\n\
             include_HEADERS = vec.h\nvecincludedir = $(includedir)/vec-1\nvecinclude_HEADERS = a.h \\\n  b.h\n\
             bin_PROGRAMS = vec\nnoinst_PROGRAMS = try\ndist_man_MANS = doc/vec.1\n\
             include $(top_srcdir)/doc/local.mk\ninclude ../../etc/passwd\n\
             pkgconfigdir = $(libdir)/pkgconfig\npkgconfig_DATA = @PACKAGE@.pc\nsysconf_DATA = vec.conf\n",
        )
        .unwrap();
        fs_err::create_dir(dir.path().join("doc")).unwrap();
        fs_err::write(
            dir.path().join("doc/local.mk"),
            "info_TEXINFOS = doc/vec.texi\ndoc_vec_TEXINFOS = doc/fdl.texi\n",
        )
        .unwrap();
        let configure = "AC_INIT([Vec], [1.0], [bugs@x], [vec], [https://h/vec])\nLT_INIT\ndnl LT_OLD\n\
            CURRENT=5\nAGE=2\nAC_SUBST([CURRENT])\n";
        let project = project(dir.path(), configure, false);
        let files = project.installed.files();
        assert_eq!(
            files.runtime.join(" "),
            "%{_bindir}/vec %{_infodir}/vec.info* %{_libdir}/libold.so.0{,.*} %{_libdir}/libvec.so.3{,.*} \
             %{_mandir}/man1/vec.1* %config(noreplace) %{_sysconfdir}/vec.conf"
        );
        assert_eq!(
            files.devel.join(" "),
            "%{_includedir}/vec-1/ %{_includedir}/vec.h %{_libdir}/libold.so %{_libdir}/libvec.so \
             %{_libdir}/pkgconfig/vec.pc"
        );
        assert!(project.build.starts_with("autoreconf -fiv\n%configure --disable-static\n"));
        assert_eq!(
            (project.home.as_deref(), project.installs_more),
            (Some("https://h/vec"), false)
        );
    }
}
