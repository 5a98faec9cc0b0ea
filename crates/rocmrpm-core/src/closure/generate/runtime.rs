//! Generates the component with the private members of a closure: the folders of a virtual
//! environment below one prefix, which sees the system's packages but prefers its own. Members with
//! separate RPMs are up to `member`.

use std::collections::BTreeSet;

use super::facts::{Built, Facts, WheelFacts};
use super::linked::Linked;
use super::member::{LINKS, quoted_key, source};
use super::requires::{edges, of_all, place};
use super::text::{component_header, quoted, spec_header, wrapped};
use super::{Context, GeneratedComponent};
use crate::closure::{Closure, Member, version};
use crate::license;
use crate::workspace::MemberPlace;

/// Returns the component of the private members, of which there must be at least one.
pub(super) fn part(context: &Context<'_>, members: &[(&Member, Facts)]) -> GeneratedComponent {
    let component = context.component.name.as_str();
    let name = context.component.runtime_name();
    let linked = linked(context, members);
    let waiver = match linked.requires().next() {
        Some(_) => {
            "\n[[lint.waive]]\nrule = \"requirement-unchecked\"\nfound = \"()(64bit)\"\n\
             reason = \"package tables have no libraries; `closure --check` proves them\"\n"
        }
        None => "",
    };
    let toml = format!(
        "{}\ngenerated = {}\n{}\n[inspect]\ndevice-code = false\n{waiver}",
        component_header(component),
        quoted(component),
        linked.required_components(&names(members), &BTreeSet::new())
    );
    let mut pin = String::new();
    for (at, (member, facts)) in members.iter().enumerate() {
        let table = quoted_key(&name);
        let (table, version) = match at {
            // The package has the version of the component that it is for.
            0 => (table, context.version.to_owned()),
            _ => (format!("\n[{table}.sources.{}]", quoted_key(&member.name)), version_of(member)),
        };
        let table = if at == 0 { format!("[{table}]") } else { table };
        pin += &format!("{table}\nversion = {}\n{}", quoted(&version), source(&facts.built_from));
    }
    let files = vec![
        ("component.toml".to_owned(), toml),
        (format!("{name}.spec.tera"), spec(context, &name, members)),
    ];
    GeneratedComponent { name, files, pin }
}

fn version_of(member: &Member) -> String {
    member.node.as_ref().map(|node| node.locked.version.to_string()).unwrap_or_default()
}

fn names<'m>(members: &[(&'m Member, Facts)]) -> BTreeSet<&'m str> {
    members.iter().map(|(member, _)| member.name.as_str()).collect()
}

/// Returns the library corrections of all members together.
fn linked(context: &Context<'_>, members: &[(&Member, Facts)]) -> Linked {
    let mut linked = Linked::default();
    let each = members.iter().filter_map(|(member, _)| context.linked.get(&member.name));
    each.for_each(|other| linked.extend(other));
    linked
}

fn spec(context: &Context<'_>, name: &str, members: &[(&Member, Facts)]) -> String {
    let linked = linked(context, members);
    let mut out = spec_header(context.component.name.as_str());
    out += &globals(context, &linked);
    out += &preamble(context, name, members, &linked);
    out += "\n%prep\n%setup -q -c -T\n";
    out += &build(members);
    out += INSTALL;
    let leave_out: Vec<String> = members
        .iter()
        .flat_map(|(_, facts)| &facts.leave_out)
        .map(|folder| format!("%{{buildroot}}%{{site}}/{folder}"))
        .collect();
    if !leave_out.is_empty() {
        out += &format!("# Test suites.\nrm -r {}\n", leave_out.join(" \\\n    "));
    }
    out += KEEP;
    if wheels(members).any(|wheel| wheel.contents.copies) {
        out += LINKS;
    }
    out += BYTECODE;
    let importable = importable(context.closure, &names(members));
    let imported = members.iter().filter(|(member, _)| importable.contains(member.name.as_str()));
    let wheels = imported.filter_map(|(_, facts)| facts.wheel());
    out += &check(&wheels.flat_map(|wheel| &wheel.contents.modules).collect());
    out += "\n%files\n%license licenses\n%{prefix}\n";
    out += "\n%changelog\n<{ changelog }>\n";
    out
}

/// Returns the macros of the spec: the prefix, and what rpm's generators and scripts leave out.
fn globals(context: &Context<'_>, linked: &Linked) -> String {
    let mut out = format!("%global prefix %{{_libdir}}/{}\n", context.component.prefix_name());
    out += "%global site %{prefix}/lib/python%{python3_version}/site-packages\n\
            # Only the component uses it. It provides nothing, and its metadata adds no requirements.\n\
            %global __provides_exclude_from ^%{prefix}/.*$\n\
            %global __requires_exclude_from ^%{site}/[^/]+\\\\.dist-info.*$\n";
    if let Some(pattern) = linked.pattern() {
        out += "# Provided by the wheels themselves, or by the package of a member.\n";
        out += &format!("%global __requires_exclude ^{pattern}\n");
    }
    out += "# RECORD has the digests of these files, so nothing may change them.\n\
            %global __os_install_post %{nil}\n\
            %global debug_package %{nil}\n\
            %global _build_id_links none\n\n";
    out
}

/// Returns the tags of the package and its description.
fn preamble(
    context: &Context<'_>,
    name: &str,
    members: &[(&Member, Facts)],
    linked: &Linked,
) -> String {
    let component = context.component.name.as_str();
    let tag = |tag: &str, value: &str| format!("{:<15} {value}\n", format!("{tag}:"));
    let mut out = tag("Name", name);
    out += &tag("Version", "<{ version }>");
    out += &tag("Release", "<{ release }>");
    out += &tag("Summary", &format!("Private Python environment of {component}"));
    out += &tag("License", &license::all(members.iter().map(|(_, facts)| facts.license.as_str())));
    out +=
        &tag("URL", "https://packaging.python.org/en/latest/specifications/virtual-environments/");
    out += "<{ source_lines }>\n";
    // Even if everything is pure: %{_libdir} differs in noarch packages.
    out += &tag("ExclusiveArch", context.arch);
    out += "\n";
    out += &tag("BuildRequires", "python3-devel");
    out += &tag("BuildRequires", "python3-pip");
    for required in build_requires(members) {
        out += &tag("BuildRequires", &required);
    }
    let for_imports = of_all(context.closure, &importable(context.closure, &names(members)));
    if !for_imports.is_empty() {
        out += "# For the imports in %%check.\n";
        for_imports.iter().for_each(|required| out += &tag("BuildRequires", required));
    }
    out += "\n# Their requirements on the system.\n";
    out += &tag("Requires", "python(abi) = %{python3_version}");
    for required in of_all(context.closure, &names(members)) {
        out += &tag("Requires", &required);
    }
    linked.requires().for_each(|text| out += &tag("Requires", &text));
    for (member, _) in members {
        let node = member.node.as_ref();
        let version = node.map(|node| version::to_rpm(&node.locked.version)).unwrap_or_default();
        out += &tag("Provides", &format!("bundled(python3dist({})) = {version}", member.name));
    }
    let bundled: BTreeSet<&String> = wheels(members).flat_map(|wheel| &wheel.bundled).collect();
    bundled.into_iter().for_each(|text| out += &tag("Provides", text));
    let what = format!(
        "Python distributions of which {component} needs other versions than the system has. Only \
         %{{prefix}}/bin/python3 uses them, which has the system's packages besides."
    );
    out += &format!("\n%description\n{}\n", wrapped(&what));
    out
}

/// Returns the section that collects the wheels and builds those of source distributions.
fn build(members: &[(&Member, Facts)]) -> String {
    let (wheels, sdists) = by_kind(members);
    let mut out = "\n%build\nmkdir -p wheels\n".to_owned();
    if !wheels.is_empty() {
        let list: Vec<String> = wheels.iter().map(|at| format!("%{{SOURCE{at}}}")).collect();
        out += &format!("cp -p {} wheels\n", list.join(" "));
    }
    for at in sdists {
        out += &format!(
            "%{{__python3}} -m pip wheel --isolated --no-deps --no-index --no-build-isolation \\\n    \
             --no-cache-dir --wheel-dir wheels %{{SOURCE{at}}}\n"
        );
    }
    out
}

/// Returns the section that imports modules.
fn check(modules: &BTreeSet<&String>) -> String {
    let mut out = "\n%check\n\
         %{buildroot}%{prefix}/bin/python3 -c 'import sys; assert \"%{buildroot}%{site}\" in sys.path'\n"
        .to_owned();
    if !modules.is_empty() {
        out += "# Not those that need a component of the stack, or a member with an RPM.\n";
    }
    for module in modules {
        out += &format!("%{{buildroot}}%{{prefix}}/bin/python3 -B -c 'import {module}'\n");
    }
    out
}

/// Returns the members that are built from a wheel.
fn wheels<'m>(members: &'m [(&Member, Facts)]) -> impl Iterator<Item = &'m WheelFacts> {
    members.iter().filter_map(|(_, facts)| facts.wheel())
}

/// Returns those of the private members that need only each other and packages of the release, so
/// that the build root can have what their imports need.
fn importable<'m>(closure: &Closure, names: &BTreeSet<&'m str>) -> BTreeSet<&'m str> {
    let mut all = names.clone();
    loop {
        let available = |to: &str| match place(closure, to) {
            Some(MemberPlace::System) => true,
            _ => all.contains(to),
        };
        let needs_others =
            |name: &&str| edges(closure, name).any(|edge| !edge.extra && !available(&edge.to));
        match all.iter().copied().find(needs_others) {
            Some(name) => drop(all.remove(name)),
            None => return all,
        }
    }
}

/// Returns the build dependencies of the members without a wheel.
fn build_requires(members: &[(&Member, Facts)]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (_, facts) in members {
        let Built::Sdist(sdist) = &facts.built_from else { continue };
        all.extend(sdist.build_requires.iter().map(|name| format!("python3dist({name})")));
        all.extend(sdist.packages.iter().cloned());
        if !facts.pure {
            all.extend(["gcc".to_owned(), "gcc-c++".to_owned()]);
        }
    }
    all
}

/// Returns the numbers of the sources that are wheels, and of those that are not.
fn by_kind(members: &[(&Member, Facts)]) -> (Vec<usize>, Vec<usize>) {
    (0..members.len()).partition(|at| members[*at].1.wheel().is_some())
}

/// The install script of the prefix. `KEEP` leaves out the members' programs and their lines in RECORD:
/// programs of a virtual environment have its path in their first line, and are not on PATH.
const INSTALL: &str = r#"
%install
mkdir -p %{buildroot}%{prefix}/bin %{buildroot}%{site}
ln -s /usr/bin/python3 %{buildroot}%{prefix}/bin/python3
cat > %{buildroot}%{prefix}/pyvenv.cfg <<'END'
home = /usr/bin
include-system-site-packages = true
version = %{python3_version}
END
%{buildroot}%{prefix}/bin/python3 -m pip --isolated install --no-deps --no-index --no-compile \
    --ignore-installed --no-cache-dir --no-warn-script-location --disable-pip-version-check wheels/*.whl
"#;

/// The script that keeps RECORD true, and collects the licenses.
const KEEP: &str = r#"# Programs would have the build folder in their first line, and are not on PATH.
# Keeps the licenses of each distribution.
%{__python3} - %{buildroot}%{prefix} licenses <<'END'
import csv, os, pathlib, shutil, sys
prefix, licenses = map(pathlib.Path, sys.argv[1:])
for info in sorted(prefix.glob("lib*/python*/site-packages/*.dist-info")):
    (info / "INSTALLER").write_text("rpm" + os.linesep)
    for name in ("direct_url.json", "REQUESTED"):
        (info / name).unlink(missing_ok=True)
    with open(info / "RECORD", newline="") as file:
        lines = list(csv.reader(file))
    kept = []
    for path, digest, size in lines:
        full = pathlib.Path(os.path.normpath(info.parent / path))
        if full.parent == prefix / "bin":
            full.unlink(missing_ok=True)
        elif path == info.name + "/INSTALLER":
            kept.append([path, "", ""])
        elif full.exists():
            kept.append([path, digest, size])
    with open(info / "RECORD", "w", newline="") as file:
        csv.writer(file, lineterminator=os.linesep).writerows(kept)
    for path in sorted(info.rglob("*")):
        if path.is_file() and path.name.lower().startswith(("copying", "licence", "license", "notice")):
            to = licenses / info.name.removesuffix(".dist-info") / path.relative_to(info)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
licenses.mkdir(exist_ok=True)
END
"#;

/// The script for bytecode and file modes.
const BYTECODE: &str = r#"# Bytecode that does not depend on modification times. Some wheels have templates named .py and tests
# that are not Python; those are listed, and any other failure is an error.
%{__python3} - %{buildroot}%{prefix} %{buildroot} <<'END'
import ast, compileall, pathlib, py_compile, re, sys
prefix, root = sys.argv[1:]
broken = []
for path in sorted(pathlib.Path(prefix).rglob("*.py")):
    try:
        ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        broken.append(str(path))
        print("not Python, left without bytecode:", path)
left_out = re.compile("|".join(re.escape(path) + "$" for path in broken)) if broken else None
done = compileall.compile_dir(
    prefix, maxlevels=99, quiet=1, force=True, rx=left_out, stripdir=root, prependdir="/",
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
sys.exit(not done)
END
find %{buildroot}%{prefix} -type d -exec chmod 0755 {} +
find %{buildroot}%{prefix} -type f -exec chmod 0644 {} +
find %{buildroot}%{prefix} -type f -name '*.so*' -exec chmod 0755 {} +
"#;

#[cfg(test)]
mod tests {
    use super::super::facts::SdistFacts;
    use super::*;
    use crate::closure::testing::sample;

    #[test]
    fn imports_members_that_need_only_each_other_and_the_release() {
        let (mut closure, ..) = sample();
        let names = ["fastapi", "pydantic", "xgrammar"];
        for name in names {
            closure.members.get_mut(name).unwrap().place = MemberPlace::Private;
        }
        // fastapi requires starlette, which has an RPM; xgrammar requires hub, which has one, too.
        assert_eq!(importable(&closure, &names.into()), ["pydantic"].into());
        closure.members.get_mut("starlette").unwrap().place = MemberPlace::System;
        assert_eq!(importable(&closure, &names.into()), ["fastapi", "pydantic"].into());
        assert_eq!(
            of_all(&closure, &["pydantic"].into()),
            ["python3dist(typing-extensions) >= 4.15"]
        );
    }

    #[test]
    fn members_without_a_wheel_need_what_builds_them() {
        let (closure, ..) = sample();
        let [member, other] = ["hub", "starlette"].map(|name| &closure.members[name]);
        let facts = |pure: bool, backend: &str| {
            let (build_requires, packages) =
                ([backend.to_owned()].into(), vec!["cmake".to_owned()]);
            let built_from =
                Built::Sdist(SdistFacts { build_requires, packages, ..SdistFacts::sample() });
            let (reason, summary, license) = (String::new(), String::new(), "MIT".into());
            Facts { built_from, reason, license, summary, leave_out: Vec::new(), pure }
        };
        let required =
            |members: &[(&Member, Facts)]| Vec::from_iter(build_requires(members)).join(" ");
        assert_eq!(required(&[]), "");
        assert_eq!(required(&[(member, facts(true, "flit-core"))]), "cmake python3dist(flit-core)");
        assert_eq!(
            required(&[(member, facts(true, "flit-core")), (other, facts(false, "setuptools"))]),
            "cmake gcc gcc-c++ python3dist(flit-core) python3dist(setuptools)"
        );
    }
}
