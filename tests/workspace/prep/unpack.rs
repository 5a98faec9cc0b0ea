//! `rocmrpm prep`.

use super::demo::{PREP, demo, patch, pin, source, spec};
use crate::support::Workspace;

const PATCH: &str = "--- a/dir/a b\t\n+++ b/dir/a b\t\n@@ -1 +1 @@\n-one\n+two\n";
const EDIT: &str = "[[edit]]\nfile = \"dir/a b\"\nfind = \"two\"\nreplace = \"it's @VERSION@ %{x} $y\"\nmatches = 1\n\
                    reason = \"why\"\n";

#[test]
fn patches_and_edits_sources_as_prep_does() {
    let workspace = demo(&[("dir/a b", "one\n"), ("other", "x\n")]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    patch(&workspace, "0002-not-for-this.patch", ">=2", PATCH);
    workspace.write("specs-templates/demo/component.toml", EDIT);
    let crates = source(&workspace, "more-2", &[("f", "further\n")]);
    workspace.replace(
        "pins/stable.toml",
        "[demo]",
        &format!("[demo.sources.more]\n{crates}[demo]"),
    );
    spec(&workspace, &PREP.replace("-p1", "-p1 -a 1"), "exit 1");
    let ran = workspace.run(&["prep", "demo"]);
    ran.exits(0).reports(["Prepared demo 1.0 (sources 2, patches 1, edits 1)"]);
    let folder = ran.stdout.trim().strip_prefix("[HOLDER]/workspace/").unwrap().to_owned();
    assert!(folder.starts_with("build/fedora-43/prep/demo/"), "{folder}");
    assert_eq!(workspace.read(format!("{folder}/dir/a b")), "it's 1.0 %{x} $y\n");
    assert_eq!(workspace.read(format!("{folder}/more-2/f")), "further\n");

    // The second run replaces the first.
    workspace.write(format!("{folder}/left"), "from the first run");
    let record =
        workspace.run(&["prep", "demo", "--json", "--offline"]).exits(0).document("rocmrpm/prep/1");
    assert_eq!(record["folder"], format!("[HOLDER]/workspace/{folder}"));
    assert_eq!(record["patches"].as_array().unwrap().len(), 1);
    assert_eq!(record["sources"][1]["file"], "more-2.tar.gz");
    assert!(!workspace.path(format!("{folder}/left")).exists());
}

#[test]
fn uses_macros_of_the_chroot() {
    let workspace = demo(&[("f", "x\n")]);
    spec(
        &workspace,
        &format!(
            "{PREP}\necho '%{{python3_version}} %{{fedora}} %{{?dist}} %{{python3_sitearch}}' > macros\nenv > environment"
        ),
        "",
    );
    let ran = workspace.outcome(
        workspace
            .command(&["prep", "demo"])
            .env("PIP_INDEX_URL", "http://127.0.0.1:9")
            .env("SECRET", "hidden"),
    );
    let folder = ran.exits(0).stdout.trim().replace("[HOLDER]/workspace/", "");
    assert!(
        workspace.read(format!("{folder}/macros")).starts_with("3.14 43 .fc43 /usr/lib"),
        "{}",
        workspace.read(format!("{folder}/macros"))
    );
    assert!(!workspace.read(format!("{folder}/environment")).contains("hidden"));
}

#[test]
fn failed_prep_is_explained_and_leaves_no_record() {
    let workspace = demo(&[("dir/a b", "one\n")]);
    workspace.run(&["prep", "demo"]).exits(0);
    let record = "build/fedora-43/prep/demo/prep.json";
    assert!(workspace.path(record).is_file());
    patch(&workspace, "0001-x.patch", "", &PATCH.replace("one", "ONE"));
    workspace.run(&["prep", "demo"]).exits(10).reports([
        "`demo` failed in %prep: a patch does not apply",
        "run `rocmrpm patch status` to see the hunk",
        "         Log [HOLDER]/workspace/build/fedora-43/prep/demo/logs/prep.log",
    ]);
    assert!(!workspace.path(record).exists());
    // An edit that does not match.
    fs_err::remove_file(workspace.path("specs-templates/demo/0001-x.patch")).unwrap();
    workspace.write("specs-templates/demo/component.toml", EDIT);
    workspace.run(&["prep", "demo"]).exits(10).reports([
        "an `[[edit]]` does not match as often as it declares",
        "dir/a b: expected 1 times, found 0 times: two",
    ]);
    // A source that no longer exists.
    pin(&workspace, "stable", "1.1", &[("x", "y")]);
    fs_err::remove_file(workspace.holder().join("demo-1.1.tar.gz")).unwrap();
    workspace.run(&["prep", "demo"]).exits(30);
    workspace.run(&["prep", "demos"]).exits(2).reports(["did you mean `demo`?"]);
}

#[test]
fn rejects_concurrent_runs() {
    let workspace = demo(&[("f", "x\n")]);
    spec(&workspace, &format!("{PREP}\nsleep 5"), "");
    let slow = workspace.command(&["prep", "demo"]);
    let root = workspace.root();
    let other = std::thread::spawn(move || {
        let started = std::time::Instant::now();
        // The slow run has unpacked when it sleeps.
        let unpacked = root.join("build/fedora-43/prep/demo/build/rpmbuild/BUILD");
        while !unpacked.is_dir() && started.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        let output = command
            .args(["prep", "demo"])
            .current_dir(&root)
            .env("ROCMRPM_TRUST", &root)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    });
    workspace.outcome(slow).exits(0);
    let (code, reported) = other.join().unwrap();
    assert_eq!(code, Some(20), "{reported}");
    assert!(reported.contains("another rocmrpm process is using"), "{reported}");
}

/// The template that `add` writes supports everything that a component can declare.
#[test]
fn new_component_supports_patches_edits_and_further_sources() {
    for (name, build_file, spec) in [
        ("lib", "CMakeLists.txt", "lib.spec.tera"),
        ("mod", "pyproject.toml", "python-mod.spec.tera"),
    ] {
        let workspace = Workspace::init();
        workspace
            .write(format!("src/{name}/{build_file}"), "[project]\nname = \"x\"\n# one\n# two\n");
        workspace.write("src/extra/data", "more\n");
        let path = format!("src/{name}");
        workspace.run(&["add", name, "--path", &path, "--version", "1.0"]).exits(0).reports([spec]);
        let pins = workspace.read("pins/stable.toml");
        workspace.write(
            "pins/stable.toml",
            format!("{pins}\n[{name}.sources.extra]\nversion = \"1.0\"\npath = \"src/extra\"\n"),
        );
        // Bytes that are not UTF-8 and a name with spaces must survive the shell.
        let edited = workspace.path(format!("src/{name}/a =b.txt"));
        fs_err::write(&edited, b"caf\xe9 one\none 'two' 100%\n").unwrap();
        let edit = "[[edit]]\nfile = \"a =b.txt\"\nfind = \"one\"\nreplace = \"it's 5% $HOME\"\nmatches = 2\n\
                    reason = \"x\"\n";
        workspace.write(format!("specs-templates/{name}/component.toml"), edit);
        workspace.write(
            format!("specs-templates/{name}/0001-x.patch"),
            format!(
                "Subject: [PATCH] x\n\nOrigin: own\nDrop-When: never\n---\n--- a/{build_file}\n+++ b/{build_file}\n\
                 @@ -3,2 +3,2 @@\n-# one\n+# ours\n # two\n"
            ),
        );
        let ran = workspace.run(&["prep", name]);
        ran.exits(0);
        let top = std::path::PathBuf::from(
            ran.stdout.trim().replace("[HOLDER]/workspace", workspace.root().to_str().unwrap()),
        );
        assert_eq!(
            fs_err::read(top.join("a =b.txt")).unwrap(),
            b"caf\xe9 it's 5% $HOME\nit's 5% $HOME 'two' 100%\n"
        );
        assert!(fs_err::read_to_string(top.join(build_file)).unwrap().contains("# ours\n# two"));
        let spec = workspace.read(format!(
            "build/fedora-43/prep/{name}/sources/{}",
            spec.trim_end_matches(".tera")
        ));
        assert!(spec.contains(&format!("\nSource1:        {name}-extra-1.0.tar.gz\n")), "{spec}");
    }
}
