//! Chroots, read from `mock-configs/*.toml`. `build` makes mock configs of them.

use std::collections::BTreeMap;

use super::document::{At, File, Table};
use super::flavor;
use super::manifest::{plain, text};
use crate::error::{Error, Kind, Problem};
use crate::text::visible;

/// The name of the chroot that stands for this machine.
pub const HOST: &str = "host";

/// What components are built against.
#[derive(Debug, Clone)]
pub struct Chroot {
    /// The definition's file name without `.toml`; [`HOST`] is this machine.
    pub name: String,
    /// The release, such as `43`; empty for `host`.
    pub release: String,
    /// The architecture, such as `x86_64`; empty for `host`.
    pub arch: String,
    /// The version of Python, such as `3.14`; empty for `host`.
    pub python: String,
    /// The dist tag, such as `.fc43`; empty for `host`, where rpm defines it.
    pub dist: String,
    /// The ROCm provider: a name in `mock-configs/rocm/`.
    pub rocm_provider: At<String>,
    /// The config of mock-core-configs to include; empty for `host`.
    pub base_config: String,
    /// The image that the container file starts from; empty if not set.
    pub container_image: String,
    /// The last day on which the release is supported, if known.
    pub end_of_life: Option<jiff::civil::Date>,
    /// RPM macros for the build root.
    pub macros: BTreeMap<String, String>,
    /// Package repositories in addition to those of the release.
    pub repositories: Vec<Repository>,
    /// Additional packages in every build root, in dnf's syntax.
    pub additional_packages: Vec<At<String>>,
    /// The package tables that list what the release has: files of `mock-configs/packages/`.
    pub packages: Vec<At<String>>,
    /// Libraries that it has in addition to the usual ones: SONAME and package.
    pub libraries: BTreeMap<String, String>,
    /// The newest symbol version of each kind that its libraries define, such as
    /// `GLIBC` and `2.42`.
    pub symbol_versions: BTreeMap<String, String>,
    /// The file it was read from.
    pub file: File,
}

/// A package repository of a chroot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The id in dnf's configuration.
    pub id: String,
    /// The base URL; dnf replaces `$basearch` and `$releasever`.
    pub url: String,
    /// The URL or file of the key; empty if packages are not signed.
    pub gpg_key: String,
    /// dnf's priority; lower wins, 99 is its default.
    pub priority: i64,
}

impl Chroot {
    /// Reads a chroot's definition.
    pub fn read(name: &str, file: File, problems: &mut Vec<Problem>) -> Self {
        let host = name == HOST;
        file.clone().parse(problems, |root| {
            let mut field = |key: &str, what: &str| {
                text(if host { root.string(key) } else { root.required_string(key, what) })
            };
            let release = field("release", "the number of the release, such as `43`");
            let arch = field("arch", "the architecture, such as `x86_64`");
            let python = field("python", "the version of Python in this release, such as `3.14`");
            let dist = field("dist", "the dist tag, such as `.fc43`");
            let base_config = field("base-config", "a config file of mock-core-configs");
            let rocm_provider =
                root.required_string("rocm-provider", "a name in mock-configs/rocm/");
            Self {
                name: name.to_owned(),
                release,
                arch,
                python,
                dist,
                base_config,
                rocm_provider: rocm_provider.unwrap_or(At { value: String::new(), span: 0..0 }),
                container_image: {
                    let image = root.string("container-image");
                    image.and_then(|at| flavor::image(root, at)).unwrap_or_default()
                },
                end_of_life: root.day("end-of-life"),
                macros: macros(root, host),
                additional_packages: additional_packages(root),
                packages: root.strings("packages"),
                repositories: root.tables("repositories", |table| Repository {
                    id: plain(table, "id", "the repository's id"),
                    url: for_mock(table.required_string("url", "the repository's base URL"), table),
                    gpg_key: {
                        let key = table.string("gpg-key");
                        key.iter().for_each(|at| check_key(table, at));
                        for_mock(key, table)
                    },
                    priority: table.integer("priority").unwrap_or(99),
                }),
                libraries: root
                    .string_map("libraries")
                    .into_iter()
                    .map(|(name, at)| (name, at.value))
                    .collect(),
                symbol_versions: symbol_versions(root),
                file,
            }
        })
    }

    /// Rejects repository keys that are files of this machine or of this workspace: users who
    /// install the packages do not have them. Fedora itself installs the keys in
    /// /etc/pki/rpm-gpg.
    pub fn check_keys(&self) -> Result<(), Error> {
        for repository in &self.repositories {
            let key = &repository.gpg_key;
            let path = key.strip_prefix("file://").unwrap_or(key);
            if !path.is_empty() && !path.contains("://") && !path.starts_with("/etc/pki/rpm-gpg/") {
                let message = format!(
                    "the key of the repository `{}` is {}, a file of this machine that users do not have",
                    repository.id,
                    visible(path)
                );
                let help = format!("set its `gpg-key` to a public URL in {}", self.file.name);
                return Err(Error::new(Kind::Config, message).with_help(help));
            }
        }
        Ok(())
    }

    /// Returns the architecture; for `host`, that of this machine.
    pub fn architecture(&self) -> &str {
        if self.is_host() { std::env::consts::ARCH } else { &self.arch }
    }

    /// Returns whether this chroot is the machine itself.
    pub fn is_host(&self) -> bool {
        self.name == HOST
    }
}

/// Reads RPM macros. Macro names have three characters or more (rpm-macros(7)); rpm would
/// silently split or cut others.
fn macros(root: &mut Table<'_>, host: bool) -> BTreeMap<String, String> {
    let mut macros = BTreeMap::new();
    for (name, At { value, span }) in root.string_map("macros") {
        check_macro(root, &name, &span);
        if !host {
            check_for_mock(root, &value, &span);
        }
        if value.chars().any(char::is_control) {
            root.problem(
                span,
                format!("the macro `{name}` has a control character"),
                "expected one line without control characters",
                None,
            );
        }
        macros.insert(name, value);
    }
    macros
}

/// Rejects a key whose path contains `..`: it could lead out of the workspace, or out of
/// Fedora's folder of keys.
pub(super) fn check_key(table: &mut Table<'_>, At { value, span }: &At<String>) {
    if value.split('/').any(|part| part == "..") {
        let message = format!("the path of the key `{}` has `..`", visible(value));
        table.problem(span.clone(), message, "expected a URL, or a file of the workspace", None);
    }
}

/// The start of a Jinja expression. mock evaluates all values of its config repeatedly, so these
/// cannot be escaped. Source: mock,
/// `templated_dictionary`; Jinja, "Template Designer Documentation".
const JINJA: &[&str] = &["{{", "{%", "{#"];

fn check_for_mock(root: &mut Table<'_>, value: &str, span: &std::ops::Range<usize>) {
    if let Some(found) = JINJA.iter().find(|begin| value.contains(**begin)) {
        let message = format!("the value contains `{found}`, which mock would evaluate");
        root.problem(span.clone(), message, "expected a value without Jinja syntax", None);
    }
}

fn for_mock(value: Option<At<String>>, table: &mut Table<'_>) -> String {
    if let Some(At { value, span }) = &value {
        check_for_mock(table, value, span);
    }
    text(value)
}

/// Reads the packages of every build root: names, files, capabilities or `@group`, one word each.
fn additional_packages(root: &mut Table<'_>) -> Vec<At<String>> {
    let packages = root.strings("additional-packages");
    for At { value, span } in &packages {
        let odd = |c: char| c.is_whitespace() || c.is_control() || "{}*?[]".contains(c);
        if value.is_empty() || value.starts_with('-') || value.contains(odd) {
            let message = format!("`{}` cannot be a package of the build root", visible(value));
            root.problem(
                span.clone(),
                message,
                "expected a package such as `gcc-c++` or `pkgconfig(libdrm)`",
                None,
            );
        }
    }
    packages
}

pub(super) fn check_macro(root: &mut Table<'_>, name: &str, span: &std::ops::Range<usize>) {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.len() < 3 || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(inner)
    {
        let message = format!("`{}` cannot be a macro's name", visible(name));
        root.problem(span.clone(), message, "expected three or more letters, digits and `_`", None);
    }
}

fn symbol_versions(root: &mut Table<'_>) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for (kind, At { value, span }) in root.string_map("symbol-versions") {
        if value.split('.').any(|part| part.parse::<u64>().is_err()) {
            let message = format!("`{}` is not a symbol version", visible(&value));
            root.problem(span, message, "expected a number such as `2.42`", None);
        }
        versions.insert(kind, value);
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::super::provider::Provider;
    use super::*;

    #[test]
    fn rejects_values_that_mock_would_evaluate() {
        let read = |text: &str| {
            let base = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
                        base-config = \"f.cfg\"\nrocm-provider = \"p\"\n";
            let mut problems = Vec::new();
            let file = File { name: "x.toml".into(), text: format!("{base}{text}") };
            let chroot = Chroot::read("x", file, &mut problems);
            (
                chroot.additional_packages.len(),
                problems.into_iter().map(|p| p.message).collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            read("additional-packages = [\"gcc-c++\", \"pkgconfig(x)\", \"@c\"]\n"),
            (3, Vec::new())
        );
        assert_eq!(read("[macros]\nlong = \"%{?x:%{y}} {a}\"\n").1, [""; 0]);
        for bad in [
            "[macros]\nevil = \"{{ cycler.__init__ }}\"\n",
            "[macros]\nevil = \"%{%x}\"\n",
            "[[repositories]]\nid = \"r\"\nurl = \"https://x/{{ 1 }}\"\n",
            "[[repositories]]\nid = \"r\"\nurl = \"https://x/\"\ngpg-key = \"{# x\"\n",
            "additional-packages = [\"--setopt=x=1\"]\n",
            "additional-packages = [\"a b\"]\n",
            "additional-packages = [\"\"]\n",
        ] {
            assert_eq!(read(bad).1.len(), 1, "{bad}: {:?}", read(bad).1);
        }
    }

    fn problems(chroot: &str, provider: &str) -> Vec<String> {
        let file = |text: &str| File { name: "x.toml".into(), text: text.into() };
        let mut problems = Vec::new();
        Chroot::read(HOST, file(&format!("rocm-provider = \"p\"\n{chroot}")), &mut problems);
        Provider::read(
            "p",
            file(&format!("prefix = \"/usr\"\nversion = \"7.2\"\n{provider}")),
            &mut problems,
        );
        problems.iter().map(|problem| problem.message.clone()).collect()
    }

    #[test]
    fn rejects_keys_and_images_that_would_break_a_container_file() {
        let repository = |key: &str| {
            format!("[[repositories]]\nid = \"r\"\nurl = \"https://x/\"\ngpg-key = \"{key}\"\n")
        };
        let image = |name: &str| format!("container-image = \"{name}\"\n");
        for good in
            ["keys/a.asc", "https://x/key", "/etc/pki/rpm-gpg/RPM-GPG-KEY-x", "file:///a..b"]
        {
            assert_eq!(problems(&repository(good), ""), [""; 0]);
        }
        assert_eq!(problems(&image("registry.fedoraproject.org/fedora:43"), ""), [""; 0]);
        for bad in
            ["../../../etc/evil", "keys/../../x", "/etc/pki/rpm-gpg/../evil", "file:///etc/../x"]
        {
            assert_eq!(
                problems(&repository(bad), ""),
                [format!("the path of the key `{bad}` has `..`")]
            );
        }
        let evil = "fedora:43 AS x --EVIL $(id)";
        assert_eq!(problems(&image(evil), ""), [format!("`{evil}` is not the name of an image")]);
        let apt = |key: &str| {
            let table = "[ubuntu]\nurl = \"https://x/\"\nsuite = \"a b\"\npackages = [\"p\"]\n";
            problems("", &format!("{table}gpg-key = \"{key}\"\n"))
        };
        assert_eq!(apt("https://x/key.asc"), [""; 0]);
        assert_eq!(apt("../key.asc"), ["the path of the key `../key.asc` has `..`"]);
        assert_eq!(apt("a /etc/passwd"), ["`gpg-key` has a space"]);
    }

    #[test]
    fn rejects_repository_keys_that_users_do_not_have() {
        let check = |key: &str| {
            let text = format!(
                "rocm-provider = \"p\"\n[[repositories]]\nid = \"r\"\nurl = \"https://x/\"\ngpg-key = \"{key}\"\n"
            );
            let chroot = Chroot::read(HOST, File { name: "x.toml".into(), text }, &mut Vec::new());
            chroot.check_keys().is_ok()
        };
        for good in ["", "https://x/key", "file:///etc/pki/rpm-gpg/RPM-GPG-KEY-fedora-43-$basearch"]
        {
            assert!(check(good), "{good}");
        }
        for bad in ["keys/x.asc", "/srv/key", "file:///srv/key", "file://etc/key"] {
            assert!(!check(bad), "{bad}");
        }
    }

    #[test]
    fn rejects_bad_symbol_versions_and_search_path_tags() {
        let good = "[symbol-versions]\nGLIBC = \"2.42\"\n[libraries]\n\"liba.so\" = \"a\"\n";
        assert_eq!(problems(good, "search-path-tag = \"runpath\"\n"), [""; 0]);
        let bad = problems("[symbol-versions]\nGLIBC = \"two\"\n", "search-path-tag = \"path\"\n");
        assert_eq!(bad, ["`two` is not a symbol version", "`path` is not a tag for search paths"]);
    }
}
