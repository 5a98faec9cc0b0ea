//! Tests a workspace whose wheels find ROCm in AMD's `rocm-sdk-*` wheels, from packages to
//! verification. Offline; needs rpmbuild, createrepo_c, unshare and gcc. `wheel_index` tests the
//! installation of such wheels with pip.

use std::path::PathBuf;

use crate::support::{Parts, Workspace, names_in, template};
use rocmrpm::wheel;
use serde_json::Value;

/// A library with HIP's SONAME, and a stable-ABI Python module that needs it.
const BUILD: &str = "\
echo 'int hip_answer(void) { return 42; }' > hip.c
gcc -shared -fPIC -o libamdhip64.so.7 -Wl,-soname,libamdhip64.so.7 hip.c
echo 'int hip_answer(void); int <{ name }>_answer(void) { return hip_answer(); }' > c.c
gcc -shared -fPIC -o _C.abi3.so c.c -L. -l:libamdhip64.so.7";

const INSTALL: &str = "\
site=%{buildroot}%{_libdir}/python<{ chroot.python }>/site-packages
info=$site/<{ name }>-<{ version }>.dist-info
install -d $info $site/<{ name }>
install -pm 755 _C.abi3.so $site/<{ name }>/
printf 'Metadata-Version: 2.1\\nName: <{ name }>\\nVersion: <{ version }>\\n' > $info/METADATA
printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: cp38-abi3-linux_x86_64\\n' > $info/WHEEL
";

/// The machine that runs the test may have an older ROCm: Debian 12 has 5.2, Fedora 43 has 6.4.
const WAIVER: &str = "\n[[inspect.waive]]\nrule = \"library-foreign\"\nreason = \"a stand-in\"\n";

/// Adds a component that needs HIP, with this `__init__.py` and these METADATA lines.
fn add(workspace: &Workspace, name: &str, toml: &str, init: &str, metadata: &str) {
    let install = format!(
        "{INSTALL}printf '{init}' > $site/<{{ name }}>/__init__.py\nprintf '{metadata}' >> $info/METADATA"
    );
    workspace.component(
        name,
        &Parts {
            toml: &format!("{toml}{WAIVER}"),
            // No package of this machine needs to provide the library.
            preamble: "# arch\nAutoReq: no\n",
            build: BUILD,
            install: &install,
            files: "%{_libdir}/python<{ chroot.python }>/site-packages/*",
            ..Parts::default()
        },
    );
}

fn wheel_of(workspace: &Workspace, name: &str) -> PathBuf {
    let dir = workspace.built("wheels").join(name);
    let mut wheels = names_in(&dir);
    wheels.retain(|file| file.ends_with(".whl"));
    assert_eq!(wheels.len(), 1, "{wheels:?}");
    dir.join(wheels.remove(0))
}

/// Returns the proof of a component's only wheel.
fn proof<'a>(document: &'a Value, name: &str) -> &'a Value {
    let components = document["components"].as_array().unwrap();
    &components.iter().find(|component| component["component"] == name).unwrap()["wheels"][0]
}

#[test]
fn builds_verifies_and_rebuilds_a_stack_for_amds_wheels() {
    let workspace = Workspace::new();
    let header = "version-header = \"/usr/include/hip/hip_version.h\"";
    workspace.replace("mock-configs/rocm/host.toml", header, "version = \"7.14\"");
    let manifest = workspace.read("rocmrpm.toml");
    workspace.write("rocmrpm.toml", format!("{manifest}\n[wheels]\nrocm = \"rocm-sdk\"\n"));
    let init = "from . import _rocm_init\\n_rocm_init.initialize()\\n";
    add(&workspace, "base", "", init, "");
    // Its library is only found because the other package has loaded it.
    add(
        &workspace,
        "above",
        "requires = [\"base\"]\n",
        "import base\\n",
        "Requires-Dist: base >= 1\\n",
    );
    workspace.build().exits(0);

    let [base, above] =
        ["base", "above"].map(|name| wheel::read(&wheel_of(&workspace, name)).unwrap());
    let rocm = "Requires-Dist: rocm[device-gfx1151,libraries]==7.14.*\n";
    assert!(base.metadata.contains(rocm) && above.metadata.contains(rocm), "{}", base.metadata);
    assert!(
        above.metadata.contains(&format!("Requires-Dist: base=={}\n", base.version)),
        "{}",
        above.metadata
    );
    let preloads = |wheel: &wheel::Wheel| {
        wheel::preloads(&wheel.path).unwrap().into_iter().collect::<Vec<_>>()
    };
    assert_eq!((preloads(&base), preloads(&above)), (vec!["amdhip64".to_owned()], vec![]));

    let verified = workspace.run(&["wheel", "--check", "--json"]).exits(0).json();
    let made: Vec<&str> = proof(&verified, "base")["made"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["member"].as_str().unwrap())
        .collect();
    assert!(made.contains(&"base/_rocm_init.py"), "{made:?}");
    let before = std::fs::metadata(&base.path).unwrap().modified().unwrap();
    workspace.run(&["wheel"]).exits(0).never_reports("Wheel");
    assert_eq!(std::fs::metadata(&base.path).unwrap().modified().unwrap(), before);

    // A damaged wheel only affects itself and not the wheels that depend on it; leftovers of a
    // failed run are ignored.
    let whole = std::fs::read(&base.path).unwrap();
    std::fs::write(&base.path, vec![b'x'; whole.len()]).unwrap();
    std::fs::create_dir(workspace.built("wheels/.new-base")).unwrap();
    std::fs::write(workspace.built("wheels/.new-base/base-1.0-py3-none-any.whl"), "x").unwrap();
    let run = workspace.run(&["wheel", "--check", "--json"]);
    let verified = run.exits(1).json();
    assert_eq!(proof(&verified, "base")["differences"].as_array().unwrap().len(), 1, "{run}");
    assert_eq!(proof(&verified, "above")["differences"].as_array().unwrap().len(), 0, "{run}");
    assert_eq!(verified["components"].as_array().unwrap().len(), 2, "{run}");
    workspace.run(&["wheel", "--check"]).exits(1).reports(["delete the files that differ"]);
    std::fs::remove_file(&base.path).unwrap();
    workspace.run(&["wheel"]).exits(0).reports(["Wheel base"]).never_reports("Wheel above");
    assert!(std::fs::read(&base.path).unwrap() == whole, "the wheel differs");
    assert!(!workspace.built("wheels/.new-base").exists());

    // Without the requirement, nothing loads the library, and the old wheel remains.
    workspace.replace(&template("above"), "Requires-Dist: base >= 1", "Requires-Dist: numpy");
    let run = workspace.build();
    run.reports(["above/_C.abi3.so: needs libamdhip64.so.7: nothing loads it (`amdhip64`)"]);
    assert!(run.code != Some(0) && above.path.exists(), "{run}");
}
