//! `rocmrpm render --for dist-git` and `rocmrpm patch compare`.

use std::collections::BTreeMap;
use std::path::Path;

use super::demo::{PREP, demo, lines, patch, pin, source, spec};
use crate::support::{self, FALLBACK_MACROS, Workspace, ran};

const PATCH: &str = "--- a/f\n+++ b/f\n@@ -8,5 +8,5 @@\n a 8\n a 9\n-a 10\n+ours\n a 11\n a 12\n";

const EDITS: &str = "[[edit]]\nfile = \"f\"\nfind = \"ours\"\nreplace = \"@PREFIX@ 100% \\\\d\"\nmatches = 1\n\
    reason = \"after the patch\"\ndrop-when = \"never\"\n\
    [[edit]]\nfile = \"f\"\nsource = \"more\"\nfind = \"further\"\nreplace = \"edited\"\nmatches = 2\nreason = \"twice\"\n\
    [[edit]]\nfile = \"latin\"\nfind = \"caf\"\nreplace = \"tea\"\nmatches = 1\nreason = \"no line feed at the end\"\n";

/// Returns a workspace whose component has a patch, a further source, and edits.
fn workspace() -> Workspace {
    let workspace = demo(&[("f", &lines(30, &[])), ("latin", "one\ncaf\u{e9}")]);
    // `prep` uses the chroot's provider.
    workspace.replace(
        "mock-configs/fedora-43.toml",
        "rocm-provider = \"amdrocm\"",
        "rocm-provider = \"fedora\"",
    );
    patch(&workspace, "0001-x.patch", "", PATCH);
    workspace.write("specs-templates/demo/component.toml", EDITS);
    let further = source(&workspace, "more-2", &[("f", "further\nx\nfurther\n")]);
    workspace.replace(
        "pins/stable.toml",
        "[demo]",
        &format!("[demo.sources.more]\n{further}[demo]"),
    );
    spec(&workspace, &PREP.replace("-p1", "-p1 -a 1"), "true");
    let template = workspace.read("specs-templates/demo/demo.spec.tera");
    let header = "<@ include \"_shared/header.tera\" @>\n<{ gpu_provides }>\n";
    workspace.write("specs-templates/demo/demo.spec.tera", header.to_owned() + &template);
    workspace
}

/// Returns the files below a folder by relative path.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = walkdir::WalkDir::new(dir).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file());
    files
        .map(|entry| {
            let path = entry.path().strip_prefix(dir).unwrap().to_string_lossy().into_owned();
            (path, fs_err::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn rpmbuild_prepares_the_package_like_prep() {
    let workspace = workspace();
    let rendered = workspace.run(&["render", "--for", "dist-git", "--json"]);
    let document = rendered.exits(0).document("rocmrpm/render-dist-git/1");
    let package = &document["packages"][0];
    let patches: Vec<&str> =
        package["patches"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(
        patches,
        [
            "0001-x.patch",
            "0002-after-the-patch.patch",
            "0003-twice.patch",
            "0004-no-line-feed-at-the-end.patch"
        ]
    );
    let folder = workspace.path("build/fedora-43/dist-git/demo");
    let names: Vec<String> = support::names_in(&folder);
    let own = [".gitignore", "demo-1.0.tar.gz", "demo.spec", "more-2.tar.gz", "sources"];
    let mut expected: Vec<String> = own.iter().chain(&patches).map(|n| (*n).to_owned()).collect();
    expected.sort();
    assert_eq!(names, expected);
    let text = fs_err::read_to_string(folder.join("demo.spec")).unwrap();
    assert!(text.starts_with("\nName: demo\n") || text.starts_with("Name: demo\n"), "{text}");
    for part in [
        "Release: %autorelease\n",
        "# after the patch\nPatch: 0002-after-the-patch.patch\n",
        "%changelog\n%autochangelog\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("rocm-gfx(") && !text.contains("Rendered by"), "{text}");
    let header = fs_err::read_to_string(folder.join(patches[1])).unwrap();
    let expected =
        "Subject: [PATCH] Edit f\n\nReason: after the patch\nOrigin: own\nDrop-When: never\n---\n";
    assert!(header.starts_with(expected), "{header}");

    // The real programs accept all of it.
    let parsed = support::rpmspec(&folder.join("demo.spec"), &["-P"]);
    assert!(parsed.contains("Release: 1.fc43"), "{parsed}");
    let check =
        "grep -v '^$' sources | sed 's/^SHA512 (\\(.*\\)) = \\(.*\\)/\\2  \\1/' | sha512sum -c";
    ran(std::process::Command::new("sh").args(["-c", check]).current_dir(&folder)).exits(0);
    let prep = workspace.run(&["prep", "demo"]);
    let prepared = prep.exits(0).stdout.trim().replace("[HOLDER]/workspace/", "");
    let top = workspace.holder().join("rpmbuild");
    let mut rpmbuild = std::process::Command::new("rpmbuild");
    rpmbuild.arg(format!(
        "--macros={FALLBACK_MACROS}:/usr/lib/rpm/macros:/usr/lib/rpm/macros.d/macros.*"
    ));
    for define in [
        format!("_topdir {}", top.display()),
        format!("_sourcedir {}", folder.display()),
        "dist .fc43".to_owned(),
    ] {
        rpmbuild.args(["--define", &define]);
    }
    ran(rpmbuild.args(["-bp", "--nodeps"]).arg(folder.join("demo.spec"))).exits(0);
    let built = tree(&top.join("BUILD/demo-1.0"));
    assert_eq!(built["f"].split(|b| *b == b'\n').nth(9).unwrap(), b"/usr 100% \\d");
    assert_eq!(built["latin"], "one\ntea\u{e9}\n".as_bytes());
    assert_eq!(built["more-2/f"], b"edited\nx\nedited\n");
    assert!(built == tree(&workspace.path(prepared)), "{:?}", built.keys());
}

#[test]
fn dist_git_needs_fedora_and_patches_that_apply() {
    let workspace = demo(&[("f", "x\n")]);
    let render = ["render", "--for", "dist-git", "demo"];
    workspace
        .run(&[&render[..], &["--chroot", "host"]].concat())
        .exits(3)
        .reports(["`host` is not a release of Fedora", "--chroot"]);
    workspace
        .run(&render)
        .exits(3)
        .reports(["ROCm of `amdrocm`, which is not in Fedora", "mock-configs/rocm/fedora-43.toml"]);
    // A provider with the name of the chroot is the release's own.
    let fedora = workspace.read("mock-configs/rocm/fedora.toml");
    workspace.write("mock-configs/rocm/fedora-43.toml", fedora);
    let edit =
        "[[edit]]\nfile = \"f\"\nfind = \"y\"\nreplace = \"z\"\nmatches = 1\nreason = \"r\"\n";
    workspace.write("specs-templates/demo/component.toml", edit);
    workspace
        .run(&render)
        .exits(3)
        .reports(["`y` occurs 0 times in `f`, not once", "rocmrpm patch status demo"]);
    workspace.write("specs-templates/demo/component.toml", edit.replace('y', "x"));
    spec(&workspace, &PREP.replace("%autosetup -p1", "%setup -q"), "true");
    workspace.run(&render).exits(3).reports(["does not apply patches", "%autosetup -p1"]);
    spec(&workspace, PREP, "true");
    workspace.run(&render).exits(0).reports(["(sources 1, patches 1)"]);
}

#[test]
fn compares_changes_with_those_of_another_spec() {
    let workspace = demo(&[("f", &lines(30, &[]))]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    let edits = "[[edit]]\nfile = \"setup.py\"\nfind = \"setuptools<60\"\nreplace = \"setuptools\"\nmatches = 1\n\
        reason = \"a\"\n[[edit]]\nfile = \"g\"\nfind = \"/opt/rocm\"\nreplace = \"@PREFIX@\"\nmatches = 1\nreason = \"b\"\n";
    workspace.write("specs-templates/demo/component.toml", edits);
    pin(&workspace, "stable", "1.0", &[("f", &lines(30, &[]))]);
    let theirs = workspace.holder().join("workspace/theirs");
    fs_err::create_dir_all(&theirs).unwrap();
    // Another name and another context, but the same change.
    let renamed = PATCH.replace("@@ -8,5 +8,5 @@\n a 8\n", "@@ -9,4 +9,4 @@\n");
    fs_err::write(theirs.join("fix.patch"), renamed).unwrap();
    let spec = "Name: demo\nVersion: 2.0\nRelease: %autorelease\nSummary: x\nLicense: MIT\nSource: demo.tar\nPatch1: fix.patch\n\
        Patch2: gone.patch\n%description\nx\n%prep\n%autosetup -p1\n\
        sed -i 's@setuptools<60@setuptools@' setup.py\nsed -i -e 's|/opt/rocm|/usr/lib64|' g\n\
        %if 0%{?rhel}\nsed -i /x/d never\n%endif\nsed -i -e 's/-Werror//' CMakeLists.txt\nrm -rf third_party\n\
        %changelog\n%autochangelog\n";
    fs_err::write(theirs.join("demo.spec"), spec).unwrap();
    let compare = ["patch", "compare", "demo", "--with", "theirs"];
    let text = workspace.run(&compare);
    text.exits(1).prints([
        "Only demo.spec 2.0: 1 change\n  CMakeLists.txt\n    demo.spec:18\n      - -Werror\n",
        "Only demo 1.0: 0 changes\n",
        "different ways: 1 change\n  g\n    demo.spec:14\n      - /opt/rocm\n      + /usr/lib64\n    an edit\n",
        "Both: 2 changes\n",
        "2 commands of demo.spec 2.0 not compared\n",
        "demo.spec:8: gone.patch is missing\n",
        "rm -rf third_party\n",
    ]);
    assert!(!text.stdout.contains("never"), "{}", text.stdout);
    let json = workspace.run(&[&compare[..], &["--json"]].concat());
    let json = json.exits(1).document("rocmrpm/patch-compare/1");
    assert_eq!(json["same"].as_array().unwrap().len(), 2);
    assert_eq!(json["only_ours"], serde_json::json!([]));
    fs_err::write(theirs.join("other.spec"), spec).unwrap();
    workspace.run(&compare).exits(2).reports(["`theirs` has 2 specs, not 1"]);
}
