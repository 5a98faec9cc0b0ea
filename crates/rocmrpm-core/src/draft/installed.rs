//! Divides the files that a build installs between a package and its `-devel` package, and writes
//! their `%files`. Paths begin with a macro, such as `%{_bindir}`. Does not know build systems.

use std::collections::BTreeSet;

/// The files that a build installs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Installed(BTreeSet<String>);

/// The lines of `%files`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    /// Those of the package itself; none if it is only for building other software.
    pub runtime: Vec<String>,
    /// Those of `-devel`; none if other software does not build with the package.
    pub devel: Vec<String>,
    /// Whether `-devel` contains static libraries, or code only in headers.
    pub is_static: bool,
    /// Whether there are manual pages in Info format, whose index belongs to the system.
    pub info: bool,
}

impl Installed {
    /// Adds a path, such as `%{_libdir}/libx.so.1`. Ignores one that is unsafe in a spec.
    pub fn add(&mut self, path: impl Into<String>) {
        let path = path.into();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._+-*?{},%~".contains(&b);
        if path.bytes().all(plain) && path.starts_with("%{_") && !path.contains("/../") {
            self.0.insert(path);
        }
    }

    /// Adds a program.
    pub fn add_program(&mut self, name: &str) {
        self.add(format!("%{{_bindir}}/{name}"));
    }

    /// Adds a shared library. `version` is that of its SONAME; `None` if it has none. `*` stands for
    /// an unknown one.
    pub fn add_library(&mut self, name: &str, version: Option<&str>) {
        self.add(format!("%{{_libdir}}/lib{name}.so"));
        match version {
            Some("*") => self.add(format!("%{{_libdir}}/lib{name}.so.*")),
            Some(version) => self.add(format!("%{{_libdir}}/lib{name}.so.{version}{{,.*}}")),
            None => {}
        }
    }

    /// Adds a manual page, given its file name.
    pub fn add_man_page(&mut self, file: &str) {
        let page = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".gz");
        if let Some((_, section)) = page.rsplit_once('.')
            && section.starts_with(|c: char| c.is_ascii_digit())
        {
            self.add(format!("%{{_mandir}}/man{}/{page}*", &section[..1]));
        }
    }

    /// Returns whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lines of `%files`.
    pub fn files(&self) -> Files {
        let mut files = Files::default();
        let is_header = |path: &str| path.starts_with("%{_includedir}/");
        let versioned =
            |path: &str| self.0.iter().any(|other| other.starts_with(&format!("{path}.")));
        for path in &self.0 {
            let build_files = ["pkgconfig/", "cmake/", "aclocal/", "vala/", "gir-1.0/"];
            let (folder, rest) = path.split_once('/').unwrap_or((path, ""));
            let in_library = matches!(folder, "%{_libdir}" | "%{_datadir}");
            let devel = is_header(path)
                || in_library && build_files.iter().any(|name| rest.starts_with(name))
                || folder == "%{_libdir}"
                    && (rest.ends_with(".a") || rest.ends_with(".so") && versioned(path))
                || ["man3/", "man2/"]
                    .iter()
                    .any(|section| folder == "%{_mandir}" && rest.starts_with(section));
            files.is_static |= rest.ends_with(".a");
            files.info |= folder == "%{_infodir}";
            match (devel, folder) {
                (true, _) => files.devel.push(path.clone()),
                (false, "%{_sysconfdir}") => {
                    files.runtime.push(format!("%config(noreplace) {path}"))
                }
                (false, _) => files.runtime.push(path.clone()),
            }
        }
        files.is_static |= files.runtime.is_empty() && !files.devel.is_empty();
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> (String, String, bool) {
        let mut installed = Installed::default();
        paths.iter().for_each(|path| installed.add(*path));
        let Files { runtime, devel, is_static, .. } = installed.files();
        (runtime.join(" "), devel.join(" "), is_static)
    }

    #[test]
    fn divides_files_as_fedora_does() {
        let mut installed = Installed::default();
        installed.add_library("x", Some("1"));
        installed.add_library("plugin", None);
        installed.add_program("x");
        installed.add_man_page("man/x.1");
        installed.add_man_page("x_new.3.gz");
        installed.add_man_page("README");
        for path in [
            "%{_includedir}/x/",
            "%{_libdir}/pkgconfig/x.pc",
            "%{_sysconfdir}/x.conf",
            "%{_bindir}/../$(id)",
            "%{_bindir}/a b",
            "/usr/bin/y",
        ] {
            installed.add(path);
        }
        assert_eq!(
            installed.files(),
            Files {
                runtime: [
                    "%{_bindir}/x",
                    "%{_libdir}/libplugin.so",
                    "%{_libdir}/libx.so.1{,.*}",
                    "%{_mandir}/man1/x.1*",
                    "%config(noreplace) %{_sysconfdir}/x.conf"
                ]
                .map(str::to_owned)
                .into(),
                devel: [
                    "%{_includedir}/x/",
                    "%{_libdir}/libx.so",
                    "%{_libdir}/pkgconfig/x.pc",
                    "%{_mandir}/man3/x_new.3*"
                ]
                .map(str::to_owned)
                .into(),
                is_static: false,
                info: false,
            }
        );
    }

    #[test]
    fn static_libraries_and_headers_are_for_building_only() {
        let devel = "%{_includedir}/x.h %{_libdir}/libx.a";
        assert_eq!(
            files(&["%{_libdir}/libx.a", "%{_includedir}/x.h"]),
            (String::new(), devel.into(), true)
        );
        assert_eq!(
            files(&["%{_includedir}/x.h"]),
            (String::new(), "%{_includedir}/x.h".into(), true)
        );
    }
}
