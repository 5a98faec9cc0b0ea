//! `rocmrpm lint`: components of a workspace, other specs, package tables, repositories.

use crate::support::{REPOSITORY, Workspace};
use rocmrpm::process::Command;

/// Returns a workspace with a component whose spec has most of the mistakes that lint finds.
fn workspace() -> Workspace {
    let workspace = Workspace::with(&[
        (
            "rocmrpm.toml",
            "[stack]\nname = \"t\"\ngpu-targets = [\"gfx1151\"]\ndefault-chroot = \"c\"\ndefault-pins = \"p\"\n",
        ),
        ("pins/p.toml", "[demo]\nversion = \"1.0\"\npath = \"src/demo\"\n"),
        ("src/demo/setup.py", "import os\nos.environ.get('DEMO_WITH_LLD')\n"),
        (
            "mock-configs/c.toml",
            "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\nrocm-provider = \"r\"\n\
             base-config = \"c.cfg\"\npackages = [\"t\"]\n",
        ),
        ("mock-configs/rocm/r.toml", "prefix = \"/usr\"\nversion = \"7.1\"\n"),
        (
            "mock-configs/packages/t.tsv",
            "# A table.\ncmake\t3.31.6\nzlib-devel\t1.3\tzlib-ng-compat-devel\npython3-numpy\t2.3\n",
        ),
        ("specs-templates/demo/component.toml", ""),
        ("specs-templates/demo/0001-x.patch", "Subject: [PATCH] x\n\nOrigin: own\n---\n x | 1 +\n"),
        ("specs-templates/demo/demo.spec.tera", SPEC),
    ]);
    workspace.commit("Begin");
    workspace
}

const SPEC: &str = "\
%global want 3.20
Name:           demo
Version:        <{ version }>
Release:        <{ release }>
Summary:        Demo
License:        MIT
Source0:        <{ source_url }>
<@ for patch in patches @>Patch:          <{ patch }>
<@ endfor @>BuildRequires:  cmake >= %{want}
BuildRequires:  zlib-devel, python3dist(numpy) >= 2
BuildRequires:  no-such-thing
%if 0%{?fedora} > 43
BuildRequires:  not-asked-for
%endif
Requires:       lost

%description
Demo.

%package libs
Summary:        Libraries
Requires:       /usr/bin/demo

%description libs
Demo.

%prep
%autosetup -n <{ source_dir }>
sed -i s/a/b/ setup.py

%build
export DEMO_WITH_LD=ON
export DEMO_WITH_LLD=ON
export TARGET=gfx1030
curl -O https://example.org/x

%install
export DEMO_WITH_LLD=OFF
ls /opt/rocm

%files libs

%changelog
<{ changelog }>
";

#[test]
fn finds_each_mistake_at_its_line() {
    let workspace = workspace();
    let ran = workspace.run(&["lint", "--json"]);
    ran.exits(1);
    let document = ran.document("rocmrpm/lint/2");
    assert_eq!((&document["chroot"], &document["pins"]), (&"c".into(), &"p".into()));
    assert_eq!(document["specs"][0]["source_read"], true);
    let mut found: Vec<String> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| {
            let text = |key: &str| f[key].as_str().unwrap();
            format!(
                "{} {} {}:{} {}",
                text("severity"),
                text("id"),
                text("file"),
                f["line"],
                text("found")
            )
        })
        .collect();
    found.sort();
    let spec = "build/c/specs/demo.spec";
    let template = "specs-templates/demo/demo.spec.tera";
    let expected = [
        "error exports-differ SPEC:38 DEMO_WITH_LLD=`OFF` in %install".to_owned(),
        "error network-in-build SPEC:35 `curl` in %build".to_owned(),
        "error opt-rocm-in-usr SPEC:39 ls /opt/rocm".to_owned(),
        "error patch-undocumented 0001-x.patch:null no Drop-When".to_owned(),
        "error requirement-missing SPEC:11 BuildRequires: no-such-thing".to_owned(),
        "error requires-without-files SPEC:15 requires: lost in `demo`, which has no %files".to_owned(),
        "error sed-silent SPEC:29 sed in place in %prep: sed -i s/a/b/ setup.py".to_owned(),
        "info requirement-unchecked SPEC:22 /usr/bin/demo".to_owned(),
        "warning export-unread SPEC:32 `DEMO_WITH_LD` exported in %build, but not used in upstream's source"
            .to_owned(),
        "warning export-unread SPEC:34 `TARGET` exported in %build, but not used in upstream's source"
            .to_owned(),
        format!("warning gpu-list-fixed {template}:34 gfx1030"),
    ]
    .map(|line| line.replace("SPEC", spec));
    let rendered = workspace.read(spec);
    similar_asserts::assert_eq!(found, expected, "{rendered}");
    let text = workspace.run(&["lint"]);
    text.exits(1);
    text.prints([
        "error[sed-silent]: build/c/specs/demo.spec:29",
        "7 errors, 3 warnings in 1 spec",
    ]);
}

#[test]
fn waived_findings_are_not_errors() {
    let workspace = workspace();
    let waive = |rule: &str| format!("[[lint.waive]]\nrule = \"{rule}\"\nreason = \"known\"\n");
    let rules = [
        "exports-differ",
        "network-in-build",
        "opt-rocm-in-usr",
        "patch-undocumented",
        "requirement-missing",
        "requires-without-files",
        "sed-silent",
        "hsa-override",
    ];
    workspace.write("specs-templates/demo/component.toml", rules.map(waive).concat());
    workspace.run(&["lint"]).exits(0).prints([
        "waived[sed-silent]: build/c/specs/demo.spec:29",
        "a waiver of `hsa-override` that matches no finding",
        "0 errors, 4 warnings in 1 spec",
    ]);
    workspace.write("specs-templates/demo/component.toml", waive("sed-silnt"));
    workspace
        .run(&["lint"])
        .exits(3)
        .reports(["unknown rule `sed-silnt`", "did you mean `sed-silent`?"]);
}

#[test]
fn checks_other_specs_for_a_chroot() {
    let workspace = workspace();
    let spec = "Name: x\nVersion: 1\nRelease: 1\nSummary: x\nLicense: MIT\n%description\nx\n%build\n\
                export TRITON_BUILD_WITH_CLANG_LD=ON\n%files\n";
    workspace.write("x.spec", spec);
    workspace
        .run(&["lint", "--spec", "x.spec"])
        .exits(0)
        .prints(["0 errors, 0 warnings in 1 spec"]);
    workspace.write("source/setup.py", "check_env_flag('TRITON_BUILD_WITH_CLANG_LLD')");
    workspace
        .run(&["lint", "--spec", "x.spec", "--source", "source"])
        .exits(0)
        .prints(["warning[export-unread]: x.spec:9", "such as `TRITON_BUILD_WITH_CLANG_LLD`"]);
    // Its packages may require each other, and it may include files beside it.
    workspace.write("macros.inc", "%global own 7\n");
    let subpackage = "Source0: macros.inc\n%include %{SOURCE0}\n%description\nx\n%package sub\nSummary: x\n\
                      Requires: x(x86-64) = %{version}\n%description sub\nx\n%prep\nsed -i s/a/%{own}/ upstream\n";
    workspace
        .write("x.spec", &(spec.replacen("%description\nx\n", subpackage, 1) + "%files sub\n"));
    workspace.run(&["lint", "--spec", "x.spec"]).exits(0).prints([
        "info[sed-silent]: x.spec:16",
        "sed -i s/a/7/ upstream",
        "0 errors, 0 warnings in 1 spec",
    ]);
    // Fedora's macros work on other distributions.
    let python = spec.replacen(
        "%description",
        "BuildRequires: %{py3_dist not_There cmake}\n%description",
        1,
    );
    workspace.write("x.spec", &python);
    workspace
        .run(&["lint", "--spec", "x.spec"])
        .exits(1)
        .prints(["error[requirement-missing]: x.spec:6", "python3dist(not-there)"]);
    // So does the notation of newer rpm.
    let newer = "%global goipath example.org/x/y\n%gometa -L -f\nName: x\nVersion: %{sub 1.2.3 1 3}\n\
                 Release: %autorelease -e 4fea77f\nSummary: x\nLicense: MIT\nBuildSystem: cmake\n\
                 BuildOption(prep): -n x\n%description\nx\n%gopkg\n%prep\n%autosetup -C\n%build -p\ncurl x\n\
                 %build -a\n/opt/rocm/bin/x\n%files\n%gopkgfiles\n";
    workspace.write("x.spec", newer);
    workspace.run(&["lint", "--spec", "x.spec"]).exits(1).prints([
        "error[network-in-build]: x.spec:16",
        "error[opt-rocm-in-usr]: x.spec:18",
        "2 errors, 0 warnings in 1 spec",
    ]);
    workspace.write("x.spec", &python);
    workspace.write("bad.spec", "Name: x\n%if 1\n");
    workspace
        .run(&["lint", "--spec", "bad.spec"])
        .exits(3)
        .reports(["rpmspec cannot parse `bad.spec`", "run rocmrpm in a container of the release"]);
    workspace.run(&["lint", "--spec", "none.spec"]).exits(20).reports(["cannot read `none.spec`"]);
    workspace
        .run(&["lint", "--spec", "x.spec", "--source", "none"])
        .exits(20)
        .reports(["cannot read `none`"]);
}

#[test]
fn reports_missing_and_invalid_tables() {
    let workspace = workspace();
    workspace.write("mock-configs/packages/t.tsv", "cmake 3\n");
    workspace
        .run(&["lint"])
        .exits(3)
        .reports(["line 1 of the package table `mock-configs/packages/t.tsv`"]);
    fs_err::remove_file(workspace.path("mock-configs/packages/t.tsv")).unwrap();
    workspace
        .run(&["lint"])
        .exits(3)
        .reports(["cannot read the package table `mock-configs/packages/t.tsv`"]);
    workspace.replace("mock-configs/c.toml", "packages = [\"t\"]\n", "");
    workspace.run(&["lint"]).exits(1).prints(["the chroot `c` has no package table"]);
}

/// Queries a repository of one package with dnf.
#[test]
fn queries_live_repositories() {
    let workspace = workspace();
    let spec = "Name: no-such-thing\nVersion: 2\nRelease: 1\nSummary: x\nLicense: MIT\nBuildArch: noarch\n\
                Provides: cmake = 4, zlib-devel = 2, python3dist(numpy) = 3, /usr/bin/demo\n%description\nx\n%files\n";
    workspace.write("repo.spec", spec);
    let top = format!("_topdir {}", workspace.path("top").display());
    let run = |command: Command| {
        command.text().unwrap_or_else(|e| panic!("{e} (packages: rpm, createrepo-c)"))
    };
    let rpmbuild = Command::new("rpmbuild").args(["-bb", "--define", &top]).runs_code_of_tests();
    run(rpmbuild.arg(workspace.path("repo.spec")));
    let repo = workspace.path("top/RPMS/noarch");
    run(Command::new("createrepo_c").arg("-q").arg(&repo));
    let chroot = workspace.read("mock-configs/c.toml");
    let with = |url: &str| format!("{chroot}[[repositories]]\nid = \"r\"\nurl = \"{url}\"\n");
    workspace.write("mock-configs/c.toml", with(&format!("file://{}", repo.display())));
    let document = workspace.run(&["lint", "--live", "--json"]).exits(1).document("rocmrpm/lint/2");
    let missing = |document: &serde_json::Value| {
        let findings = document["findings"].as_array().unwrap().clone();
        findings.iter().filter(|f| f["id"].as_str().unwrap().starts_with("requirement-")).count()
    };
    assert_eq!(missing(&document), 0, "{document:#}");
    let replaced = workspace
        .read("specs-templates/demo/demo.spec.tera")
        .replace("global want 3.20", "global want 5");
    workspace.write("specs-templates/demo/demo.spec.tera", &replaced);
    let document = workspace.run(&["lint", "--live", "--json"]).exits(1).document("rocmrpm/lint/2");
    assert_eq!(missing(&document), 1, "{document:#}");
    workspace.write("mock-configs/c.toml", with("file:///nonexistent"));
    workspace
        .run(&["lint", "--live"])
        .exits(20)
        .reports(["dnf", "omit `--live` to use the package tables"]);
}

/// Checks the package tables of this repository.
#[test]
fn committed_package_tables_cover_the_stack() {
    let workspace = Workspace::copy_of("");
    let table = |name: &str| {
        fs_err::read_to_string(format!("{REPOSITORY}/mock-configs/packages/{name}.tsv")).unwrap()
    };
    let has =
        |table: &str, name: &str| table.lines().any(|line| line.split('\t').next() == Some(name));
    for release in ["43", "44", "45"] {
        let table = table(&format!("fedora-{release}"));
        for name in [
            "cmake",
            "gcc-c++",
            "kernel-devel",
            "python3-devel",
            "zlib-devel",
            "xz-devel",
            "python3-torch",
        ] {
            assert!(has(&table, name), "{name} in {release}");
        }
        assert!(
            table
                .lines()
                .all(|line| line.starts_with('#') || (2..=3).contains(&line.split('\t').count()))
        );
    }
    // The table of a provider has all packages that the provider names.
    let providers = [
        ("amdrocm", "amdrocm-7.14"),
        ("fedora-43", "fedora-43"),
        ("fedora-44", "fedora-44"),
        ("fedora-45", "fedora-45"),
    ];
    for (provider, of) in providers {
        let table = table(of);
        let text = workspace.read(format!("mock-configs/rocm/{provider}.toml"));
        let mut names = 0;
        for line in
            text.lines().filter(|line| line.starts_with("runtime =") || line.starts_with("devel ="))
        {
            let name = line.split('"').nth(1).unwrap();
            for gpu in ["gfx1100", "gfx1151", "gfx1201", "gfx942"] {
                let name = name.replace("{gpu-target}", gpu);
                assert!(has(&table, &name), "{name} of {provider} is not in {of}");
            }
            names += 1;
        }
        assert!(names > 40, "{provider}: {names}");
    }
}
