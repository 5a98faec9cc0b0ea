//! Generates the component of a member that becomes a separate RPM: component.toml, spec template
//! and pin. The facts about the member come from `facts`.

use std::collections::BTreeSet;

use super::facts::{Built, Facts, SdistFacts, WheelFacts};
use super::imports::Import;
use super::linked::Linked;
use super::requires::{Corrections, corrections};
use super::text::{component_header, literal, quoted, spec_header, summary, wrapped};
use super::{Context, GeneratedComponent, text};
use crate::closure::Member;
use crate::closure::package_name::{package, stem};
use crate::sources::CargoProject;
use crate::text::visible;
use crate::wheel::Contents;

/// Returns the component of a member.
pub(super) fn part(context: &Context<'_>, member: &Member, facts: &Facts) -> GeneratedComponent {
    let component = context.component.name.as_str();
    let import = Import::of(context.closure, &member.name);
    let imported = match &import {
        Import::Needs { components, .. } => components.clone(),
        Import::Unavailable(_) => BTreeSet::new(),
    };
    let none = Linked::default();
    let linked = context.linked.get(&member.name).unwrap_or(&none);
    let toml = format!(
        "{}#\n{}\ngenerated = {}\n{}{}",
        component_header(component),
        comment(&format!("Built from its {}: {}.", facts.built_from.name(), facts.reason)),
        quoted(component),
        linked.required_components(&[].into(), &imported),
        // Whether upstream's libraries contain device code is unknown here.
        "\n[inspect]\ndevice-code = false\n",
    );
    let spec = spec(context, member, facts, &import);
    let files = vec![
        ("component.toml".to_owned(), toml),
        (format!("python-{}.spec.tera", stem(&member.name)), spec),
    ];
    GeneratedComponent { name: member.name.clone(), files, pin: pin(member, facts) }
}

fn comment(text: &str) -> String {
    wrapped(&visible(text)).lines().map(|line| format!("# {line}\n")).collect()
}

fn pin(member: &Member, facts: &Facts) -> String {
    let version =
        member.node.as_ref().map(|node| node.locked.version.to_string()).unwrap_or_default();
    let table = quoted_key(&member.name);
    let source = source(&facts.built_from);
    let mut text = format!("[{table}]\nversion = {}\n{source}", quoted(&version));
    if let Built::Sdist(SdistFacts { rust: Some(project), .. }) = &facts.built_from {
        let lock = quoted(&project.lock_file);
        text += &format!("\n[{table}.sources.crates]\ncargo-vendor = {lock}\n");
    }
    text
}

/// Quotes a key for a TOML file, if necessary.
pub(super) fn quoted_key(name: &str) -> String {
    toml_edit::Key::new(name).to_string()
}

/// Returns the lines of a pin that describe a member's source.
pub(super) fn source(built: &Built) -> String {
    match built {
        Built::Wheel(WheelFacts { file, .. }) => {
            format!("wheel = {}\nsha256 = \"{}\"\n", quoted(&file.name), file.sha256)
        }
        Built::Sdist(SdistFacts { file, project, top_folder, .. }) => {
            let top = top_folder.iter().map(|name| format!("top-folder = {}\n", quoted(name)));
            let top: String = top.collect();
            format!("sdist = {}\nsha256 = \"{}\"\n{top}", quoted(project), file.sha256)
        }
    }
}

impl Built {
    fn name(&self) -> &'static str {
        match self {
            Self::Wheel(_) => "wheel",
            Self::Sdist(_) => "source distribution",
        }
    }

    /// Returns the contents of upstream's wheel, if there is one.
    fn contents(&self) -> Option<&Contents> {
        match self {
            Self::Wheel(wheel) => Some(&wheel.contents),
            Self::Sdist(sdist) => sdist.contents.as_ref(),
        }
    }
}

fn spec(context: &Context<'_>, member: &Member, facts: &Facts, import: &Import) -> String {
    let name = &member.name;
    let home = member.node.as_ref().and_then(|node| text::url(node.about.home.as_deref()));
    let stated = facts.summary.as_str();
    let package = package(name);
    let mut out = spec_header(context.component.name.as_str());
    let linked = context.linked.get(name);
    out += &globals(&corrections(context.closure, name, false), facts, linked);
    out += "\n";
    out += &tag("Name", &format!("python-{}", stem(name)));
    out += &tag("Version", "<{ rpm_version }>");
    out += &tag("Release", "<{ release }>");
    out += &tag("Summary", &summary(stated, name));
    out += about_license(&facts.built_from);
    out += &tag("License", &facts.license);
    home.iter().for_each(|home| out += &tag("URL", home));
    out += "<{ source_lines }>\n";
    out +=
        &if facts.pure { tag("BuildArch", "noarch") } else { tag("ExclusiveArch", context.arch) };
    out += "\n";
    for required in build_requires(facts) {
        out += &tag("BuildRequires", required);
    }
    if let Import::Needs { build_requires, .. } = import
        && !build_requires.is_empty()
    {
        out += "# For the import in %%check.\n";
        build_requires.iter().for_each(|text| out += &tag("BuildRequires", text));
    }
    out += &format!("\n%global _description %{{expand:\n{}}}\n", description(stated, name, facts));
    out += "\n%description %_description\n";
    out += &format!("\n%package -n {package}\nSummary:        %{{summary}}\n");
    let corrections = corrections(context.closure, name, false);
    out += &written(&corrections);
    linked.into_iter().flat_map(Linked::requires).for_each(|text| out += &tag("Requires", &text));
    if let Some(WheelFacts { bundled, .. }) = facts.wheel() {
        bundled.iter().for_each(|text| out += &tag("Provides", text));
    }
    out += &format!("\n%description -n {package} %_description\n");
    out += &match &facts.built_from {
        Built::Wheel(wheel) => from_wheel(wheel),
        Built::Sdist(sdist) => from_sdist(sdist),
    };
    out += &check(name, import, facts.built_from.contents());
    let licenses = match &facts.built_from {
        Built::Sdist(sdist) => installed_licenses(&sdist.license_files, sdist.rust.as_ref()),
        Built::Wheel(_) => String::new(),
    };
    out += &format!("\n%files -n {package} -f %{{pyproject_files}}\n{licenses}");
    out += &facts.built_from.contents().map(files).unwrap_or_default();
    out += "\n%changelog\n<{ changelog }>\n";
    out
}

/// Returns the comment above `License:` if it covers more than the source itself.
fn about_license(built: &Built) -> &'static str {
    match built {
        Built::Sdist(SdistFacts { rust: Some(_), .. }) => {
            "# Includes the crates linked into it; LICENSE.dependencies has their licenses.\n"
        }
        Built::Wheel(WheelFacts { bundled, .. }) if !bundled.is_empty() => {
            "# Includes bundled code, with the licenses from its SBOM or from a review.\n"
        }
        _ => "",
    }
}

/// Returns a tag line of a spec.
fn tag(tag: &str, value: &str) -> String {
    format!("{:<15} {value}\n", format!("{tag}:"))
}

/// Returns the explicit requirements of a spec.
fn written(corrections: &Corrections) -> String {
    if corrections.written.is_empty() {
        return String::new();
    }
    let mut out =
        "# The requirements of extras that the metadata requires; packages do not provide extras.\n"
            .to_owned();
    corrections.written.iter().for_each(|text| out += &tag("Requires", text));
    out
}

/// Returns the definitions before a spec's tags.
fn globals(corrections: &Corrections, facts: &Facts, linked: Option<&Linked>) -> String {
    let mut out = String::new();
    let mut excluded: Vec<String> = corrections.pattern().into_iter().collect();
    if !excluded.is_empty() {
        out += "# Requirements of the metadata that the package does not have: dropped members, and extras.\n";
    }
    if !facts.pure {
        if facts.wheel().is_some() {
            out += "# Its libraries are for members of the closure only, and stay as upstream linked them.\n";
            out += "%global __provides_exclude_from ^%{python3_sitearch}/.*\\\\.so.*$\n";
            if let Some(pattern) = linked.and_then(Linked::pattern) {
                out += "# Provided by the wheel itself, or by the package of a member.\n";
                excluded.push(pattern);
            }
            out += "%global debug_package %{nil}\n%global __strip /usr/bin/true\n";
        } else {
            out += "# Extension modules are not for others to link to.\n";
            out += "%global __provides_exclude_from ^%{python3_sitearch}/.*\\\\.so$\n";
        }
    }
    if !excluded.is_empty() {
        out += &format!("%global __requires_exclude ^({})\n", excluded.join("|"));
    }
    out
}

fn build_requires(facts: &Facts) -> Vec<&str> {
    let Built::Sdist(sdist) = &facts.built_from else {
        return vec!["pyproject-rpm-macros", "python3-devel", "python3-pip"];
    };
    let mut all = vec!["python3-devel"];
    if !facts.pure {
        all.extend(["gcc", "gcc-c++"]);
    }
    if sdist.rust.is_some() {
        all.push("cargo-rpm-macros >= 26");
    }
    all.extend(sdist.packages.iter().map(String::as_str));
    all.sort_unstable();
    all
}

/// Returns the body of `%description`.
fn description(stated: &str, name: &str, facts: &Facts) -> String {
    let stated = literal(stated);
    let stated = if stated.is_empty() { format!("Python module {name}.") } else { stated };
    let stated = if stated.ends_with(['.', '!', '?']) { stated } else { format!("{stated}.") };
    let mut text = wrapped(&stated);
    if facts.wheel().is_some() {
        let how = if facts.pure { "" } else { ", compiled modules and all" };
        text += "\n\n";
        text += &wrapped(&format!(
            "The files are those of the wheel that upstream published{how}; it is not built from source here."
        ));
    }
    text
}

/// A script that replaces the copies of libraries in packages made from wheels by links.
pub(crate) const LINKS: &str = r#"# Wheels hold no links: a library's other names are copies, which a process could load beside it.
%{__python3} - %{buildroot} <<'END'
import filecmp, pathlib, re, sys
libraries = {}
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.so*")):
    if found := re.fullmatch(r"(.+[.]so)([.][0-9]+)*", path.name):
        libraries.setdefault((path.parent, found[1]), []).append(path)
for names in libraries.values():
    library = max(names, key=lambda path: len(path.name))
    for copy in names:
        if copy != library and not copy.is_symlink() and filecmp.cmp(copy, library, shallow=False):
            copy.unlink()
            copy.symlink_to(library.name)
END
"#;

fn from_wheel(wheel: &WheelFacts) -> String {
    let check = if wheel.names_licenses { "-l " } else { "" };
    format!(
        "\n%prep\n%setup -q -c -T\n\
         \n%build\nmkdir -p %{{_pyproject_wheeldir}}\ncp -p %{{SOURCE0}} %{{_pyproject_wheeldir}}\n\
         \n%install\n%pyproject_install\n{}%pyproject_save_files {check}{}\n",
        if wheel.contents.copies { LINKS } else { "" },
        saved(Some(&wheel.contents)),
    )
}

/// Returns the lines of `%files` for what [`saved`] does not cover: type stubs, whose names are no
/// modules, and programs.
pub(crate) fn files(contents: &Contents) -> String {
    let site = if contents.compiled { "%{python3_sitearch}" } else { "%{python3_sitelib}" };
    let stubs = contents.stubs.iter().map(|name| format!("{site}/{name}/\n"));
    let programs = contents.programs.iter().map(|name| format!("%{{_bindir}}/{name}\n"));
    stubs.chain(programs).collect()
}

/// Returns the arguments of `%pyproject_save_files`: the modules, and `+auto` if there are files
/// that are neither modules nor programs.
pub(crate) fn saved(contents: Option<&Contents>) -> String {
    match contents.filter(|contents| !contents.modules.is_empty()) {
        None => "'*' +auto".into(),
        Some(Contents { modules, others, .. }) => {
            let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
            modules.join(" ") + if *others { " +auto" } else { "" }
        }
    }
}

/// Returns `%check`, which imports the modules if the build root can have what they need.
pub(crate) fn check(name: &str, import: &Import, contents: Option<&Contents>) -> String {
    let reason = match import {
        Import::Needs { .. } => return "\n%check\n%pyproject_check_import -t\n".into(),
        Import::Unavailable(reason) => wrapped(&format!("Not imported: {reason}.")),
    };
    let reason: String = reason.lines().map(|line| format!("# {line}\n")).collect();
    let modules = contents.iter().flat_map(|contents| &contents.modules);
    let modules: Vec<&str> = modules.map(String::as_str).collect();
    let find = match modules.as_slice() {
        [] => String::new(),
        modules => format!(
            "for name in \"{}\".split():\n    assert importlib.util.find_spec(name), name\n",
            modules.join(" ")
        ),
    };
    let compiled = contents.is_some_and(|contents| contents.compiled);
    let (path, load) = if compiled { (", pathlib", LOAD) } else { ("", "") };
    format!(
        "\n%check\n{reason}\
         %{{py3_test_envvars}} %{{python3}} -BP - <<'END'\n\
         import importlib.metadata, importlib.util{path}\n\
         assert importlib.metadata.version(\"{name}\") == \"<{{ version }}>\"\n{find}{load}END\n"
    )
}

/// The part of a script that loads each extension module without its package. Libraries beside them
/// have no tag of Python in their names.
const LOAD: &str = r#"# Its extension modules load without the rest.
for path in pathlib.Path("%{buildroot}%{python3_sitearch}").rglob("*.*.so"):
    module, tag = path.name.removesuffix(".so").split(".", 1)
    if tag.startswith(("abi3", "cpython-")):
        spec = importlib.util.spec_from_file_location(module, path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
"#;

/// The end of `%autosetup` and the lines of `%prep` that unpack vendored crates.
pub(crate) const UNPACK_CRATES: &str = " -b <{ sources.crates.number }>
# cargo searches the folders above its working folder for the location of its crates. The
# source may have settings of its own.
mkdir -p ../.cargo
sed 's|^directory = \"|&<{ sources.crates.dir }>/|' \\
    ../<{ sources.crates.dir }>/.cargo/config.toml > ../.cargo/config.toml";

/// The lines of `%build` that keep cargo from using the network.
pub(crate) const RUST_ENV: &str =
    "export CARGO_NET_OFFLINE=true\nexport RUSTFLAGS='%{?build_rustflags}'\n";

/// Returns the lines of `%build` that list the linked crates and their licenses.
pub(crate) fn build_rust(project: &CargoProject) -> String {
    let (enter, leave) = match folder(project) {
        "" => (String::new(), ""),
        folder => (format!("cd {folder}\n"), "cd - > /dev/null\n"),
    };
    let options = options(project);
    format!(
        "# The crates of the upstream workspace, and their licenses.\n\
         {enter}%cargo_vendor_manifest\n\
         # The generator of bundled(crate(...)) rejects crates that have a path.\n\
         sed '/ [(][/]/d' cargo-vendor.txt > cargo-vendor.crates\n\
         mv cargo-vendor.crates cargo-vendor.txt\n\
         %{{cargo_license_summary{options}}}\n\
         %{{cargo_license{options}}} > LICENSE.dependencies\n{leave}"
    )
}

fn from_sdist(sdist: &SdistFacts) -> String {
    let mut out = "\n%prep\n%autosetup -p1 -n <{ source_dir }>".to_owned();
    let rust = sdist.rust.as_ref();
    if rust.is_some() {
        out += UNPACK_CRATES;
    }
    out += "\n";
    for file in &sdist.toolchain_files {
        out += &format!(
            "# Only rustup reads this file, and would download that release.\nrm {file}\n"
        );
    }
    out += "\n%generate_buildrequires\n%pyproject_buildrequires -R\n\n%build\n";
    if rust.is_some() {
        out += RUST_ENV;
    }
    out += "%pyproject_wheel\n";
    out += &rust.map(build_rust).unwrap_or_default();
    for path in sdist.license_files.iter().filter(|path| path.contains('/')) {
        out += &format!("cp -p {path} {}\n", flat(path));
    }
    out += "\n%install\n%pyproject_install\n%pyproject_save_files ";
    out += &saved(sdist.contents.as_ref());
    out += "\n";
    out
}

/// Returns the options of the license macros from cargo-rpm-macros.
fn options(project: &CargoProject) -> String {
    let mut options = String::new();
    if project.no_default_features {
        options += " -n";
    }
    if project.all_features {
        options += " -a";
    }
    if !project.features.is_empty() {
        options += &format!(" -f {}", project.features.join(","));
    }
    options
}

/// Returns the name that a license file is installed under. It includes the folder, because two
/// files may have the same name.
fn flat(path: &str) -> String {
    path.replace('/', "-")
}

/// Returns the folder of the project's manifest, relative to the top folder.
fn folder(project: &CargoProject) -> &str {
    project.manifest.strip_suffix("Cargo.toml").unwrap_or_default().trim_end_matches('/')
}

/// Returns the lines of `%files` for licenses that the metadata may not list.
pub(crate) fn installed_licenses(files: &[String], rust: Option<&CargoProject>) -> String {
    let mut out: String = files.iter().map(|path| format!("%license {}\n", flat(path))).collect();
    if let Some(project) = rust {
        let folder = project.manifest.strip_suffix("Cargo.toml").unwrap_or_default();
        out += &format!(
            "%license {folder}LICENSE.dependencies\n\
             # Read by Fedora's generator of bundled(crate(...)).\n%license {folder}cargo-vendor.txt\n"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::LockedFile;
    use crate::digest::Sha256;

    fn facts() -> Facts {
        Facts {
            built_from: Built::Sdist(SdistFacts::sample()),
            reason: String::new(),
            license: "MIT".into(),
            summary: String::new(),
            leave_out: Vec::new(),
            pure: true,
        }
    }

    #[test]
    fn lists_files_by_name() {
        let of = |modules: &[&str], others: bool| {
            let modules = modules.iter().map(|name| (*name).to_owned()).collect();
            Contents { modules, others, ..Contents::default() }
        };
        assert_eq!(saved(Some(&of(&["b", "a"], false))), "a b");
        assert_eq!(saved(Some(&of(&["a"], true))), "a +auto");
        assert_eq!(saved(None), "'*' +auto");
        let contents = Contents { stubs: ["a-stubs".into()].into(), ..of(&["a"], false) };
        assert_eq!(files(&contents), "%{python3_sitelib}/a-stubs/\n");
        let programs = BTreeSet::from(["a".into()]);
        let contents = Contents { compiled: true, programs, ..contents };
        assert_eq!(files(&contents), "%{python3_sitearch}/a-stubs/\n%{_bindir}/a\n");
    }

    #[test]
    fn every_package_has_a_check() {
        let modules = ["one".to_owned(), "two".to_owned()].into();
        let contents = Contents { modules, ..Contents::default() };
        let needs = Import::Needs { build_requires: Vec::new(), components: BTreeSet::new() };
        assert!(check("x", &needs, Some(&contents)).contains("%pyproject_check_import -t"));
        let unavailable = Import::Unavailable("x requires y, which is left out".into());
        let found = check("x", &unavailable, Some(&contents));
        assert!(found.contains("\n# Not imported: x requires y, which is left out.\n"), "{found}");
        assert!(
            found.contains("\"one two\".split()") && found.contains("version(\"x\")"),
            "{found}"
        );
        assert!(!found.contains("exec_module"), "{found}");
        let compiled = Contents { compiled: true, ..contents };
        let loads = check("x", &unavailable, Some(&compiled));
        assert!(loads.contains(", pathlib\n") && loads.contains("exec_module"), "{loads}");
        let unknown = check("x", &unavailable, None);
        assert!(unknown.contains("version(\"x\")") && !unknown.contains("split"), "{unknown}");
    }

    #[test]
    fn writes_corrections_below_their_comment() {
        let none = Corrections::default();
        assert_eq!(
            (written(&none), globals(&none, &facts(), None)),
            (String::new(), String::new())
        );
        let some = Corrections {
            never: vec!["torch".into()],
            written: vec!["a".into(), "b".into()],
            ..none
        };
        let lines = written(&some);
        let lines: Vec<&str> = lines.lines().collect();
        assert!(lines[0].starts_with("# The requirements of extras"), "{lines:?}");
        assert_eq!(lines[1..], ["Requires:       a", "Requires:       b"]);
        let lines = globals(&some, &facts(), None);
        let lines: Vec<&str> = lines.lines().collect();
        let [comment, macro_line] = lines[..] else { panic!("{lines:?}") };
        assert!(
            comment.starts_with("# Requirements of the metadata that the package does not have"),
            "{comment}"
        );
        assert!(macro_line.starts_with("%global __requires_exclude ^("), "{macro_line}");
    }

    #[test]
    fn license_of_more_than_the_source_has_a_comment() {
        let wheel = |bundled: &[&str]| {
            let file = LockedFile {
                name: "x.whl".into(),
                sha256: Sha256::of_bytes("x"),
                size: None,
                metadata: None,
            };
            let bundled = bundled.iter().map(|text| (*text).to_owned()).collect();
            Built::Wheel(WheelFacts {
                file,
                names_licenses: false,
                contents: Default::default(),
                bundled,
            })
        };
        let project = CargoProject {
            manifest: "Cargo.toml".into(),
            lock_file: "Cargo.lock".into(),
            no_default_features: false,
            all_features: false,
            features: Vec::new(),
        };
        let rust = Built::Sdist(SdistFacts { rust: Some(project), ..SdistFacts::sample() });
        for (built, expected) in [
            (Built::Sdist(SdistFacts::sample()), ""),
            (rust, "LICENSE.dependencies"),
            (wheel(&[]), ""),
            (wheel(&["bundled(zlib)"]), "bundled"),
        ] {
            let comment = about_license(&built);
            assert!(
                comment.contains(expected) && comment.is_empty() == expected.is_empty(),
                "{comment}"
            );
        }
    }

    #[test]
    fn sources_with_extension_modules_need_compilers() {
        let requires = |pure: bool| {
            let sdist = SdistFacts { packages: vec!["cmake".into()], ..SdistFacts::sample() };
            let facts = Facts { built_from: Built::Sdist(sdist), pure, ..facts() };
            build_requires(&facts).join(" ")
        };
        assert_eq!(requires(true), "cmake python3-devel");
        assert_eq!(requires(false), "cmake gcc gcc-c++ python3-devel");
    }
}
