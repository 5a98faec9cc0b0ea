//! Tests the proof that packages can be installed, for RPMs packed by rpmbuild from wheels on a
//! local index, for new builds, and before publishing. Offline; needs rpmbuild, createrepo_c and
//! gcc.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use crate::support::{Parts, Transcript, Workspace, names_in, ran};
use rocmrpm::digest::Sha256;
use rocmrpm::error::{Diagnose, Kind};
use rocmrpm::events::Silent;
use rocmrpm::proof::{Basis, NotInstallable, Proof, prove};
use rocmrpm::sources::{Cache, Fetcher};
use rocmrpm::stack::Stack;
use rocmrpm::trust::trust_in_this_process;
use rocmrpm::workspace::Selection;

const CHROOT: &str = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
    rocm-provider = \"host\"\nbase-config = \"f.cfg\"\npackages = [\"t\"]\n\
    [symbol-versions]\nGLIBC = \"2.99\"\n";

/// Contents of the specs generated for the first closure: `near` does not provide its library, and
/// `demo-runtime` does not exclude other members' libraries.
const HEAD: &str = "Version:        <{ version }>\nRelease:        <{ release }>\nSummary:        A member\n\
    License:        MIT\nURL:            https://example.com/\n<{ source_lines }>\nExclusiveArch:  x86_64\n\
    BuildRequires:  nothing-that-is-installed\n";

const NEAR: &str = "\n%description\nA member.\n\n%package -n python3-near\nSummary: A member\n\
    \n%description -n python3-near\nA member.\n\n%prep\nfalse\n\n%install\nfalse\n\n\
    %files -n python3-near -f %{pyproject_files}\n\n%changelog\n<{ changelog }>\n";

const RUNTIME: &str = "Requires:       python3dist(near) >= 1\n\n%description\nMembers.\n\n%prep\nfalse\n\n\
    %install\nfalse\n\n%files\n%{prefix}\n\n%changelog\n<{ changelog }>\n";

fn gcc(from: &str, to: &Path, more: &[&str]) {
    let source = to.with_extension("c");
    std::fs::write(&source, from).unwrap();
    ran(Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(to).arg(&source).args(more))
        .exits(0);
}

/// Adds a wheel with one library to the index and returns its pin.
fn wheel(index: &Path, name: &str, inside: &str, library: &Path) -> String {
    let file = format!("{name}-1.0-cp314-cp314-linux_x86_64.whl");
    let folder = index.join("simple").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let mut archive = zip::ZipWriter::new(std::fs::File::create(folder.join(&file)).unwrap());
    let info = format!("{name}-1.0.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n");
    let programs = format!("[console_scripts]\n{name} = {name}:main\n");
    let library = std::fs::read(library).unwrap();
    for (path, bytes) in [
        (format!("{info}/METADATA"), metadata.as_bytes()),
        (format!("{info}/entry_points.txt"), programs.as_bytes()),
        (inside.to_owned(), &library),
    ] {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(0o755);
        archive.start_file(path, options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
    let digest = Sha256::of_file(&folder.join(&file)).unwrap().0;
    std::fs::write(
        folder.join("index.html"),
        format!("<a href=\"{file}#sha256={digest}\">{file}</a>"),
    )
    .unwrap();
    format!("version = \"1.0\"\nwheel = \"{file}\"\nsha256 = \"{digest}\"\n")
}

/// A workspace whose closure has a package with a library, and a private package that needs it.
struct ProofFixture {
    workspace: Workspace,
    index: PathBuf,
}

impl ProofFixture {
    fn new() -> Self {
        let workspace = Workspace::new();
        let index = workspace.holder().join("index");
        let library = |name: &str| workspace.holder().join(name);
        gcc("int near(void) { return 7; }\n", &library("libnear.so"), &["-Wl,-soname,libnear.so"]);
        gcc(
            "int gomp(void) { return 7; }\n",
            &library("libgomp.so"),
            &["-Wl,-soname,libgomp.so.1.0.0"],
        );
        let user = "int near(void);\nint gomp(void);\nint user(void) { return near() + gomp(); }\n";
        let link =
            [library("libnear.so"), library("libgomp.so")].map(|path| path.display().to_string());
        gcc(user, &library("libuser.so"), &[&link[0], &link[1]]);
        let near = wheel(&index, "near", "near/libnear.so", &library("libnear.so"));
        let user = wheel(&index, "user", "user/libuser.so", &library("libuser.so"));
        workspace.component("demo", &Parts::default());
        workspace.write("specs-templates/demo/component.toml", "[closure]\n");
        workspace.write("mock-configs/f.toml", CHROOT);
        workspace.write("mock-configs/packages/t.tsv", "glibc\t2.42\npython3\t3.14.0\n");
        workspace.write(
            "pins/stable.f.generated.toml",
            format!("[near]\n{near}\n[demo-runtime]\n{user}"),
        );
        let generated = |name: &str, spec: String| {
            let folder = format!("specs-templates/generated/stable.f/{name}");
            workspace.write(format!("{folder}/component.toml"), "generated = \"demo\"\n");
            workspace.write(format!("{folder}/{name}.spec.tera"), spec);
        };
        let exclude = "%global __provides_exclude_from ^%{python3_sitearch}/.*\\\\.so.*$\n";
        generated("near", format!("{exclude}Name:           python-near\n{HEAD}{NEAR}"));
        let site = "%global prefix %{_libdir}/demo\n\
                    %global site %{prefix}/lib/python%{python3_version}/site-packages\n\
                    %global __provides_exclude_from ^%{prefix}/.*$\n\
                    %global __requires_exclude_from ^%{site}/[^/]+\\\\.dist-info.*$\n";
        generated("demo-runtime", format!("{site}Name:           demo-runtime\n{HEAD}{RUNTIME}"));
        workspace
            .write("specs-templates/generated/stable.f/closure.toml", "private = [\"user\"]\n");
        Self { workspace, index }
    }

    fn prove(&self) -> Result<Proof, rocmrpm::error::Error> {
        let root = self.workspace.root();
        trust_in_this_process(root.clone());
        let selection = Selection { chroot: Some("f".into()), ..Selection::default() };
        let workspace = rocmrpm::workspace::Workspace::load(&root, &selection)?;
        let stack = Stack::new(&workspace)?;
        let index = format!("file://{}/simple", self.index.display());
        let fetcher = Fetcher::new(Cache::at(self.workspace.cache()), &root, &Silent).index(index);
        prove(&stack, None, &fetcher, &Silent)
    }
}

#[test]
fn names_package_file_and_missing_library() {
    let fixture = ProofFixture::new();
    let proof = fixture.prove().unwrap();
    let bases: Vec<(&str, Basis, bool)> = proof
        .components
        .iter()
        .map(|packed| (packed.component.as_str(), packed.basis, packed.fresh))
        .collect();
    let expected = [
        ("demo-runtime", Basis::Wheels, true),
        ("near", Basis::Wheels, true),
        ("demo", Basis::Spec, true),
    ];
    assert_eq!(bases, expected);
    let found = "found in /usr/lib64/demo/lib/python3.14/site-packages/user/libuser.so";
    let unmet: Vec<String> = proof.findings.unmet.iter().map(ToString::to_string).collect();
    assert_eq!(
        unmet,
        [
            format!(
                "demo-runtime requires libgomp.so.1.0.0()(64bit), {found}: no package of f, its ROCm provider or \
                 the stack provides it"
            ),
            format!(
                "demo-runtime requires libnear.so()(64bit), {found}: python3-near has \
                 /usr/lib64/python3.14/site-packages/near/libnear.so, but does not provide it"
            ),
        ]
    );
    let error = NotInstallable::of(&proof.findings, "the stack", "f").unwrap_err();
    assert_eq!(error.to_string(), "2 requirements of the stack are not provided on `f`");
    assert_eq!((error.kind(), error.help().len()), (Kind::Findings, 1));

    // Unchanged packages are not packed again, and the result is the same.
    let again = fixture.prove().unwrap();
    assert!(again.components.iter().all(|packed| !packed.fresh));
    assert_eq!(again.findings, proof.findings);

    // Fix one filter and add the other library to the release: one package is packed again.
    let spec = "specs-templates/generated/stable.f/demo-runtime/demo-runtime.spec.tera";
    fixture.workspace.replace(
        spec,
        "%global prefix",
        "%global __requires_exclude ^libnear\n%global prefix",
    );
    fixture.workspace.write(
        "mock-configs/f.toml",
        format!("{CHROOT}[libraries]\n\"libgomp.so.1.0.0\" = \"gomp\"\n"),
    );
    let fixed = fixture.prove().unwrap();
    assert_eq!(fixed.findings.unmet, []);
    let fresh: Vec<&str> = fixed
        .components
        .iter()
        .filter(|packed| packed.fresh)
        .map(|packed| packed.component.as_str())
        .collect();
    assert_eq!(fresh, ["demo-runtime"]);

    // Require a member that no longer exists.
    fixture.workspace.replace(spec, "python3dist(near) >= 1", "python3dist(near) >= 2");
    let unmet = fixture.prove().unwrap().findings.unmet;
    let unmet: Vec<String> = unmet.iter().map(ToString::to_string).collect();
    assert_eq!(
        unmet,
        [
            "demo-runtime requires python3dist(near) >= 2: python3-near provides python3dist(near) = 1"
        ]
    );
}

#[test]
fn reports_file_conflicts() {
    let fixture = ProofFixture::new();
    let far = wheel(
        &fixture.index,
        "far",
        "near/libnear.so",
        &fixture.workspace.holder().join("libgomp.so"),
    );
    let pins = fixture.workspace.read("pins/stable.f.generated.toml");
    fixture.workspace.write("pins/stable.f.generated.toml", format!("{pins}\n[far]\n{far}"));
    let generated = "specs-templates/generated/stable.f";
    let spec = fixture.workspace.read(format!("{generated}/near/near.spec.tera"));
    let spec = spec.replace("python-near", "python-far").replace("python3-near", "python3-far");
    fixture.workspace.write(format!("{generated}/far/component.toml"), "generated = \"demo\"\n");
    fixture.workspace.write(format!("{generated}/far/far.spec.tera"), spec);
    let findings = fixture.prove().unwrap().findings;
    let file = "/usr/lib64/python3.14/site-packages/near/libnear.so";
    let expected = format!("python3-far and python3-near both have {file}");
    assert_eq!(findings.conflicts.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    let error = NotInstallable::of(&findings, "the stack", "f").unwrap_err();
    assert!(error.details().iter().any(|line| line.contains("both have")), "{:?}", error.details());
}

#[test]
fn rejects_damaged_wheels_and_specs_without_leftovers() {
    let fixture = ProofFixture::new();
    let spec = "specs-templates/generated/stable.f/near/near.spec.tera";
    fixture.workspace.replace(spec, "License:        MIT\n", "");
    let error = fixture.prove().unwrap_err();
    assert_eq!(error.kind(), Kind::Build, "{error:?}");
    assert!(error.to_string().contains("near"), "{error}");
    let folder = fixture.workspace.cache().join("proof");
    let packed = if folder.exists() { names_in(&folder) } else { Vec::new() };
    fixture.workspace.replace(
        spec,
        "Summary:        A member\n",
        "Summary:        A member\nLicense:        MIT\n",
    );
    for file in
        names_in(&fixture.index.join("simple/near")).iter().filter(|file| file.ends_with(".whl"))
    {
        let path = fixture.index.join("simple/near").join(file);
        std::fs::write(&path, "damaged").unwrap();
    }
    let _ = std::fs::remove_dir_all(fixture.workspace.cache().join("sha256"));
    assert!(fixture.prove().is_err());
    assert!(packed.len() <= 2, "failed packages must not be kept: {packed:?}");
}

/// A package whose only library needs an adjacent library, which the package does not provide.
const HIDDEN: Parts<'_> = Parts {
    toml: "",
    preamble: "# arch\n%global __provides_exclude ^libnear\\\\.so\n%global _build_id_links none\n",
    prep: "",
    build: "echo 'int near(void) { return 7; }' > near.c\n\
            echo 'int near(void); int user(void) { return near(); }' > user.c\n\
            gcc -shared -fPIC -s -Wl,-soname,libnear.so -o libnear.so near.c\n\
            gcc -shared -fPIC -s -o libuser.so user.c -L. -lnear '-Wl,-rpath,$ORIGIN'",
    install: "mkdir -p %{buildroot}/usr/lib64/demo\ncp libnear.so libuser.so %{buildroot}/usr/lib64/demo",
    check: "",
    clean: "",
    files: "/usr/lib64/demo",
};

#[test]
fn rejects_uninstallable_builds() {
    let workspace = Workspace::new();
    workspace.component("demo", &HIDDEN);
    let refused = workspace.build();
    Transcript::block("docs/concepts/closure.md", "rocmrpm build")
        .assert_prints(&refused.exits(1).stderr);
    workspace.assert_nothing_of("demo");
    // With the filter, it is built and accepted.
    workspace.replace(
        &support::template("demo"),
        "%global _build_id",
        "%global __requires_exclude ^libnear\n%global _build_id",
    );
    workspace.build().exits(0);
    workspace.assert_whole("demo");
}

#[test]
fn requires_complete_sets_only_for_publishing() {
    let workspace = Workspace::new();
    workspace.replace(
        "mock-configs/host.toml",
        "rocm-provider",
        "packages = [\"t\"]\nrocm-provider",
    );
    workspace.write("mock-configs/packages/t.tsv", "glibc\t2.42\n");
    let one = Parts { preamble: "Requires: two = 1.0\n", ..Parts::default() };
    workspace.component("one", &one);
    workspace.component("two", &Parts::default());
    workspace.run(&["build", "one"]).exits(0);
    let to = workspace.holder().join("published").display().to_string();
    let refused = workspace.run(&["publish", "repository", &to]);
    refused.exits(1).reports([
        "1 requirement of the repository is not provided on `host`",
        "one requires two = 1.0: no package of host, its ROCm provider or the stack provides it",
    ]);
    assert!(!Path::new(&to).exists());
    workspace.build().exits(0);
    workspace.run(&["publish", "repository", &to, "--allow-dirty"]).exits(0);
}
