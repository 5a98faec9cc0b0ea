//! Reads what a plain Makefile installs, from its variables and the recipes of `install`. Does not run
//! it: `$(shell ...)` and the like are unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::project::Project;
use crate::error::{Error, Kind};
use crate::workspace::pin::Pin;

/// The file names that make searches for, in its order.
pub(super) const NAMES: &[&str] = &["GNUmakefile", "makefile", "Makefile"];

/// The variables for folders, in upper or lower case, that the spec passes to make. Source: GNU
/// Coding Standards, "Variables for Installation Directories".
const FOLDERS: &[&str] = &[
    "prefix",
    "exec_prefix",
    "bindir",
    "sbindir",
    "libdir",
    "libexecdir",
    "includedir",
    "datadir",
    "datarootdir",
    "mandir",
    "sysconfdir",
];

/// The variables for compiler flags, with rpm's macro.
const FLAGS: &[(&str, &str)] = &[
    ("CFLAGS", "%{build_cflags}"),
    ("CXXFLAGS", "%{build_cxxflags}"),
    ("LDFLAGS", "%{build_ldflags}"),
];

/// The maximum length of an expanded value, in bytes.
const LONGEST: usize = 16 << 10;

pub(super) fn project(pin: &Pin, text: &str, has_configure: bool) -> Result<Project, Error> {
    let mut makefile = Makefile::read(text);
    let mut project = Project { file: "Makefile", ..Project::default() };
    project.build_requires.insert("make".into());
    let required = pkg_config_modules(text);
    project.build_requires.extend(required.iter().map(|name| format!("pkgconfig({name})")));
    let folders: Vec<(String, String)> = makefile.folders(text);
    let has_destdir = text.contains("DESTDIR");
    let has_prefix = folders.iter().any(|(name, _)| name.eq_ignore_ascii_case("prefix"));
    if !makefile.rules.contains_key("install") || !has_destdir && !has_prefix && !has_configure {
        let message =
            format!("the Makefile of `{}` has no rule that installs below a folder", pin.component);
        return Err(Error::new(Kind::Usage, message).with_help(
            "write the template yourself, with `install` commands; rocmrpm reads the rule `install` and the \
             variables DESTDIR and PREFIX",
        ));
    }
    let flags = makefile.flags();
    // A script that Autoconf did not make: there are no options that all such scripts have.
    if has_configure {
        project.build = "./configure --prefix=%{_prefix} --libdir=%{_libdir}\n".into();
    }
    let arguments = |root: &str| -> String {
        folders.iter().map(|(name, value)| format!(" {name}={root}{value}")).collect()
    };
    let own = arguments("");
    project.build += &format!("%make_build{own}{flags}\n");
    project.install = match has_destdir {
        true => format!("%make_install{own}\n"),
        false => format!("%{{__make}} install{}\n", arguments("%{buildroot}")),
    };
    if ["check", "test"].iter().any(|name| makefile.rules.contains_key(*name)) {
        let target = if makefile.rules.contains_key("check") { "check" } else { "test" };
        project.check = format!("%make_build {target}{own}{flags}\n");
    }
    makefile.variables.extend(folders);
    if has_destdir {
        makefile.variables.insert("DESTDIR".into(), "%{buildroot}".into());
    }
    makefile.install(&mut project, &pin.version);
    Ok(project)
}

/// Returns the modules in calls of pkg-config.
fn pkg_config_modules(text: &str) -> BTreeSet<String> {
    static CALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?:pkg-config|\$[({]PKG_?CONFIG[)}])((?:\s+[A-Za-z0-9._+-]+)+)").ok()
    });
    let plain =
        |word: &&str| !word.starts_with('-') && !word.starts_with(|c: char| c.is_ascii_digit());
    CALL.iter()
        .flat_map(|call| call.captures_iter(text))
        .filter(|found| found[1].contains("--cflags") || found[1].contains("--libs"))
        .flat_map(|found| {
            found[1].split_whitespace().filter(plain).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// A Makefile without its conditions: both branches count.
#[derive(Debug, Default)]
struct Makefile {
    variables: BTreeMap<String, String>,
    /// The variables that the environment does not replace, but arguments do.
    fixed: BTreeSet<String>,
    /// The prerequisites and the recipe of each target.
    rules: BTreeMap<String, (Vec<String>, Vec<String>)>,
}

impl Makefile {
    fn read(text: &str) -> Self {
        static ASSIGNMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(
                r"^ *(?:export +|override +)*([A-Za-z_][A-Za-z0-9_.-]*)\s*(\?|::?|\+)?=\s*(.*)$",
            )
            .ok()
        });
        let mut makefile = Self::default();
        let mut targets: Vec<String> = Vec::new();
        for line in text.replace("\\\n", " ").lines() {
            if let Some(command) = line.strip_prefix('\t') {
                for target in &targets {
                    makefile.rules.entry(target.clone()).or_default().1.push(command.to_owned());
                }
                continue;
            }
            let line = line.split('#').next().unwrap_or(line);
            if let Some(found) = ASSIGNMENT.as_ref().and_then(|one| one.captures(line)) {
                let (name, value) = (found[1].to_owned(), found[3].trim());
                match found.get(2).map_or("", |operator| operator.as_str()) {
                    "+" => {
                        let all = makefile.variables.entry(name).or_default();
                        *all = format!("{all} {value}");
                    }
                    "?" => drop(makefile.variables.entry(name).or_insert_with(|| value.to_owned())),
                    _ => {
                        makefile.fixed.insert(name.clone());
                        makefile.variables.insert(name, value.to_owned());
                    }
                }
            } else if let Some((names, prerequisites)) = line.split_once(':') {
                targets = names.split_whitespace().map(str::to_owned).collect();
                let (prerequisites, command) =
                    prerequisites.split_once(';').unwrap_or((prerequisites, ""));
                for target in &targets {
                    let rule = makefile.rules.entry(target.clone()).or_default();
                    rule.0.extend(
                        prerequisites.trim_start_matches(':').split_whitespace().map(str::to_owned),
                    );
                    rule.1.extend((!command.is_empty()).then(|| command.to_owned()));
                }
            }
        }
        makefile
    }

    /// Returns the variables for folders that the Makefile has or uses, with rpm's folders.
    fn folders(&self, text: &str) -> Vec<(String, String)> {
        let spellings = FOLDERS
            .iter()
            .flat_map(|name| [(name.to_uppercase(), *name), ((*name).to_owned(), *name)]);
        let is_used = |name: &str| {
            text.contains(&format!("$({name})")) || text.contains(&format!("${{{name}}}"))
        };
        let all = spellings.filter(|(name, _)| self.variables.contains_key(name) || is_used(name));
        let value = |folder: &str| match folder {
            "datarootdir" => "%{_datadir}".to_owned(),
            folder => format!("%{{_{folder}}}"),
        };
        all.map(|(name, folder)| (name, value(folder))).collect()
    }

    /// Returns the arguments that add rpm's compiler flags where the Makefile sets its own.
    fn flags(&self) -> String {
        let mut arguments = String::new();
        for (name, value) in FLAGS {
            let Some(own) = self.variables.get(*name).filter(|_| self.fixed.contains(*name)) else {
                continue;
            };
            // rpm's flags decide about optimization and debug information. What only make or a shell
            // can expand stays for make.
            let kept = own
                .split_whitespace()
                .filter(|flag| !flag.starts_with("-O") && !flag.starts_with("-g"));
            let kept: String = kept.map(|flag| format!(" {flag}")).collect();
            if kept.bytes().all(|b| b.is_ascii_alphanumeric() || b" -_=+./,$(){}".contains(&b)) {
                arguments += &format!(" {name}='{value}{kept}'");
            }
        }
        arguments
    }

    /// Adds what the recipes of `install` and the targets `install-*` before it do.
    fn install(&self, project: &mut Project, version: &str) {
        let mut wanted = vec!["install".to_owned()];
        let mut seen = BTreeSet::new();
        let mut folders = BTreeSet::new();
        let mut commands = Vec::new();
        while let Some(target) = wanted.pop() {
            let Some((prerequisites, recipe)) =
                self.rules.get(&target).filter(|_| seen.insert(target.clone()))
            else {
                continue;
            };
            wanted.extend(prerequisites.iter().filter(|name| name.starts_with("install")).cloned());
            for line in recipe {
                let line = line.trim_start_matches(['@', '-', '+', ' ', '\t']);
                commands.extend(line.split([';', '&']).map(str::to_owned));
            }
        }
        for command in commands {
            let concerns =
                command.contains("DESTDIR") || command.to_lowercase().contains("install");
            match self.expanded(&command, 0).and_then(|text| placed(&text, &mut folders)) {
                Some(paths) => {
                    for path in paths {
                        add(project, &path, version);
                    }
                }
                None => project.installs_more |= concerns,
            }
        }
    }

    /// Returns a text with its variables expanded; `None` if one is unknown.
    fn expanded(&self, text: &str, depth: usize) -> Option<String> {
        if depth > 8 {
            return None;
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out += before;
            let (name, end) = match after.chars().next()? {
                '(' => after[1..].split_once(')')?,
                '{' => after[1..].split_once('}')?,
                _ => return None,
            };
            rest = end;
            match (self.variables.get(name), name) {
                (Some(value), _) => out += &self.expanded(value, depth + 1)?,
                (None, "INSTALL" | "INSTALL_PROGRAM" | "INSTALL_DATA") => out += "install",
                (None, "LN_S") => out += "ln -s",
                (None, "MKDIR_P") => out += "mkdir -p",
                (None, "DESTDIR") => {}
                _ => return None,
            }
            if out.len() > LONGEST {
                return None;
            }
        }
        Some(out + rest)
    }
}

/// Returns the paths that a command creates; `None` if that is not known. Adds the folders that it
/// creates.
fn placed(command: &str, folders: &mut BTreeSet<String>) -> Option<Vec<String>> {
    let words: Vec<&str> =
        command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
    let (program, arguments) = words.split_first()?;
    let program = program.rsplit('/').next().unwrap_or(program);
    let (mut operands, mut options, mut into) = (Vec::new(), String::new(), None);
    let mut arguments = arguments.iter();
    while let Some(&word) = arguments.next() {
        match word.strip_prefix('-') {
            Some("t") => into = arguments.next().copied(),
            Some("-directory") => options.push('d'),
            Some(long) if long.starts_with('-') => {}
            // Options with a value: a mode, an owner, a group.
            Some(short) => {
                options += short;
                if program == "install" && short.ends_with(['m', 'o', 'g']) {
                    arguments.next();
                }
            }
            None => operands.push(word),
        }
    }
    let folder = |path: &str| path.trim_end_matches('/').to_owned();
    let base = |path: &str| folder(path).rsplit('/').next().map(str::to_owned).unwrap_or_default();
    match program {
        "mkdir" => folders.extend(operands.iter().map(|path| folder(path))),
        "install" if options.contains('d') => {
            folders.extend(operands.iter().map(|path| folder(path)))
        }
        "install" | "cp" | "ln" => {
            let (files, to) = match into {
                Some(to) => (&operands[..], to),
                None => operands.split_last().map(|(to, files)| (files, *to))?,
            };
            let known = folder(to);
            let is_folder = into.is_some()
                || to.ends_with('/')
                || files.len() > 1
                || folders.contains(&known)
                || is_rpm_folder(&known);
            let slash = if program == "cp" && options.contains(['r', 'R', 'a']) { "/" } else { "" };
            return Some(match is_folder {
                true => files.iter().map(|file| format!("{known}/{}{slash}", base(file))).collect(),
                false => vec![known],
            });
        }
        "rm" | "echo" | "chmod" | "strip" | "true" | "printf" => {}
        _ => return None,
    }
    Some(Vec::new())
}

/// The usual folders below the prefix, with rpm's macros, longest first.
const PLACES: &[(&str, &str)] = &[
    ("%{_prefix}/share/man", "%{_mandir}"),
    ("%{_prefix}/include", "%{_includedir}"),
    ("%{_prefix}/libexec", "%{_libexecdir}"),
    ("%{_prefix}/share", "%{_datadir}"),
    ("%{_prefix}/lib64", "%{_libdir}"),
    ("%{_prefix}/sbin", "%{_sbindir}"),
    ("%{_prefix}/bin", "%{_bindir}"),
    ("%{_exec_prefix}/bin", "%{_bindir}"),
    ("/etc", "%{_sysconfdir}"),
];

/// Returns an installed path with rpm's macros.
fn with_macros(path: &str) -> String {
    let path = path.strip_prefix("%{buildroot}").unwrap_or(path).replace("//", "/");
    for (plain, named) in PLACES {
        if let Some(rest) =
            path.strip_prefix(plain).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        {
            return format!("{named}{rest}");
        }
    }
    path
}

fn is_rpm_folder(path: &str) -> bool {
    let path = with_macros(path);
    path.starts_with("%{_")
        && (path.ends_with('}') || path.starts_with("%{_mandir}/man") && !path.contains('.'))
}

fn add(project: &mut Project, path: &str, version: &str) {
    let mut path = with_macros(path);
    if version.len() > 2 {
        path = path.replace(version, "%{version}");
    }
    match path.starts_with("%{_mandir}/") {
        true => project.installed.add_man_page(&path.replace("%{version}", version)),
        false => project.installed.add(path.clone()),
    }
    project.installs_more |= !path.starts_with("%{_");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ComponentName;
    use crate::workspace::pin::Source;

    fn read(text: &str) -> Result<Project, String> {
        let source = Source::Folder { path: "src/x".into(), paths: Vec::new() };
        let pin = Pin::new(ComponentName::parse("x").unwrap(), "1.2.3", source);
        project(&pin, text, false).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_installed_files() {
        let text = "PREFIX ?= /usr/local\nLIBDIR = $(PREFIX)/lib\nCFLAGS = -O2 -Wall -Iinclude -g\nVERSION = 1.2.3\n\
            MODULES != pkg-config --cflags --libs zlib libpng\nall: x libx.so\n\n\
            install: all install-man\n\tinstall -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)\n\
            \tinstall -m 755 x $(DESTDIR)$(PREFIX)/bin\n\tinstall -m755 libx.so.$(VERSION) $(DESTDIR)$(LIBDIR)/\n\
            \tln -sf libx.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libx.so.1 && ln -sf libx.so.1 $(DESTDIR)$(LIBDIR)/libx.so\n\
            \t@install -Dm644 x.h y.h -t $(DESTDIR)$(PREFIX)/include/x\n\
            install-man:\n\tinstall -D -m 644 doc/x.1 $(DESTDIR)$(PREFIX)/share/man/man1/x.1\n";
        let project = read(text).unwrap();
        let files = project.installed.files();
        assert_eq!(
            files.runtime.join(" "),
            "%{_bindir}/x %{_libdir}/libx.so.%{version} %{_libdir}/libx.so.1 %{_mandir}/man1/x.1*"
        );
        assert_eq!(
            files.devel.join(" "),
            "%{_includedir}/x/x.h %{_includedir}/x/y.h %{_libdir}/libx.so"
        );
        assert_eq!(
            project.build,
            "%make_build PREFIX=%{_prefix} LIBDIR=%{_libdir} CFLAGS='%{build_cflags} -Wall -Iinclude'\n"
        );
        assert_eq!(project.install, "%make_install PREFIX=%{_prefix} LIBDIR=%{_libdir}\n");
        assert!(
            project.build_requires.contains("pkgconfig(libpng)"),
            "{:?}",
            project.build_requires
        );
        assert!(!project.installs_more);
    }

    #[test]
    fn never_installs_into_the_system() {
        let without = "PREFIX = /usr\ninstall:\n\tcp x $(PREFIX)/bin\n";
        assert_eq!(
            read(without).unwrap().install,
            "%{__make} install PREFIX=%{buildroot}%{_prefix}\n"
        );
        for text in ["install:\n\tcp x /usr/bin\n", "all:\n\tcc x.c\n"] {
            assert!(read(text).unwrap_err().contains("no rule that installs"), "{text}");
        }
        let loops = "install:\n\tfor f in a b; do install $$f $(DESTDIR)/usr/bin; done\n";
        assert!(read(loops).unwrap().installs_more);
    }
}
