//! `rocmrpm prep`.

use super::demo::{PREP, demo, patch, pin, source, spec};
use crate::common::Lab;

const PATCH: &str = "--- a/dir/a b\t\n+++ b/dir/a b\t\n@@ -1 +1 @@\n-one\n+two\n";
const EDIT: &str = "[[edit]]\nfile = \"dir/a b\"\nfind = \"two\"\nreplace = \"it's @VERSION@ %{x} $y\"\nmatches = 1\n\
                    reason = \"why\"\n";

#[test]
fn sources_are_patched_and_edited_as_prep_does() {
    let lab = demo(&[("dir/a b", "one\n"), ("other", "x\n")]);
    patch(&lab, "0001-x.patch", "", PATCH);
    patch(&lab, "0002-not-for-this.patch", ">=2", PATCH);
    lab.write("specs-templates/demo/component.toml", EDIT);
    let crates = source(&lab, "more-2", &[("f", "further\n")]);
    lab.replace("pins/stable.toml", "[demo]", &format!("[demo.sources.more]\n{crates}[demo]"));
    spec(&lab, &PREP.replace("-p1", "-p1 -a 1"), "exit 1");
    let ran =
        lab.run(&["prep", "demo"]).exits(0).says(&["Prepared demo 1.0 (sources 2, patches 1, edits 1)"]);
    let folder = ran.stdout.trim().strip_prefix("[LAB]/workspace/").unwrap().to_owned();
    assert!(folder.starts_with("build/fedora-43/prep/demo/"), "{folder}");
    assert_eq!(lab.read(&format!("{folder}/dir/a b")), "it's 1.0 %{x} $y\n");
    assert_eq!(lab.read(&format!("{folder}/more-2/f")), "further\n");

    // The second run replaces the first.
    lab.write(&format!("{folder}/left"), "from the first run");
    let record = lab.run(&["prep", "demo", "--json", "--offline"]).exits(0).json("rocmrpm/prep/1");
    assert_eq!(record["folder"], format!("[LAB]/workspace/{folder}"));
    assert_eq!(record["patches"].as_array().unwrap().len(), 1);
    assert_eq!(record["sources"][1]["file"], "more-2.tar.gz");
    assert!(!lab.path(&format!("{folder}/left")).exists());
}

#[test]
fn macros_are_the_chroots() {
    let lab = demo(&[("f", "x\n")]);
    spec(
        &lab,
        &format!(
            "{PREP}\necho '%{{python3_version}} %{{fedora}} %{{?dist}} %{{python3_sitearch}}' > macros\nenv > environment"
        ),
        "",
    );
    let ran = lab.outcome(
        lab.command(&["prep", "demo"]).env("PIP_INDEX_URL", "http://127.0.0.1:9").env("SECRET", "hidden"),
    );
    let folder = ran.exits(0).stdout.trim().replace("[LAB]/workspace/", "");
    assert!(
        lab.read(&format!("{folder}/macros")).starts_with("3.14 43 .fc43 /usr/lib"),
        "{}",
        lab.read(&format!("{folder}/macros"))
    );
    assert!(!lab.read(&format!("{folder}/environment")).contains("hidden"));
}

#[test]
fn failures_are_explained_and_leave_nothing_that_looks_whole() {
    let lab = demo(&[("dir/a b", "one\n")]);
    lab.run(&["prep", "demo"]).exits(0);
    let record = "build/fedora-43/prep/demo/prep.json";
    assert!(lab.path(record).is_file());
    patch(&lab, "0001-x.patch", "", &PATCH.replace("one", "ONE"));
    lab.run(&["prep", "demo"]).exits(10).says(&[
        "`demo` failed in %prep: a patch does not apply",
        "`rocmrpm patch status` tells which hunk",
        "to try again: ",
        " prep demo --chroot fedora-43 --pins stable",
        "the whole log: [LAB]/workspace/build/fedora-43/prep/demo/logs/prep.log",
    ]);
    assert!(!lab.path(record).exists());
    // And an edit.
    fs_err::remove_file(lab.path("specs-templates/demo/0001-x.patch")).unwrap();
    lab.write("specs-templates/demo/component.toml", EDIT);
    lab.run(&["prep", "demo"]).exits(10).says(&[
        "an edit of upstream's text does not match as often as declared",
        "dir/a b: expected 1 times, found 0 times: two",
    ]);
    // Sources that are not there any more.
    pin(&lab, "stable", "1.1", &[("x", "y")]);
    fs_err::remove_file(lab.dir().join("demo-1.1.tar.gz")).unwrap();
    lab.run(&["prep", "demo"]).exits(30);
    lab.run(&["prep", "demos"]).exits(2).says(&["did you mean `demo`?"]);
}

#[test]
fn two_runs_do_not_mix() {
    let lab = demo(&[("f", "x\n")]);
    spec(&lab, &format!("{PREP}\nsleep 5"), "");
    let slow = lab.command(&["prep", "demo"]);
    let workspace = lab.root();
    let other = std::thread::spawn(move || {
        let started = std::time::Instant::now();
        // The slow run has unpacked when it sleeps.
        let unpacked = workspace.join("build/fedora-43/prep/demo/build/rpmbuild/BUILD");
        while !unpacked.is_dir() && started.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        let output = command
            .args(["prep", "demo"])
            .current_dir(&workspace)
            .env("ROCMRPM_TRUST", &workspace)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    });
    lab.outcome(slow).exits(0);
    let (code, said) = other.join().unwrap();
    assert_eq!(code, Some(20), "{said}");
    assert!(said.contains("another rocmrpm is working in"), "{said}");
}

/// What `add` writes is enough for everything that a component can declare.
#[test]
fn a_new_component_takes_patches_edits_and_further_sources() {
    for (name, build_file, spec) in
        [("lib", "CMakeLists.txt", "lib-rocm.spec.tera"), ("mod", "pyproject.toml", "python-mod.spec.tera")]
    {
        let lab = Lab::init();
        lab.write(&format!("src/{name}/{build_file}"), "[project]\nname = \"x\"\n# one\n# two\n");
        lab.write("src/extra/data", "more\n");
        let path = format!("src/{name}");
        lab.run(&["add", name, "--path", &path, "--version", "1.0"]).exits(0).says(&[spec]);
        let pins = lab.read("pins/stable.toml");
        lab.write(
            "pins/stable.toml",
            &format!("{pins}\n[{name}.sources.extra]\nversion = \"1.0\"\npath = \"src/extra\"\n"),
        );
        // Bytes that are no UTF-8, a name with blanks: a shell has to take them as they are.
        let edited = lab.path(&format!("src/{name}/a =b.txt"));
        fs_err::write(&edited, b"caf\xe9 one\none 'two' 100%\n").unwrap();
        let edit = "[[edit]]\nfile = \"a =b.txt\"\nfind = \"one\"\nreplace = \"it's 5% $HOME\"\nmatches = 2\n\
                    reason = \"x\"\n";
        lab.write(&format!("specs-templates/{name}/component.toml"), edit);
        lab.write(
            &format!("specs-templates/{name}/0001-x.patch"),
            &format!(
                "Subject: [PATCH] x\n\nOrigin: own\nDrop-When: never\n---\n--- a/{build_file}\n+++ b/{build_file}\n\
                 @@ -3,2 +3,2 @@\n-# one\n+# ours\n # two\n"
            ),
        );
        let ran = lab.run(&["prep", name]).exits(0);
        let top = std::path::PathBuf::from(
            ran.stdout.trim().replace("[LAB]/workspace", lab.root().to_str().unwrap()),
        );
        assert_eq!(
            fs_err::read(top.join("a =b.txt")).unwrap(),
            b"caf\xe9 it's 5% $HOME\nit's 5% $HOME 'two' 100%\n"
        );
        assert!(fs_err::read_to_string(top.join(build_file)).unwrap().contains("# ours\n# two"));
        let spec =
            lab.read(&format!("build/fedora-43/prep/{name}/sources/{}", spec.trim_end_matches(".tera")));
        assert!(spec.contains(&format!("\nSource1:        {name}-extra-1.0.tar.gz\n")), "{spec}");
    }
}
