//! The output of the committed workspaces: specs that rpm reads, the same bytes every time, a mock
//! config in Python, up-to-date container files.
//!
//! A copy without git history renders the specs in `tests/golden/` for `fedora-43`. After an
//! intended change, update them and review the difference:
//!
//! ```text
//! UPDATE_GOLDEN=1 cargo test --test workspace -- specs:: commands::
//! git diff tests/golden
//! ```

use std::path::Path;

use crate::support::{self, REPOSITORY, Workspace, device, golden};
use rocmrpm::build::MockBuilder;
use rocmrpm::process::Command;
use rocmrpm::workspace::{self, Selection};

/// The committed workspaces, and the folders of their golden specs.
const WORKSPACES: &[(&str, &str)] = &[("", "stack"), ("examples/quickstart", "quickstart")];

/// Returns the names of the TOML files in a folder of a committed workspace.
fn names(workspace: &str, folder: &str) -> Vec<String> {
    let dir = Path::new(REPOSITORY).join(workspace).join(folder);
    let mut names: Vec<String> = fs_err::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(!names.is_empty(), "{workspace}/{folder}");
    names
}

/// Returns the rendered specs of a chroot by file name.
fn rendered(lab: &Workspace, chroot: &str) -> Vec<(String, String)> {
    let dir = lab.path(format!("build/{chroot}/specs"));
    let mut specs: Vec<(String, String)> = fs_err::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                fs_err::read_to_string(path).unwrap(),
            )
        })
        .collect();
    specs.sort();
    specs
}

/// `real_stack.rs` checks the specs of the stack.
#[test]
fn rpm_reads_every_quickstart_spec() {
    let workspace = "examples/quickstart";
    let lab = Workspace::copy_of(workspace);
    let components = fs_err::read_dir(lab.path("specs-templates")).unwrap().count() - 1;
    for pins in names(workspace, "pins") {
        for chroot in names(workspace, "mock-configs") {
            lab.run(&["render", "--pins", &pins, "--chroot", &chroot]).exits(0);
            let specs = rendered(&lab, &chroot);
            assert_eq!(specs.len(), components, "{pins} {chroot}: {specs:?}");
            for (name, _) in specs {
                let path = lab.path(format!("build/{chroot}/specs/{name}"));
                let parsed = support::rpmspec(&path, &["-P"]);
                for left in ["<{", "<@", "@>", "<#"] {
                    assert!(!parsed.contains(left), "{name} for {chroot} has `{left}`:\n{parsed}");
                }
                let query = ["-q", "--qf", "%{name} %{license} %{summary}\\n"];
                let packages = support::rpmspec(&path, &query);
                assert!(
                    packages.lines().any(|line| line.starts_with("python3-")),
                    "{name}: {packages}"
                );
            }
        }
    }
}

/// The workspaces have separate copies, which must not diverge.
#[test]
fn shared_templates_are_identical() {
    let root = Path::new(REPOSITORY);
    let shared = root.join("examples/quickstart/specs-templates/_shared");
    let names: Vec<_> =
        fs_err::read_dir(&shared).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() > 2, "{names:?}");
    for name in names {
        let read = |folder: &Path| fs_err::read_to_string(folder.join(&name)).unwrap();
        assert_eq!(read(&shared), read(&root.join("specs-templates/_shared")), "{name:?}");
    }
}

/// One generated component of each kind: pure and compiled, each from a wheel and from a source
/// distribution, and the private prefix.
const GENERATED: &[&str] = &[
    "python-gguf.spec",
    "python-httpcore2.spec",
    "python-llguidance.spec",
    "python-rignore.spec",
    "vllm-rocm-runtime.spec",
];

/// Returns the specs of the components that are generated.
fn generated(lab: &Workspace) -> Vec<String> {
    let names = walkdir::WalkDir::new(lab.path("specs-templates/generated"))
        .into_iter()
        .filter_map(Result::ok);
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.strip_suffix(".tera").map(str::to_owned)).collect()
}

#[test]
fn rendered_specs_match_the_golden_files() {
    for (workspace, folder) in WORKSPACES {
        let lab = Workspace::copy_of(workspace);
        lab.run(&["render", "--chroot", "fedora-43", "--pins", "stable"]).exits(0);
        let left_out = generated(&lab);
        let shown = |name: &String| {
            GENERATED.contains(&name.as_str()) || left_out.iter().all(|other| other != name)
        };
        for (name, text) in rendered(&lab, "fedora-43") {
            // rpm's shell on Debian is not bash.
            assert!(!text.lines().any(|line| line.starts_with("pushd ")), "{name}");
            if shown(&name) {
                golden(&format!("{folder}/{name}"), &text);
            }
        }
    }
}

#[test]
fn checks_of_torch_follow_its_attention_settings() {
    let lab = Workspace::copy_of("");
    let spec = || {
        lab.run(&["render", "--chroot", "fedora-43", "--pins", "stable"]).exits(0);
        let specs = rendered(&lab, "fedora-43");
        specs.into_iter().find(|(name, _)| name == "python-torch-rocm.spec").unwrap().1
    };
    let file = "specs-templates/torch/component.toml";
    let (flash, efficient) = (" USE_FLASH_ATTENTION", " USE_MEM_EFF_ATTENTION");
    lab.replace(file, "USE_FLASH_ATTENTION = \"ON\"", "USE_FLASH_ATTENTION = \"OFF\"");
    let without_flash = spec();
    for gone in [&format!("{flash} "), "is_flash_attention_available", "with flash and"] {
        assert!(!without_flash.contains(gone), "{gone}: {without_flash}");
    }
    assert!(without_flash.contains("aotriton-devel") && without_flash.contains(efficient));
    lab.replace(file, "USE_MEM_EFF_ATTENTION = \"ON\"", "USE_MEM_EFF_ATTENTION = \"0\"");
    let without_both = spec();
    assert!(!without_both.contains(&format!("{efficient} ")), "{without_both}");
    assert!(!without_both.contains("aotriton"), "{without_both}");
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    for (workspace, _) in WORKSPACES {
        let (one, other) = (Workspace::copy_of(workspace), Workspace::copy_of(workspace));
        for lab in [&one, &other] {
            lab.commit("Begin");
            lab.run(&["render"]).exits(0);
        }
        similar_asserts::assert_eq!(rendered(&one, "fedora-43"), rendered(&other, "fedora-43"));
        assert_eq!(one.read("Containerfile.fedora43"), other.read("Containerfile.fedora43"));
        let again = one.run(&["render"]);
        again.exits(0).reports(["Unchanged Containerfile.fedora43"]);
        assert!(!again.stderr.contains("Rendered"), "{}", again.stderr);
    }
}

#[test]
fn committed_container_files_are_up_to_date() {
    let lab = Workspace::empty();
    for (workspace, _) in WORKSPACES {
        let dir = Path::new(REPOSITORY).join(workspace);
        lab.run(&["-C", dir.to_str().unwrap(), "render", "--check"]).exits(0).reports(["Checked"]);
    }
}

#[test]
fn render_check_and_diff_show_an_outdated_container_file() {
    let lab = Workspace::copy_of("examples/quickstart");
    lab.run(&["render", "--check"])
        .exits(1)
        .reports(["Differs Containerfile.fedora43", "`rocmrpm render`"]);
    lab.run(&["render"]).exits(0).reports(["Rendered Containerfile.fedora43"]);
    lab.run(&["render", "--check"]).exits(0);
    lab.replace("pins/stable.toml", "7.0.2", "7.1.0");
    let before = lab.files();
    lab.run(&["render", "--check"]).exits(1).reports(["Differs Containerfile.fedora43"]);
    let ran = lab.run(&["render", "--diff"]);
    ran.exits(0);
    ran.prints([
        "--- Containerfile.fedora43\n",
        "-    io.rocmrpm.component.amdsmi.version=\"7.0.2\"",
        "+    io.rocmrpm.component.amdsmi.version=\"7.1.0\"",
        "-Version:        7.0.2",
        "+Version:        7.1.0",
    ]);
    assert!(lab.files() == before, "`--check` and `--diff` write nothing");
    // An override does not change the committed file.
    lab.replace("pins/stable.toml", "7.1.0", "7.0.2");
    let file = lab.read("Containerfile.fedora43");
    lab.run(&["render", "--pin", "amdsmi=7.1.0"]).exits(0);
    assert_eq!(lab.read("Containerfile.fedora43"), file);
    let dirty = lab.read("build/fedora-43@amdsmi-7.1.0/Containerfile.fedora43");
    assert!(dirty.contains("io.rocmrpm.dirty=\"true\""), "{dirty}");
    lab.run(&["render", "--check", "--pin", "amdsmi=7.1.0"]).exits(0);
}

/// Returns the result of a mock config, evaluated by Python.
fn mock_config(lab: &Workspace, chroot: &str) -> serde_json::Value {
    let selection = Selection { chroot: Some(chroot.into()), ..Selection::default() };
    let workspace = workspace::Workspace::load(&lab.root(), &selection).unwrap();
    let builder = MockBuilder::new(&workspace);
    let text = builder.config(Path::new("/srv/it's here")).unwrap();
    lab.write("mock.cfg", &text);
    lab.write(
        "run.py",
        "import configparser, json\n\
         config_opts = {'macros': {}, 'plugin_conf': {}, 'dnf.conf': '[main]\\nbest=1\\n', 'rpmbuild_command': './rpmbuild'}\n\
         included = []\n\
         exec(compile(open('mock.cfg').read(), 'mock.cfg', 'exec'), {'config_opts': config_opts, 'include': included.append})\n\
         dnf = configparser.ConfigParser(interpolation=None)\n\
         dnf.read_string(config_opts.pop('dnf.conf'))\n\
         print(json.dumps({'included': included, 'opts': config_opts, 'dnf': {s: dict(dnf[s]) for s in dnf.sections()}}))\n",
    );
    let ran = Command::new("/usr/bin/python3").args(["-B", "run.py"]).cwd(lab.root()).text();
    let ran = ran.unwrap_or_else(|error| panic!("{error} (package: python3)\n{text}"));
    serde_json::from_str(&ran).unwrap()
}

#[test]
fn mock_config_is_python_with_the_settings_of_the_chroot() {
    let lab = Workspace::copy_of("");
    let config = mock_config(&lab, "fedora-43");
    assert_eq!(config["included"], serde_json::json!(["fedora-43-x86_64.cfg"]));
    let root = config["opts"]["root"].as_str().unwrap();
    let digits = root.strip_prefix("rocm-gfx1151-fedora-43-").unwrap_or_default();
    assert!(digits.len() == 8, "another checkout of the workspace has other build roots: {root}");
    assert_eq!(config["opts"]["plugin_conf"]["buildroot_lock_enable"], true);
    assert_eq!(
        config["opts"]["plugin_conf"]["chroot_scan_opts"]["regexes"],
        serde_json::json!(["^dnf5\\.log$"])
    );
    assert_eq!(config["opts"]["chroot_additional_packages"], serde_json::json!([]));
    assert_eq!(config["opts"]["bootstrap_files"], serde_json::json!({}));
    assert_eq!(config["opts"]["rpmbuild_networking"], false);
    assert_eq!(
        config["opts"]["cleanup_on_failure"], false,
        "the help enters the root of a failed build"
    );
    let macros = &config["opts"]["macros"];
    for (name, value) in [
        ("%dist", ".fc43"),
        ("%_buildhost", "localhost"),
        ("%source_date_epoch_from_changelog", "1"),
        ("%build_mtime_policy", "clamp_to_source_date_epoch"),
    ] {
        assert_eq!(macros[name], value, "{name}: {macros}");
    }
    let dnf = &config["dnf"];
    assert_eq!(dnf["rocmrpm-local"]["baseurl"], "file:///srv/it%27s%20here");
    assert_eq!(dnf["rocmrpm-local"]["gpgcheck"], "0");
    assert_eq!(dnf["amdrocm"]["gpgcheck"], "1");
    let priority = |id: &str| dnf[id]["priority"].as_str().unwrap().parse::<u32>().unwrap();
    assert!(
        priority("rocmrpm-local") < priority("amdrocm"),
        "what was built here comes first: {dnf}"
    );
    assert_eq!(dnf["main"]["best"], "1", "the release's own configuration stays");
}

#[test]
fn mock_merges_the_output_of_rpmbuild_into_one_stream() {
    let lab = Workspace::copy_of("examples/quickstart");
    lab.write("rpmbuild", "#!/bin/sh\necho \"$#: $*\"\necho 'error: line 2' >&2\nexit 3\n");
    Command::new("chmod").args(["+x", "rpmbuild"]).cwd(lab.root()).text().unwrap();
    let config = mock_config(&lab, "fedora-43");
    // As mock runs it: rebuild_installed_srpm in its backend.py.
    let command =
        format!("{} -bs '/a b.spec'", config["opts"]["rpmbuild_command"].as_str().unwrap());
    let ran = std::process::Command::new("bash")
        .args(["--login", "-c", &command])
        .current_dir(lab.root())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(3), "rpmbuild's exit code is what mock sees: {ran:?}");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "2: -bs /a b.spec\nerror: line 2\n");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(!stderr.contains("error:"), "mock may lose it there: {stderr}");
}

#[test]
fn mock_config_has_packages_and_keys_of_the_chroot() {
    let lab = Workspace::copy_of("");
    let key =
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME'\\\n-----END PGP PUBLIC KEY BLOCK-----\n";
    lab.write("keys/it's mine.asc", key);
    let text = lab.read("mock-configs/fedora-43.toml");
    let text = format!(
        "additional-packages = [\"rocm-rpm-macros\", \"pkgconfig(libdrm)\"]\n{text}\n\
         [[repositories]]\nid = \"own\"\nurl = \"https://example.org/$releasever\"\n\
         gpg-key = \"keys/it's mine.asc\"\n\
         [[repositories]]\nid = \"fedora-extra\"\nurl = \"https://example.org/x\"\n\
         gpg-key = \"file:///usr/share/distribution-gpg-keys/x/RPM-GPG-KEY-$releasever\"\n"
    );
    lab.write("mock-configs/fedora-43.toml", &text);
    let config = mock_config(&lab, "fedora-43");
    let packages = serde_json::json!(["rocm-rpm-macros", "pkgconfig(libdrm)"]);
    assert_eq!(config["opts"]["chroot_additional_packages"], packages);
    let path = lab.path("keys/it's mine.asc").display().to_string();
    assert_eq!(config["opts"]["bootstrap_files"][&path], key, "{}", config["opts"]);
    let own = &config["dnf"]["own"];
    assert_eq!(own["gpgkey"], format!("file://{}", path.replace('\'', "%27").replace(' ', "%20")));
    assert_eq!(
        (&own["gpgcheck"], &own["baseurl"]),
        (&"1".into(), &"https://example.org/$releasever".into())
    );
    let extra = "file:///usr/share/distribution-gpg-keys/x/RPM-GPG-KEY-$releasever";
    assert_eq!(config["dnf"]["fedora-extra"]["gpgkey"], extra, "dnf's variables stay");

    let refused = |key: &str| {
        lab.write("keys/it's mine.asc", key);
        let selection = Selection { chroot: Some("fedora-43".into()), ..Selection::default() };
        let workspace = workspace::Workspace::load(&lab.root(), &selection).unwrap();
        MockBuilder::new(&workspace).config(Path::new("/r")).unwrap_err().to_string()
    };
    assert!(
        refused("binary").ends_with("mine.asc` is not an armored public key"),
        "{}",
        refused("binary")
    );
}

#[test]
fn mock_config_escapes_hostile_values() {
    let lab = Workspace::copy_of("");
    lab.write("x", "");
    let text = lab.read("mock-configs/fedora-43.toml");
    let text = text
        .replace("[macros]\n", "[macros]\nevil = \"'\\\\'); import os; os.remove('x')#{ 1 }\"\n");
    lab.write("mock-configs/fedora-43.toml", &text);
    let config = mock_config(&lab, "fedora-43");
    assert_eq!(config["opts"]["macros"]["%evil"], "'\\'); import os; os.remove('x')#{ 1 }");
    assert!(lab.path("x").exists());
}

#[test]
fn renders_one_package_per_processor() {
    let workspace = Workspace::new();
    let shared = "specs-templates/_shared/device-packages.tera";
    workspace.write(shared, fs_err::read(Path::new(REPOSITORY).join(shared)).unwrap());
    device::add(&workspace);
    // Names of packages cannot contain features.
    device::set_targets(&workspace, &["gfx90a:xnack+", "gfx90a:xnack-"]);
    let template = "specs-templates/k/k.spec.tera";
    workspace.replace(template, "<@ include", "<@ set device_requires = [\"base\"] @><@ include");
    workspace.run(&["render", "--chroot", "host"]).exits(0);
    let spec = workspace.built("specs/k.spec");
    let package = "%package -n k-gfx90a\n\
         Summary:        GPU code of k for gfx90a\n\
         Provides:       k-gfx = %{version}-%{release}\n\
         Requires:       k%{?_isa} = %{version}-%{release}\n\
         Requires:       base-gfx90a\n\
         Provides:       rocm-gfx(gfx90a:xnack+)\n\
         Provides:       rocm-gfx(gfx90a:xnack-)\n";
    let text = fs_err::read_to_string(&spec).unwrap();
    assert!(text.contains(package), "{text}");
    let names = support::rpmspec(&spec, &["-q", "--builtrpms", "--qf", "%{name}\n"]);
    assert_eq!(names, "k\nk-gfx90a\n");
}
