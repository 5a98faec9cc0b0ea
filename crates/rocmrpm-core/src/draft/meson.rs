//! Reads what meson.build says that it installs. Values that are not literal are unknown, except
//! for variables, `get_option` of folders, and joined paths.

use std::collections::BTreeMap;
use std::path::Path;

use super::calls::{Call, all_calls, split, without_comments};
use super::native::{Native, scripts};
use super::project::Project;

/// How deeply variables may refer to each other.
const DEPTH: usize = 8;

pub(super) fn project(root: &Path, native: &Native) -> Project {
    let mut read = Reader {
        project: Project {
            file: "meson.build",
            build: "%meson\n%meson_build\n".into(),
            install: "%meson_install\n".into(),
            check: "%meson_test\n".into(),
            ..Project::default()
        },
        variables: BTreeMap::new(),
        name: String::new(),
        version: String::new(),
    };
    read.project.build_requires.insert("meson".into());
    // Fedora's %meson enables all features that are `auto`.
    read.project.build_requires.extend(native.features.iter().cloned());
    let scripts = scripts(root, "meson.build");
    let codes: Vec<String> = scripts.iter().map(|(_, text)| without_comments(text)).collect();
    for code in &codes {
        for line in code.lines() {
            if let Some((name, value)) = line.split_once('=')
                && !value.starts_with('=')
            {
                read.variables.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
    }
    let calls: Vec<Vec<Call<'_>>> = codes.iter().map(|code| all_calls(code)).collect();
    let mut libraries = Vec::new();
    calls.iter().flatten().for_each(|call| read.call(call, &mut libraries));
    for call in calls.iter().flatten().filter(|call| call.name == "generate") {
        read.pkgconfig(call, &libraries);
    }
    read.project
}

struct Reader {
    project: Project,
    variables: BTreeMap<String, String>,
    name: String,
    version: String,
}

impl Reader {
    fn call(&mut self, call: &Call<'_>, libraries: &mut Vec<String>) {
        let first = call.positional().next().unwrap_or_default();
        let is_installed = call.keyword("install") == Some("true");
        match call.name {
            "project" => {
                self.name = self.value(first).unwrap_or_default();
                let version = call.keyword("version").and_then(|text| self.value(text));
                self.version = version.unwrap_or_default();
                let license =
                    call.keyword("license").map(|text| text.trim_matches(['[', ']', ' ']));
                self.project.license = license.and_then(|text| self.value(text));
            }
            "executable" if is_installed => {
                match (self.value(first), call.keyword("install_dir")) {
                    (Some(name), None) => self.project.installed.add_program(&name),
                    (name, folder) => self.add_in(folder, name.as_deref()),
                }
            }
            "library" | "shared_library" | "both_libraries" | "static_library"
            | "shared_module"
                if is_installed =>
            {
                let name = self.value(first);
                match (&name, call.keyword("install_dir")) {
                    (Some(name), None) if call.name != "shared_module" => {
                        self.library(call, name);
                        libraries.push(name.clone());
                    }
                    (name, folder) => {
                        let file = name.as_ref().map(|name| format!("lib{name}.so"));
                        self.add_in(folder, file.as_deref());
                    }
                }
            }
            "install_headers" => self.headers(call),
            "install_man" => {
                for page in self.list(call) {
                    self.project.installed.add_man_page(&page);
                }
            }
            "install_data" => {
                let own = format!("get_option('datadir') / '{}'", self.name);
                let folder = call.keyword("install_dir").unwrap_or(&own);
                for file in self.list(call) {
                    self.add_in(Some(folder), Some(base(&file)));
                }
            }
            "install_subdir" => {
                let name = self.value(first);
                self.add_in(call.keyword("install_dir"), name.as_deref().map(base));
            }
            "configure_file" if call.keyword("install_dir").is_some() => {
                let output = call.keyword("output").and_then(|text| self.value(text));
                self.add_in(call.keyword("install_dir"), output.as_deref());
            }
            "gettext" => self.project.translations = self.value(first),
            "install_symlink" | "install_emptydir" | "custom_target"
                if is_installed || call.name != "custom_target" =>
            {
                self.project.installs_more = true;
            }
            "generate_gir" | "compile_resources" | "compile_schemas" | "merge_file" => {
                self.project.installs_more = true;
            }
            _ => {}
        }
    }

    fn library(&mut self, call: &Call<'_>, name: &str) {
        let version = |key: &str| {
            let value = self.value(call.keyword(key)?).unwrap_or("*".into());
            Some(value.replace(VERSION, &self.version))
        };
        // Without a `soversion`, it is the first number of `version`.
        let first = |version: String| match version.split('.').next() {
            Some(number) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => {
                number.to_owned()
            }
            _ => "*".to_owned(),
        };
        let soversion = version("soversion").or_else(|| version("version").map(first));
        if call.name == "static_library" {
            self.project.installed.add(format!("%{{_libdir}}/lib{name}.a"));
        } else {
            self.project.installed.add_library(name, soversion.as_deref());
        }
        // Fedora's %meson builds only shared libraries unless both are asked for.
        if call.name == "both_libraries" {
            self.project.installed.add(format!("%{{_libdir}}/lib{name}.a"));
        }
    }

    fn headers(&mut self, call: &Call<'_>) {
        let folder = call.keyword("subdir").or_else(|| call.keyword("install_dir"));
        if let Some(text) = folder {
            match self.value(text) {
                Some(folder) if folder.starts_with('%') => self.project.installed.add(folder + "/"),
                Some(folder) => {
                    self.project.installed.add(format!("%{{_includedir}}/{}/", top(&folder)))
                }
                None => self.project.installs_more = true,
            }
            return;
        }
        let headers = self.list(call);
        for header in headers {
            self.project.installed.add(format!("%{{_includedir}}/{}", base(&header)));
        }
    }

    /// Adds the file that `pkgconfig.generate` writes; without a name, that of the library.
    fn pkgconfig(&mut self, call: &Call<'_>, libraries: &[String]) {
        let named = ["filebase", "name"].into_iter().find_map(|key| call.keyword(key));
        let first = call.positional().next();
        let name = match (named, first, libraries) {
            (Some(text), ..) => self.value(text),
            (None, Some(variable), libraries) => {
                let of = self.variables.get(variable).map(String::as_str).unwrap_or_default();
                let own = |name: &&String| of.contains(&format!("'{name}'"));
                libraries
                    .iter()
                    .find(own)
                    .or(libraries.first().filter(|_| libraries.len() == 1))
                    .cloned()
            }
            (None, None, _) => return,
        };
        let is_data = call.keyword("dataonly") == Some("true");
        let folder = if is_data { "%{_datadir}" } else { "%{_libdir}" };
        match name {
            Some(name) => self.project.installed.add(format!("{folder}/pkgconfig/{name}.pc")),
            None => self.project.installs_more = true,
        }
    }

    /// Adds a file in a folder, or notes that it is unknown.
    fn add_in(&mut self, folder: Option<&str>, file: Option<&str>) {
        let folder = folder.and_then(|text| self.value(text));
        match (folder, file) {
            (Some(folder), Some(file)) if folder.starts_with("%{_mandir}") => {
                self.project.installed.add_man_page(file);
            }
            (Some(folder), Some(file)) if folder.starts_with('%') => {
                self.project.installed.add(format!("{folder}/{file}"));
            }
            _ => self.project.installs_more = true,
        }
    }

    /// Returns the files of a call; notes that there are more if one is not a literal.
    fn list(&mut self, call: &Call<'_>) -> Vec<String> {
        let mut files = Vec::new();
        for argument in call.positional() {
            let variable = self.variables.get(argument).cloned();
            let text = variable.as_deref().unwrap_or(argument);
            let text =
                text.strip_prefix("files(").and_then(|text| text.strip_suffix(')')).unwrap_or(text);
            for part in split(text.trim_matches(['[', ']', ' ', '\n']), ',') {
                match self.value(part) {
                    Some(file) => files.push(file),
                    None if part.is_empty() => {}
                    None => self.project.installs_more = true,
                }
            }
        }
        files
    }

    /// Returns the text that an expression stands for.
    fn value(&self, expression: &str) -> Option<String> {
        self.within(expression, DEPTH)
    }

    fn within(&self, expression: &str, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        let expression = expression.trim();
        for (operator, between) in [('/', "/"), ('+', "")] {
            let parts = split(expression, operator);
            if parts.len() > 1 {
                let parts: Option<Vec<String>> =
                    parts.into_iter().map(|part| self.within(part, depth)).collect();
                return parts.map(|parts| parts.join(between));
            }
        }
        if let Some(inside) =
            expression.strip_prefix("join_paths(").and_then(|t| t.strip_suffix(')'))
        {
            let parts: Option<Vec<String>> =
                split(inside, ',').into_iter().map(|part| self.within(part, depth)).collect();
            return parts.map(|parts| parts.join("/"));
        }
        if let Some(text) = expression.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            return (!text.contains(['\'', '@'])).then(|| text.to_owned());
        }
        match expression {
            "meson.project_name()" => Some(self.name.clone()),
            "meson.project_version()" => Some(VERSION.into()),
            _ => match expression.strip_prefix("get_option('").and_then(|t| t.strip_suffix("')")) {
                Some(option) => FOLDERS.contains(&option).then(|| format!("%{{_{option}}}")),
                None => self.within(self.variables.get(expression)?, depth),
            },
        }
    }
}

/// What stands for the version of the project.
const VERSION: &str = "%{version}";

/// The options of Meson for folders, which are also names of rpm's macros.
const FOLDERS: &[&str] = &[
    "bindir",
    "sbindir",
    "libdir",
    "libexecdir",
    "includedir",
    "datadir",
    "mandir",
    "sysconfdir",
    "infodir",
    "prefix",
];

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn top(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_installed_files() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir(dir.path().join("src")).unwrap();
        let top = "project('vec', 'c', version: '1.2.3', license: 'MIT')\nsubdir('src')\n\
            install_man('vec.1')\ndata = get_option('datadir') / meson.project_name()\n\
            install_data('a.txt', install_dir: data)\n# executable('old', 'x.c', install: true)\n";
        let src = "vec = library('vec', 'vec.c', version: meson.project_version(), soversion: '1', install: true)\n\
            plain = library('plain', 'p.c', version: meson.project_version(), install : true)\nprivate = static_library('p', 'p.c')\n\
            headers = files('vec.h', 'more.h')\ninstall_headers(headers, subdir: 'vec')\ninstall_headers('plain.h')\n\
            pkg = import('pkgconfig')\npkg.generate(vec, description: 'x')\n\
            executable('vec-tool', 'm.c', install: true)\nexecutable('test', 't.c')\n";
        fs_err::write(dir.path().join("meson.build"), top).unwrap();
        fs_err::write(dir.path().join("src/meson.build"), src).unwrap();
        let project = project(dir.path(), &Native::default());
        let files = project.installed.files();
        assert_eq!(
            files.runtime.join(" "),
            "%{_bindir}/vec-tool %{_datadir}/vec/a.txt %{_libdir}/libplain.so.1{,.*} \
             %{_libdir}/libvec.so.1{,.*} %{_mandir}/man1/vec.1*"
        );
        assert_eq!(
            files.devel.join(" "),
            "%{_includedir}/plain.h %{_includedir}/vec/ %{_libdir}/libplain.so %{_libdir}/libvec.so \
             %{_libdir}/pkgconfig/vec.pc"
        );
        assert_eq!((project.license.as_deref(), project.installs_more), (Some("MIT"), false));
    }
}
