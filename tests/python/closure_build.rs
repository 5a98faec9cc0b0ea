//! Tests the packages of a small Python closure with members in all four places: generated, built
//! with the host builder, unpacked and run, with the provides and requires that rpm generates.
//! Offline. Needs rpmbuild, createrepo_c, rpm2cpio, cpio, gcc, and Python with pip, setuptools and
//! wheel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use crate::support;
use crate::support::{Workspace, names_in, ran};
use pep440_rs::{Version, VersionSpecifiers};
use rocmrpm::closure::generate::{GenerateError, Generated, files};
use rocmrpm::closure::offers::Offers;
use rocmrpm::closure::{
    About, Closure, Edge, Graph, Locked, LockedFile, LockedOrigin, Member, Node, Offer, Requires,
};
use rocmrpm::digest::Sha256;
use rocmrpm::error::Diagnose;
use rocmrpm::events::Silent;
use rocmrpm::machine::PYTHON;
use rocmrpm::names::ComponentName;
use rocmrpm::sources::{Cache, Fetcher};
use rocmrpm::workspace::{MemberPlace, Selection};

/// Creates an index of wheels and source distributions: NAME VERSION TAG LIBRARY REQUIREMENT...
const INDEX: &str = r#"
import base64, hashlib, io, pathlib, sys, tarfile, zipfile
import json
root, library, module, cuda, asks, odd, suffix, tag = sys.argv[1:]
simple = pathlib.Path(root, "simple")
def page(name, files):
    folder = simple / name
    folder.mkdir(parents=True, exist_ok=True)
    links = ""
    for file, data in files:
        (folder / file).write_bytes(data)
        links += f'<a href="{file}#sha256={hashlib.sha256(data).hexdigest()}">{file}</a>'
    (folder / "index.html").write_text(links)
def metadata(name, version, lines):
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(l + "\n" for l in lines)
def wheel(name, version, tag, lines, members):
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    pure = "true" if tag.endswith("any") else "false"
    members = dict(members)
    members[f"{info}/METADATA"] = metadata(name, version, lines + ["License-File: LICENSE"]).encode()
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode()
    members[f"{info}/LICENSE"] = f"license of {name}\n".encode()
    record = ""
    for path, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    members[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for path, data in members.items():
            file.writestr(path, data)
    return f"{name.replace('-', '_')}-{version}-{tag}.whl", out.getvalue()
def sdist(name, version, members):
    stem = f"{name.replace('-', '_')}-{version}"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        for path, text in members.items():
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(text)
            file.addfile(entry, io.BytesIO(text.encode()))
    return f"{stem}.tar.gz", out.getvalue()
entry = "private_one-2.0.dist-info/entry_points.txt"
private = wheel("private-one", "2.0", "py3-none-any",
    ["Requires-Dist: pure-one>=1", "Requires-Dist: packaging>=20"],
    {"private_one.py": b"import packaging, pure_one\nname = 'private'\ndef main(): pass\n",
     entry: b"[console_scripts]\nprivate-one = private_one:main\n"})
page("private-one", [private])
page("liar", [("liar-1.0-py3-none-any.whl", private[1])])
native = {f"native/fast{suffix}": pathlib.Path(module).read_bytes(),
          "native/__init__.py": b"", "native.libs/libdeep-0123abcd.so.1": pathlib.Path(library).read_bytes()}
def sbom(name, version, components):
    subject = {"name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
    text = {"bomFormat": "CycloneDX", "specVersion": "1.5", "metadata": {"component": subject}, "components": components}
    return {f"{name.replace('-', '_')}-{version}.dist-info/sboms/{name}.cdx.json": json.dumps(text).encode()}
ring = {"name": "ring", "version": "0.17.14", "purl": "pkg:cargo/ring@0.17.14", "licenses": [{"expression": "Apache-2.0 AND ISC"}]}
page("native-one", [wheel("native-one", "1.5", tag, [], native)])
own = {path.replace("native", "hidden"): data for path, data in native.items()}
deep = {"name": "deep", "version": "1.0", "licenses": [{"license": {"id": "Zlib"}}]}
own |= sbom("private-native", "3.0", [ring, deep])
page("private-native", [wheel("private-native", "3.0", tag, [], own)])
asking = {f"asking/asks{suffix}": pathlib.Path(asks).read_bytes(), "asking/__init__.py": b""}
asking |= sbom("asking", "1.0", [])
page("asking", [wheel("asking", "1.0", tag, ["Requires-Dist: native-one"], asking)])
oddly = {f"odd_one/odd{suffix}": pathlib.Path(odd).read_bytes()} | sbom("odd-one", "1.0", [])
page("odd-one", [wheel("odd-one", "1.0", tag, [], oddly)])
cuda = {f"cuda_one{suffix}": pathlib.Path(cuda).read_bytes()} | sbom("cuda-one", "1.0", [])
page("cuda-one", [wheel("cuda-one", "1.0", tag, [], cuda)])
damaged = dict(own)
damaged = {path.replace("private_native-3.0", "damaged-1.0"): data for path, data in own.items()}
page("damaged", [wheel("damaged", "1.0", tag, [], damaged)])
pyproject = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "pure-one"
version = "1.2"
dependencies = ["dropped-one"]
optional-dependencies.fast = ["native-one>=1"]
[tool.setuptools]
py-modules = ["pure_one"]
"""
sources = {"pyproject.toml": pyproject, "pure_one.py": "name = 'pure'\n", "LICENSE": "license of pure-one\n"}
page("pure-one", [sdist("pure-one", "1.2", sources),
    wheel("pure-one", "1.2", "py3-none-any", ["Requires-Dist: dropped-one"], {"pure_one.py": b"name = 'pure'\n"})])
rust = {"pyproject.toml": "", "Cargo.toml": "", "Cargo.lock": ""}
page("alone", [sdist("alone", "0.5", {"pyproject.toml": "", "alone.py": ""})])
page("rust-one", [sdist("rust-one", "1.0", rust)])
page("rust-two", [sdist("rust-two", "1.0", rust), wheel("rust-two", "1.0", tag, [], {"rust_two.py": b""})])
"#;

/// The component that owns the closure.
const COMPONENT: &str = r#"
[closure]
runtime = "demo-runtime"

[[closure.member]]
name = "dropped-one"
place = "dropped"
without = "flying to 100% of the moons"
reason = "nothing imports it"

[[closure.member]]
name = "native-one"
license = "MIT AND Zlib"
bundled = ["deep = 1.0"]
reason = "deep/LICENSE"
"#;

const SPEC: &str = r#"
<@ if closure.requires_exclude @>%global __requires_exclude ^(<{ closure.requires_exclude }>|<{ closure.prefix }>/bin/python3$)
<@ endif @>Name:           python-demo
Version:        <{ version }>
Release:        <{ release }>
Summary:        Demonstration
License:        MIT
URL:            https://example.org/demo
<{ source_lines }>
BuildRequires:  python3-devel

%global _description %{expand:
A demonstration.
<@ for member in closure.dropped @>Without <{ member.name }>: <{ member.without }>.
<@ endfor @>}

%description %_description

%package -n python3-demo
Summary:        %{summary}
<@ if closure.runtime @>Requires:       <{ closure.runtime }>%{?_isa} = %{version}
<@ endif @><@ for required in closure.requires @>Requires:       <{ required }>
<@ endfor @>
%description -n python3-demo %_description

%prep
%autosetup -n <{ source_dir }>
<@ if closure.runtime @>cat > guard.py <<'END'
<{ closure.guard }>
END
cat guard.py demo.py > guarded.py
mv guarded.py demo.py
rm guard.py
<@ endif @>
%generate_buildrequires
%pyproject_buildrequires -R

%build
%pyproject_wheel

%install
%pyproject_install
%pyproject_save_files '*' +auto
<@ if closure.runtime @>sed -i '1s|^#!.*|#!<{ closure.prefix }>/bin/python3 -s|' %{buildroot}%{_bindir}/demo
<@ endif @>
%files -n python3-demo -f %{pyproject_files}

%changelog
<{ changelog }>
"#;

const PYPROJECT: &str = r#"[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "demo"
version = "1.0"
dependencies = ["private-one>=2", "private-native", "pure-one[fast]>=1", "dropped-one[x]", "packaging"]
scripts.demo = "demo:main"
[tool.setuptools]
py-modules = ["demo"]
"#;

const DEMO: &str = "\
import hidden.fast, native.fast, packaging, private_one, pure_one
def main():
    print(private_one.name, pure_one.name, hidden.fast.__file__)
";

fn name(name: &str) -> ComponentName {
    ComponentName::parse(name).unwrap()
}

/// Returns the stdout of a command.
#[track_caller]
fn output(command: &mut Command) -> String {
    let ran = ran(command);
    ran.exits(0);
    ran.stdout
}

/// A workspace with a component, and an index with the members of its closure.
struct BuildFixture {
    workspace: Workspace,
    index: PathBuf,
}

impl BuildFixture {
    fn new() -> Self {
        let workspace = Workspace::new();
        let index = workspace.holder().join("index");
        workspace.write("src/demo/pyproject.toml", PYPROJECT);
        workspace.write("src/demo/demo.py", DEMO);
        workspace.write("specs-templates/demo/component.toml", COMPONENT);
        workspace.write("specs-templates/demo/python-demo.spec.tera", SPEC.trim_start());
        workspace.pin("demo", "path = \"src/demo\"");
        let files = [
            "libdeep-0123abcd.so.1",
            "fast.so",
            "libcudart.so.12",
            "cuda.so",
            "asks.so",
            "libgomp.so.1.0.0",
            "odd.so",
        ];
        let [library, module, runtime, cuda, asks, gomp, odd] =
            files.map(|name| workspace.holder().join(name));
        let include = "import sysconfig; print(sysconfig.get_path('include'))";
        let include = output(Command::new(PYTHON).args(["-c", include]));
        let deep = workspace.write("c/deep.c", "int deep(void) { return 7; }\n");
        let fast = workspace.write(
            "c/fast.c",
            "#include <Python.h>\nint deep(void);\nstatic struct PyModuleDef def = {PyModuleDef_HEAD_INIT, \"fast\"};\n\
             PyMODINIT_FUNC PyInit_fast(void) { return deep() == 7 ? PyModule_Create(&def) : NULL; }\n",
        );
        let compile = |from: &Path, to: &Path, more: &[&str]| {
            let mut gcc = Command::new("gcc");
            output(gcc.args(["-shared", "-fPIC", "-O2", "-s", "-o"]).arg(to).arg(from).args(more));
        };
        compile(&deep, &library, &["-Wl,-soname,libdeep-0123abcd.so.1"]);
        let (include, link) =
            (format!("-I{}", include.trim()), library.to_string_lossy().into_owned());
        // Both packages contain the library in an adjacent folder that is named after the package.
        let paths = "-Wl,-rpath,$ORIGIN/../native.libs:$ORIGIN/../hidden.libs";
        compile(&fast, &module, &[&include, &link, paths]);
        compile(&deep, &runtime, &["-Wl,-soname,libcudart.so.12"]);
        compile(&fast, &cuda, &[&include, &runtime.to_string_lossy()]);
        // A library of another distribution, which is loaded first.
        compile(&fast, &asks, &[&include, &link]);
        // Linked by file name, with a symbol version.
        let versions = workspace.write("c/versions", "OMP_1.0 { deep; };\n");
        let script = format!("-Wl,--version-script={}", versions.display());
        compile(&deep, &gomp, &["-Wl,-soname,libgomp.so.1.0.0", &script]);
        compile(&fast, &odd, &[&include, &gomp.to_string_lossy()]);
        let suffix = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))";
        let suffix = output(Command::new(PYTHON).args(["-c", suffix]));
        let tag =
            "import sys; v = 'cp%d%d' % sys.version_info[:2]; print(v + '-' + v + '-linux_x86_64')";
        let tag = output(Command::new(PYTHON).args(["-c", tag]));
        let mut make = Command::new(PYTHON);
        make.args(["-c", INDEX])
            .args([&index, &library, &module, &cuda, &asks, &odd])
            .args([suffix.trim(), tag.trim()]);
        output(&mut make);
        std::fs::remove_dir_all(workspace.path("c")).unwrap();
        Self { workspace, index }
    }

    fn index_url(&self) -> String {
        format!("file://{}/simple", self.index.display())
    }

    /// Returns the file of a member on the index with this suffix.
    fn file(&self, member: &str, ending: &str) -> Option<LockedFile> {
        let folder = self.index.join("simple").join(member);
        if !folder.is_dir() {
            return None;
        }
        let name = names_in(&folder).into_iter().find(|name| name.ends_with(ending))?;
        let sha256 = Sha256::of_file(&folder.join(&name)).unwrap().0;
        Some(LockedFile { name, sha256, size: None, metadata: None })
    }

    fn node(&self, name: &str, version: &str) -> Node {
        let origin = LockedOrigin::Index {
            wheel: self.file(name, ".whl"),
            sdist: self.file(name, ".tar.gz"),
        };
        let version = Version::from_str(version).unwrap();
        let locked = Locked { name: name.into(), version, origin };
        let summary = format!("does what {name} does, 100% of it.");
        Node { locked, about: About { summary, license: Some("MIT".into()), home: None } }
    }

    fn closure(&self) -> Closure {
        let mut members = BTreeMap::new();
        let offer = |version: &str| Offer {
            package: "python3-x".into(),
            evr: version.into(),
            version: Version::from_str(version).ok(),
            requires: Requires::default(),
        };
        for (name, version, place, has) in [
            ("private-one", "2.0", MemberPlace::Private, Some("1.0")),
            ("private-native", "3.0", MemberPlace::Private, Some("1.0")),
            ("native-one", "1.5", MemberPlace::Rpm, None),
            ("pure-one", "1.2", MemberPlace::Rpm, None),
            ("packaging", "23.0", MemberPlace::System, Some("23.0")),
            ("dropped-one", "", MemberPlace::Dropped, None),
        ] {
            let node = (place != MemberPlace::Dropped).then(|| self.node(name, version));
            let (name, reason) = (name.to_owned(), String::new());
            let member = Member {
                name: name.clone(),
                node,
                offer: has.map(offer),
                place,
                reason,
                decided: place == MemberPlace::Dropped,
                without: None,
            };
            members.insert(name, member);
        }
        let edge = |(from, text): (&str, &str)| {
            let to = text.split(['[', '>']).next().unwrap_or_default();
            let at = text.find('>').unwrap_or(text.len());
            let specifiers = VersionSpecifiers::from_str(&text[at..]).unwrap();
            // The requirement of pure-one's extra, which demo requests.
            let extra = (from, to) == ("pure-one", "native-one");
            Edge { from: from.into(), to: to.into(), text: text.into(), specifiers, extra }
        };
        let edges = [
            ("demo", "private-one>=2"),
            ("demo", "private-native"),
            ("demo", "pure-one[fast]>=1"),
            ("demo", "dropped-one[x]"),
            ("demo", "packaging"),
            ("private-one", "pure-one>=1"),
            ("private-one", "packaging>=20"),
            ("pure-one", "dropped-one"),
            ("pure-one", "native-one>=1"),
        ];
        let nodes =
            members.values().filter_map(|m| m.node.clone().map(|node| (m.name.clone(), node)));
        let graph = Graph {
            component: name("demo"),
            root: "demo".into(),
            nodes: nodes.collect(),
            edges: edges.map(edge).into(),
            not_after: None,
        };
        Closure { graph, chroot: "host".into(), pins: "stable".into(), members }
    }

    /// Replaces a member with another one of version 1.0.
    fn replace(&self, closure: &mut Closure, old: &str, new: &str) {
        let member = closure.members.remove(old).unwrap();
        let member = Member { name: new.into(), node: Some(self.node(new, "1.0")), ..member };
        closure.members.insert(new.into(), member);
    }

    fn generate(&self, closure: &Closure) -> Result<Generated, GenerateError> {
        let root = self.workspace.root();
        let workspace = rocmrpm::workspace::Workspace::load(&root, &Selection::default()).unwrap();
        let component = workspace.component("demo").unwrap();
        let offer = Offer {
            package: "python3-setuptools".into(),
            evr: "66".into(),
            version: None,
            requires: Requires::default(),
        };
        let offers = Offers::from_list([("setuptools".to_owned(), offer)]);
        let fetcher =
            Fetcher::new(Cache::at(self.workspace.cache()), &root, &Silent).index(self.index_url());
        files(&workspace, closure, component, &offers, &fetcher)
    }

    fn write(&self, generated: &Generated) {
        for (path, text) in &generated.files {
            self.workspace.write(path, text);
        }
    }

    /// Returns the only package of a component.
    fn rpm(&self, component: &str) -> PathBuf {
        let folder = self.workspace.built("results").join(component);
        let is_one = |name: &String| name.ends_with(".rpm") && !name.ends_with(".src.rpm");
        let names: Vec<String> = names_in(&folder).into_iter().filter(is_one).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        folder.join(&names[0])
    }

    /// Returns the provides or requires of a package, except those of rpm and libc.
    fn asked(&self, component: &str, what: &str) -> Vec<String> {
        let text = output(Command::new("rpm").args(["-qp", what]).arg(self.rpm(component)));
        let uninteresting = |line: &&str| {
            ["rpmlib(", "rtld(", "libc.so", "config("].iter().any(|begin| line.starts_with(begin))
        };
        let mut lines: Vec<String> = text
            .lines()
            .map(str::trim)
            .filter(|line| !uninteresting(line))
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines.dedup();
        lines
    }
}

fn python() -> String {
    output(Command::new(PYTHON).args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]))
        .trim()
        .to_owned()
}

#[test]
fn builds_and_runs_a_closure() {
    let fixture = BuildFixture::new();
    let closure = fixture.closure();
    let generated = fixture.generate(&closure).unwrap();
    assert_eq!(generated.gone, [""; 0]);
    fixture.write(&generated);
    // Generating again changes and removes nothing.
    assert_eq!(fixture.generate(&closure).unwrap(), generated);

    let workspace = &fixture.workspace;
    let ran = support::ran(workspace.command(&["build"]).env("PIP_INDEX_URL", fixture.index_url()));
    // Generated components give no wheels: they are on an index.
    ran.exits(0).reports(["Finished 4 built", "(1 wheel)"]);
    assert_eq!(names_in(&workspace.built("wheels")), ["demo"]);
    let lint = workspace.run(&["lint", "--chroot", "host"]);
    lint.exits(0);

    let python = python();
    let dist = |name: &str| format!("python{python}dist({name})");
    let isa = "(x86-64)";
    let requires = |component: &str| fixture.asked(component, "--requires");
    assert_eq!(
        requires("demo"),
        [
            format!("demo-runtime{isa} = 1.0"),
            format!("python(abi) = {python}"),
            dist("packaging"),
            // Debian's generator does not support extras: it requires the distribution itself.
            format!("{} >= 1", dist("pure-one")),
            "python3dist(native-one) >= 1".into(),
            "python3dist(pure-one) >= 1".into(),
        ]
    );
    assert_eq!(requires("pure-one"), [format!("python(abi) = {python}")]);
    assert_eq!(requires("native-one"), [format!("python(abi) = {python}")]);
    assert_eq!(
        requires("demo-runtime"),
        [
            format!("python(abi) = {python}"),
            "python3dist(packaging) >= 20".into(),
            "python3dist(pure-one) >= 1".into()
        ]
    );
    let provides = |component: &str| fixture.asked(component, "--provides");
    let evr = |component: &str, version: &str| {
        let release = output(
            Command::new("rpm").args(["-qp", "--qf", "%{RELEASE}"]).arg(fixture.rpm(component)),
        );
        format!("{version}-{release}")
    };
    let own = evr("native-one", "1.5");
    let mut native = [
        "bundled(deep) = 1.0".to_owned(),
        format!("python3-native-one = {own}"),
        format!("python3-native-one{isa} = {own}"),
        format!("{} = 1.5", dist("native-one")),
        "python3dist(native-one) = 1.5".to_owned(),
    ];
    native.sort();
    assert_eq!(provides("native-one"), native);
    let own = evr("demo-runtime", "1.0");
    let mut runtime = [
        "bundled(crate(ring)) = 0.17.14".to_owned(),
        "bundled(deep) = 1.0".to_owned(),
        "bundled(python3dist(private-native)) = 3".to_owned(),
        "bundled(python3dist(private-one)) = 2".to_owned(),
        format!("demo-runtime = {own}"),
        format!("demo-runtime{isa} = {own}"),
    ];
    runtime.sort();
    assert_eq!(provides("demo-runtime"), runtime);

    // Installed as far as possible without root.
    let root = workspace.holder().join("root");
    std::fs::create_dir(&root).unwrap();
    for component in ["demo", "demo-runtime", "native-one", "pure-one"] {
        let unpack = format!("rpm2cpio '{}' | cpio --quiet -idm", fixture.rpm(component).display());
        output(Command::new("sh").args(["-c", &unpack]).current_dir(&root));
    }
    let libdir = output(Command::new("rpm").args(["--eval", "%{_libdir}"])).trim().to_owned();
    let prefix = root.join(libdir.trim_start_matches('/')).join("demo");
    let sites: Vec<String> = ["lib", "lib64"]
        .map(|lib| root.join(format!("usr/{lib}/python{python}/site-packages")))
        .iter()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    let import = |interpreter: &Path, code: &str| {
        let mut command = Command::new(interpreter);
        command
            .args(["-B", "-c", code])
            .env("PYTHONPATH", sites.join(":"))
            .env_remove("PYTHONHOME");
        support::ran(&mut command)
    };
    let interpreter = prefix.join("bin/python3");
    assert_eq!(std::fs::read_link(&interpreter).unwrap(), Path::new("/usr/bin/python3"));
    let ran = import(
        &interpreter,
        "import demo; demo.main(); print(private_one.__cached__)"
            .replace("print(p", "print(demo.p")
            .as_str(),
    );
    ran.exits(0);
    assert!(ran.stdout.starts_with("private pure "), "{ran}");
    let site = prefix.join(format!("lib/python{python}/site-packages"));
    assert!(ran.stdout.contains(&site.join("hidden").to_string_lossy().into_owned()), "{ran}");
    let cached = ran.stdout.lines().last().unwrap();
    assert!(Path::new(cached).is_file(), "no bytecode: {ran}");
    let script = std::fs::read_to_string(root.join("usr/bin/demo")).unwrap();
    assert!(script.starts_with(&format!("#!{libdir}/demo/bin/python3 -s\n")), "{script}");
    // The system Python on a machine with the private prefix.
    let plain =
        "import os; os.path.exists = lambda path: path.endswith('/demo/bin/python3'); import demo";
    let ran = import(Path::new("/usr/bin/python3"), plain);
    let sentence = format!(
        "ImportError: demo runs in {libdir}/demo/bin/python3: this Python has other versions of what it requires"
    );
    ran.exits(1).reports([sentence]);

    // No file in a RECORD is missing or changed, and all licenses are present.
    let check = "import importlib.metadata as m, base64, hashlib, sys\n\
                 for dist in m.distributions(path=sys.argv[1:]):\n    \
                     for file in dist.files:\n        \
                         data = file.locate().read_bytes()\n        \
                         digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()\n        \
                         assert file.hash is None or file.hash.value == digest, file\n    \
                     print(dist.name)\n";
    let listed = output(Command::new(PYTHON).args(["-c", check]).arg(&site));
    let mut listed: Vec<&str> = listed.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, ["private-native", "private-one"]);
    assert!(!prefix.join("bin/private-one").exists());
    // With or without the version, depending on rpm's macro.
    let folders = root.join("usr/share/licenses");
    let folder =
        names_in(&folders).into_iter().find(|name| name.starts_with("demo-runtime")).unwrap();
    let licenses = folders.join(folder).join("licenses");
    assert_eq!(names_in(&licenses), ["private_native-3.0", "private_one-2.0"]);
    let modes = output(
        Command::new("rpm")
            .args(["-qp", "--qf", "[%{FILEMODES:perms} %{FILENAMES}\\n]"])
            .arg(fixture.rpm("demo-runtime")),
    );
    let below = modes.lines().filter(|line| line.contains("/demo/") && !line.starts_with('l'));
    let strange: Vec<&str> = below
        .filter(|line| {
            !["drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"].contains(&line.split(' ').next().unwrap())
        })
        .collect();
    assert_eq!(strange, [""; 0]);
}

#[test]
fn rejects_a_wheel_that_needs_cuda() {
    let fixture = BuildFixture::new();
    let mut closure = fixture.closure();
    fixture.replace(&mut closure, "native-one", "cuda-one");
    let error = fixture.generate(&closure).unwrap_err();
    let (text, help) = (error.to_string(), error.help().join("\n"));
    assert!(
        text.contains("links to libcudart.so.12, which is in neither host nor a member"),
        "{text}"
    );
    assert!(text.contains("`cuda-one`") && text.contains("cuda_one.cpython-"), "{text}");
    assert!(help.contains("`[libraries]` in mock-configs/"), "{help}");
}

#[test]
fn requires_only_what_packages_provide() {
    let fixture = BuildFixture::new();
    let mut closure = fixture.closure();
    fixture.replace(&mut closure, "private-one", "odd-one");
    let asking = Member {
        name: "asking".into(),
        node: Some(fixture.node("asking", "1.0")),
        ..closure.members["native-one"].clone()
    };
    closure.members.insert("asking".into(), asking);
    let error = fixture.generate(&closure).unwrap_err();
    let help = error.help().join("\n");
    assert!(
        error.to_string().contains("links to libdeep-0123abcd.so.1, which is in neither"),
        "{error}"
    );
    assert!(help.contains("`native-one`, which has it"), "{help}");
    let edge = |from: &str, to: &str| Edge {
        from: from.into(),
        to: to.into(),
        text: to.into(),
        specifiers: VersionSpecifiers::empty(),
        extra: false,
    };
    closure.graph.edges.extend([edge("asking", "native-one"), edge("demo", "asking")]);
    fixture.write(&fixture.generate(&closure).unwrap());
    let mut build = fixture.workspace.command(&["build", "asking", "demo-runtime"]);
    support::ran(build.env("PIP_INDEX_URL", fixture.index_url())).exits(0);
    let python = python();
    assert_eq!(
        fixture.asked("asking", "--requires"),
        [format!("python(abi) = {python}"), format!("python{python}dist(native-one)")]
    );
    // Its symbol version is omitted too: Fedora's libgomp has different ones.
    let runtime = fixture.asked("demo-runtime", "--requires");
    assert_eq!(runtime, ["libgomp.so.1()(64bit)".to_owned(), format!("python(abi) = {python}")]);
}

#[test]
fn rejects_sbom_of_another_wheel() {
    let fixture = BuildFixture::new();
    let mut closure = fixture.closure();
    fixture.replace(&mut closure, "private-native", "damaged");
    let error = fixture.generate(&closure).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot package `damaged`: its SBOM damaged-1.0.dist-info/sboms/private-native.cdx.json: \
         it is for private-native 3.0, but the wheel is damaged 1.0"
    );
    assert!(error.help()[0].contains("`bundled = ["), "{:?}", error.help());
}

#[test]
fn removes_runtime_after_the_last_private_member() {
    let fixture = BuildFixture::new();
    let mut closure = fixture.closure();
    fixture.write(&fixture.generate(&closure).unwrap());
    let runtime = "specs-templates/generated/stable/demo-runtime";
    assert!(fixture.workspace.path(runtime).is_dir());
    let version = |text: &str| text.matches("wheel = ").count();
    assert_eq!(version(&fixture.workspace.read("pins/stable.generated.toml")), 3);
    for private in ["private-one", "private-native"] {
        closure.members.get_mut(private).unwrap().place = MemberPlace::System;
    }
    let generated = fixture.generate(&closure).unwrap();
    assert_eq!(
        generated.gone,
        [format!("{runtime}/component.toml"), format!("{runtime}/demo-runtime.spec.tera")]
    );
    assert_eq!(version(&generated.files["pins/stable.generated.toml"]), 1);
    for path in &generated.gone {
        std::fs::remove_file(fixture.workspace.path(path)).unwrap();
    }
    std::fs::remove_dir(fixture.workspace.path(runtime)).unwrap();
    fixture.write(&generated);
    let spec = fixture.workspace.run(&["build", "demo", "--until", "spec"]);
    spec.exits(0);
    let spec = fixture.workspace.read("build/host/specs/python-demo.spec");
    assert!(!spec.contains("runtime") && !spec.contains("bin/python3 -s"), "{spec}");
    assert!(spec.contains("Without dropped-one: flying to 100%% of the moons."), "{spec}");
}

#[test]
fn names_unpackageable_members_with_help() {
    let fixture = BuildFixture::new();
    let mut closure = fixture.closure();
    let license = |closure: &mut Closure, member: &str, license: Option<&str>| {
        let node = closure.members.get_mut(member).unwrap().node.as_mut().unwrap();
        node.about.license = license.map(str::to_owned);
    };
    license(&mut closure, "pure-one", None);
    let error = fixture.generate(&closure).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot package `pure-one`: its metadata does not state its license"
    );
    assert!(error.help()[0].contains("`license = \"SPDX\"`"), "{:?}", error.help());
    license(&mut closure, "private-one", Some("SSPL-1.0"));
    let error = fixture.generate(&closure).unwrap_err();
    assert_eq!(error.to_string(), "cannot package 2 members of the closure");
    assert!(
        error.details()[0].starts_with("private-one: `SSPL-1.0` is not a license"),
        "{:?}",
        error.details()
    );
    // The packager's values take precedence.
    let more = "\n[[closure.member]]\nname = \"pure-one\"\nlicense = \"BSD-3-Clause\"\n\
                from = \"sdist\"\nbuild-requires = [\"make >= 3\"]\nreason = \"its LICENSE\"\n";
    fixture.workspace.write("specs-templates/demo/component.toml", format!("{COMPONENT}{more}"));
    license(&mut closure, "private-one", Some("MIT"));
    let generated = fixture.generate(&closure).unwrap();
    let spec =
        &generated.files["specs-templates/generated/stable/pure-one/python-pure-one.spec.tera"];
    assert!(spec.contains("License:        BSD-3-Clause\n"), "{spec}");
    assert!(spec.contains("BuildRequires:  make >= 3\n"), "{spec}");
    // No source for the private package.
    let mut with_rust = closure.clone();
    fixture.replace(&mut with_rust, "private-one", "rust-one");
    let error = fixture.generate(&with_rust).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot package `rust-one`: its source is written in Rust, and the private package cannot \
         vendor its crates"
    );
    // A wheel with the name of another one.
    let wheel = closure.members.get_mut("native-one").unwrap();
    let LockedOrigin::Index { wheel: Some(file), .. } =
        &mut wheel.node.as_mut().unwrap().locked.origin
    else {
        panic!()
    };
    *file = fixture.file("liar", ".whl").unwrap();
    let error = fixture.generate(&closure).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`native-one`: cannot use the wheel liar-1.0-py3-none-any.whl: its METADATA is for private-one 2.0"
    );
}

#[test]
fn first_source_of_the_private_package_is_a_wheel() {
    let fixture = BuildFixture::new();
    let mut closure = fixture.closure();
    let mut member = closure.members["private-one"].clone();
    (member.name, member.node) = ("alone".into(), Some(fixture.node("alone", "0.5")));
    closure.members.insert(member.name.clone(), member);
    let pins = &fixture.generate(&closure).unwrap().files["pins/stable.generated.toml"];
    let pin = &pins[pins.find("[demo-runtime]").unwrap()..];
    assert!(
        pin.starts_with("[demo-runtime]\nversion = \"1.0\"\nwheel = \"private_native-3.0-"),
        "{pins}"
    );
    assert!(
        pin.contains("[demo-runtime.sources.alone]\nversion = \"0.5\"\nsdist = \"alone\"\n"),
        "{pins}"
    );
    // Its package has the version of another distribution, which would be used to find the source
    // distribution.
    closure.members.retain(|name, _| !name.starts_with("private-"));
    let error = fixture.generate(&closure).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot package `alone`: no private member has a wheel, but the private package needs one"
    );
}

#[test]
fn uses_wheels_of_private_rust_members() {
    let fixture = BuildFixture::new();
    let decided = "\n[[closure.member]]\nname = \"rust-two\"\nfrom = \"sdist\"\nreason = \"where it is an RPM\"\n";
    fixture.workspace.write("specs-templates/demo/component.toml", format!("{COMPONENT}{decided}"));
    let mut closure = fixture.closure();
    fixture.replace(&mut closure, "private-one", "rust-two");
    let generated = fixture.generate(&closure).unwrap();
    let pins = &generated.files["pins/stable.generated.toml"];
    assert!(pins.contains("wheel = \"rust_two-1.0-cp"), "{pins}");
    assert!(!pins.contains("cargo-vendor"), "{pins}");
}

#[test]
fn warns_about_a_build_without_its_closure() {
    let fixture = BuildFixture::new();
    fixture.write(&fixture.generate(&fixture.closure()).unwrap());
    let warning = "the Python closure of `demo` is not written for pin set `stable` on host";
    fixture.workspace.run(&["plan"]).exits(0).reports([warning]);
    fixture.workspace.run(&["plan", "pure-one"]).exits(0).never_reports(warning);
    fixture.workspace.write("pins/stable.requirements.lock", "");
    fixture.workspace.run(&["plan"]).exits(0).never_reports(warning);
}

#[test]
fn shows_mistakes_in_generated_files() {
    let fixture = BuildFixture::new();
    fixture.write(&fixture.generate(&fixture.closure()).unwrap());
    let toml = "specs-templates/generated/stable/pure-one/component.toml";
    fixture.workspace.replace(toml, "generated = \"demo\"", "generated = \"dome\"");
    fixture.workspace.run(&["plan"]).exits(3).reports(["`dome` has no `[closure]` table", toml]);
    fixture.workspace.replace(toml, "generated = \"dome\"", "");
    fixture
        .workspace
        .run(&["plan"])
        .exits(3)
        .reports(["a generated component needs `generated = \"COMPONENT\"`"]);
    std::fs::remove_dir_all(fixture.workspace.path("specs-templates/generated/stable/pure-one"))
        .unwrap();
    fixture
        .workspace
        .run(&["plan"])
        .exits(3)
        .reports(["unknown component `pure-one`", "pins/stable.generated.toml"]);
}
