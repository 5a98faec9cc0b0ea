//! `rocmrpm audit`.

use super::demo::{PREP, demo, source, spec};

const TOML: &str = "specs-templates/demo/component.toml";
const CMAKE: &str = "include(FetchContent)\nFetchContent_Declare(\n  cutlass\n  GIT_REPOSITORY https://example.org/cutlass)\n\
                     FetchContent_MakeAvailable(cutlass)\n";

#[test]
fn unsatisfied_download_shows_location_and_help() {
    let workspace = demo(&[
        ("CMakeLists.txt", CMAKE),
        ("setup.py", "print('pip install x')\n"),
        ("docs/a.sh", "curl -O x\n"),
    ]);
    let ran = workspace.run(&["audit", "demo"]);
    ran.exits(1).prints([
        "CMakeLists.txt:2: fetches https://example.org/cutlass (fetch-content)",
        "help: add it as a source of the pin and set FETCHCONTENT_SOURCE_DIR_<NAME>",
        "demo 1.0: 1 download point in 2 build scripts, 1 not satisfied",
    ]);
    assert!(!ran.stdout.contains("pip install"), "{}", ran.stdout);
    let json =
        workspace.run(&["audit", "demo", "--json"]).exits(1).document("rocmrpm/audit-offline/2");
    assert_eq!(json["points"][0]["line"], 2);
    assert!(json["points"][0]["satisfied"].is_null());
    // Builds leave out a component for other GPUs, but its sources can be examined.
    workspace.write(TOML, "gpu-targets = [\"gfx942\"]\noptional = true\n");
    let note = "note: builds leave `demo` out: upstream supports none of the workspace's GPU targets \
                (gfx1151); its spec here is for gfx942";
    workspace.run(&["audit", "demo"]).exits(1).reports([note]);
    workspace.run(&["prep", "demo"]).exits(0).reports([note, "Prepared demo 1.0"]);
}

#[test]
fn general_settings_satisfy_downloads() {
    let workspace = demo(&[
        ("CMakeLists.txt", CMAKE),
        ("docs/a.sh", "curl -O x\n"),
        ("rust/Cargo.lock", "source = \"registry+x\"\n"),
    ]);
    spec(&workspace, PREP, "%{__cmake} -DFETCHCONTENT_SOURCE_DIR_CUTLASS=\"$PWD/cutlass\"");
    workspace
        .run(&["audit", "demo"])
        .exits(1)
        .prints(["rust/Cargo.lock:1: fetches", "cargo-vendor"]);
    let config = "mkdir -p .cargo\nprintf 'replace-with = \"v\"\\ndirectory = \"vendor\"\\n' > .cargo/config.toml";
    spec(&workspace, &format!("{PREP}\n{config}"), "cmake -DFETCHCONTENT_FULLY_DISCONNECTED=ON");
    // The spec changed, so the source is prepared again.
    workspace.run(&["audit", "demo", "--verbose"]).exits(0).prints([
        "CMakeLists.txt:2: satisfied",
        "by setting: FETCHCONTENT_FULLY_DISCONNECTED=ON",
        "by file: .cargo/config.toml",
        "2 download points in 2 build scripts, all satisfied",
    ]);
    // Beside the source, where upstream's own settings do not interfere.
    spec(
        &workspace,
        &format!("{PREP}\n{}", config.replace(".cargo", "../.cargo")),
        "cmake -DFETCHCONTENT_FULLY_DISCONNECTED=ON",
    );
    workspace
        .run(&["audit", "demo", "--verbose"])
        .exits(0)
        .prints(["by file: ../.cargo/config.toml"]);
}

#[test]
fn declarations_are_verified() {
    let setup = "subprocess.run(['git', 'clone', url])\nurlretrieve(a)\nurlretrieve(b)\nos.system('curl -O c')\n";
    let workspace = demo(&[("setup.py", setup)]);
    let more = source(&workspace, "more-1", &[("f", "x")]);
    workspace.replace("pins/stable.toml", "[demo]", &format!("[demo.sources.more]\n{more}[demo]"));
    let entry = |find: &str, by: &str, with: &str| {
        format!(
            "[[offline]]\nfile = \"*.py\"\nfind = \"{find}\"\nby = \"{by}\"\nwith = \"{with}\"\n"
        )
    };
    let right = [
        entry("clone", "source", "more"),
        entry("(a)", "setting", "NO_A=1"),
        entry("(b)", "package", "no-such-package"),
        entry("curl", "not-reached", "only on Windows"),
        entry("gone", "not-reached", "in 2.0").replace("by =", "versions = \">=2\"\nby ="),
    ];
    workspace.write(TOML, right.concat());
    spec(&workspace, PREP, "export NO_A='1'");
    let ran = workspace.run(&["audit", "demo", "-v"]);
    ran.exits(0);
    ran.prints([
        "by not-reached: only on Windows",
        "4 download points in 1 build script, all satisfied",
    ]);

    let wrong = [
        entry("clone", "source", "others"),
        entry("(a)", "setting", "NO_B=1"),
        entry("(b)", "package", "such-package"),
        entry("curl", "not-reached", "only on Windows"),
        entry("nothing", "not-reached", "it is not there"),
    ];
    workspace.write(TOML, wrong.concat());
    workspace.run(&["audit", "demo"]).exits(1).prints([
        "component.toml:1: the pin has no further source `others`; it has more",
        "component.toml:6: `NO_B=1` is not in the spec's %build",
        "component.toml:11: the spec has no `BuildRequires: such-package`",
        "component.toml:21: no download point in `*.py` with the text `nothing`",
        "3 not satisfied, 4 invalid [[offline]]",
    ]);
    workspace.write(TOML, entry("x", "magic", ""));
    workspace
        .run(&["audit", "demo"])
        .exits(3)
        .reports(["unknown kind `magic`", "`with` must not be empty"]);
}
