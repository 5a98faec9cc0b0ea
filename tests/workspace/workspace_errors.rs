//! Mistakes in a workspace: all of them are shown at once, each with its file, line, column, text,
//! and the nearest valid name.

use crate::support;
use crate::support::{Index, Workspace};
use snapbox::{assert_data_eq, str};

/// A valid workspace of two components, `base` and `top`, which requires `base`. The chroot is
/// `fedora-43`, so that nothing depends on this machine.
const SOUND: &[(&str, &str)] = &[
    (
        "rocmrpm.toml",
        "[stack]\nname = \"lab\"\ngpu-targets = [\"gfx1151\"]\ndefault-chroot = \"fedora-43\"\ndefault-pins = \"stable\"\n",
    ),
    (
        "pins/stable.toml",
        "[base]\nversion = \"1.0\"\npath = \"src/base\"\n\n[top]\nversion = \"2.0\"\npath = \"src/top\"\n",
    ),
    ("specs-templates/base/component.toml", ""),
    ("specs-templates/base/base.spec.tera", SPEC),
    ("specs-templates/top/component.toml", "requires = [\"base\"]\n"),
    ("specs-templates/top/top.spec.tera", SPEC),
    (
        "specs-templates/_shared/build-env.tera",
        include_str!("../../examples/quickstart/specs-templates/_shared/build-env.tera"),
    ),
    (
        "mock-configs/fedora-43.toml",
        "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\nrocm-provider = \"fedora\"\n\
         base-config = \"fedora-43-x86_64.cfg\"\n",
    ),
    (
        "mock-configs/rocm/fedora.toml",
        "prefix = \"/usr\"\nversion = \"6.4\"\n\n[capabilities.hip]\ndevel = \"rocm-hip-devel\"\n",
    ),
    ("copr/project.toml", "owner = \"me\"\nproject = \"lab\"\nchroots = [\"fedora-43-x86_64\"]\n"),
    ("src/base/a.txt", "a\n"),
    ("src/top/a.txt", "a\n"),
];

const SPEC: &str = "Name: <{ name }>
Version: <{ version }>
Release: <{ release }>
Summary: A test
License: MIT
Source0: <{ source_url }>
BuildArch: noarch

%description
A test.

%prep
%autosetup -n <{ source_dir }>

%build
<@ include \"_shared/build-env.tera\" @>

%files

%changelog
<{ changelog }>
";

fn sound() -> Workspace {
    Workspace::with(SOUND)
}

#[test]
fn accepts_a_valid_workspace() {
    sound().run(&["plan"]).exits(0).prints(["base", "top"]);
}

#[test]
fn reports_mistakes_in_all_files_at_once() {
    let workspace = sound();
    workspace.write(
        "rocmrpm.toml",
        "[stack]\nname = \"lab\"\ngpu-targets = [\"gfx1151\", \"gfx1511\"]\ndefault-chroot = \"fedora-34\"\ndefualt-pins = \"stable\"\n",
    );
    workspace.write(
        "pins/stable.toml",
        "[base]\nversion = \"1.0-1\"\npath = \"../base\"\n\n[tpo]\nversion = \"2.0\"\ngit = \"https://h/top\"\ncommit = \"main\"\n",
    );
    workspace.write(
        "specs-templates/base/component.toml",
        "memory-per-job = \"4 GiB\"\ntimeout = \"8\"\ngpu-targets = [\"gfx1x51\"]\n\n[inspect]\ndevice-code = \"yes\"\n",
    );
    workspace
        .write("specs-templates/top/component.toml", "requires = [\"bsae\"]\noptinal = true\n");
    workspace.replace("mock-configs/fedora-43.toml", "\"fedora\"", "\"fedroa\"");
    workspace.replace("mock-configs/fedora-43.toml", "\"43\"", "43");
    workspace.replace("mock-configs/rocm/fedora.toml", "devel =", "develop =");
    workspace.write("copr/project.toml", "owner = \"me\"\nchroots = \"fedora-43-x86_64\"\n");

    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    assert_eq!(ran.stdout, "");
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: unknown GPU target `gfx1511`
 --> rocmrpm.toml:3:27
  |
3 | gpu-targets = ["gfx1151", "gfx1511"]
  |                           ^^^^^^^^^ LLVM's AMDGPU backend has no such target
  |
  = help: did you mean `gfx1151`?

error: unknown chroot `fedora-34`
 --> rocmrpm.toml:4:18
  |
4 | default-chroot = "fedora-34"
  |                  ^^^^^^^^^^^ not defined in this workspace
  |
  = help: did you mean `fedora-43`?

error: unknown key `defualt-pins`
 --> rocmrpm.toml:5:1
  |
5 | defualt-pins = "stable"
  | ^^^^^^^^^^^^ this table has no such key
  |
  = help: did you mean `default-pins`?

error: this is not an amount of memory
 --> specs-templates/base/component.toml:1:18
  |
1 | memory-per-job = "4 GiB"
  |                  ^^^^^^^ expected an amount such as `4 GB`

error: this is not a duration
 --> specs-templates/base/component.toml:2:11
  |
2 | timeout = "8"
  |           ^^^ expected a duration such as `8 h` or `90 min`

error: unknown GPU target `gfx1x51`
 --> specs-templates/base/component.toml:3:16
  |
3 | gpu-targets = ["gfx1x51"]
  |                ^^^^^^^^^ LLVM's AMDGPU backend has no such target
  |
  = help: did you mean `gfx1151`?

error: `device-code` must be `true` or `false`
 --> specs-templates/base/component.toml:6:15
  |
6 | device-code = "yes"
  |               ^^^^^ this is a string

error: unknown component `bsae`
 --> specs-templates/top/component.toml:1:13
  |
1 | requires = ["bsae"]
  |             ^^^^^^ specs-templates/bsae does not exist
  |
  = help: did you mean `base`?

error: unknown key `optinal`
 --> specs-templates/top/component.toml:2:1
  |
2 | optinal = true
  | ^^^^^^^ this table has no such key
  |
  = help: did you mean `optional`?

error: `1.0-1` cannot be the version of an RPM
 --> pins/stable.toml:2:11
  |
2 | version = "1.0-1"
  |           ^^^^^^^ expected letters, digits and . _ + ~ ^

error: the path leads out of the workspace
 --> pins/stable.toml:3:8
  |
3 | path = "../base"
  |        ^^^^^^^^^ expected a relative path without `..`

error: unknown component `tpo`
 --> pins/stable.toml:5:2
  |
5 | [tpo]
  |  ^^^ specs-templates/tpo does not exist
  |
  = help: did you mean `top`?

error: this is not a full commit
 --> pins/stable.toml:8:10
  |
8 | commit = "main"
  |          ^^^^^^ expected 40 hexadecimal digits
  |
  = help: a branch, a tag or a short commit can move or become ambiguous

error: `release` must be a string
 --> mock-configs/fedora-43.toml:1:11
  |
1 | release = 43
  |           ^^ this is an integer

error: unknown ROCm provider `fedroa`
 --> mock-configs/fedora-43.toml:5:17
  |
5 | rocm-provider = "fedroa"
  |                 ^^^^^^^^ not defined in this workspace
  |
  = help: did you mean `fedora`?

error: unknown key `develop`
 --> mock-configs/rocm/fedora.toml:5:1
  |
5 | develop = "rocm-hip-devel"
  | ^^^^^^^ this table has no such key
  |
  = help: did you mean `devel`?

error: `project` is missing
 --> copr/project.toml:1:1
  |
1 | owner = "me"
  | ^ expected `project`: the COPR project

error: `chroots` is missing or empty
 --> copr/project.toml:1:1
  |
1 | owner = "me"
  | ^ expected COPR's chroots
  |
  = help: add `chroots = ["fedora-44-x86_64"]`

error: `chroots` must be a list of strings
 --> copr/project.toml:2:11
  |
2 | chroots = "fedora-43-x86_64"
  |           ^^^^^^^^^^^^^^^^^^ this is a string

error: 19 mistakes in the workspace's files

"#]]
    );
}

#[test]
fn syntax_error_does_not_hide_other_files() {
    let workspace = sound();
    workspace.write("rocmrpm.toml", "[stack\nname = \"lab\"\n");
    workspace.write("pins/stable.toml", "[base]\nversion = \"1.0\npath = \"src/base\"\n");
    workspace.write("specs-templates/top/component.toml", "requires = [\"bsae\"]\n");
    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: this is not valid TOML
 --> rocmrpm.toml:1:7
  |
1 |   [stack
  |  _______^
2 | | name = "lab"
  | |_^ unclosed table, expected `]`

error: this is not valid TOML
 --> pins/stable.toml:2:15
  |
2 |   version = "1.0
  |  _______________^
3 | | path = "src/base"
  | |_^ invalid basic string, expected `"`

error: unknown component `bsae`
 --> specs-templates/top/component.toml:1:13
  |
1 | requires = ["bsae"]
  |             ^^^^^^ specs-templates/bsae does not exist
  |
  = help: did you mean `base`?

error: 3 mistakes in the workspace's files

"#]]
    );
}

#[test]
fn reports_each_mistake_once() {
    for (file, old, new, place) in [
        ("rocmrpm.toml", "gfx1151\"", "gfx1151", "rocmrpm.toml:3:"),
        ("rocmrpm.toml", "\"fedora-43\"", "\"fedora-43", "rocmrpm.toml:4:"),
        ("pins/stable.toml", "[base]", "[base", "pins/stable.toml:1:"),
        ("pins/stable.toml", "[top]", "[base]", "pins/stable.toml:5:"),
        ("mock-configs/fedora-43.toml", "\"fedora\"", "\"fed", "mock-configs/fedora-43.toml:5:"),
        (
            "specs-templates/top/component.toml",
            "base\"]",
            "bas",
            "specs-templates/top/component.toml:1:",
        ),
    ] {
        let workspace = sound();
        workspace.replace(file, old, new);
        let ran = workspace.run(&["plan"]);
        ran.exits(3).reports(["error: this is not valid TOML", place]);
        let one = "error: 1 mistake in the workspace's files";
        assert!(ran.stderr.contains(one), "{file} with `{new}`:\n{}", ran.stderr);
    }
}

#[test]
fn reports_folders_that_are_not_components() {
    let workspace = sound();
    workspace.write("specs-templates/Stray/notes.txt", "");
    fs_err::remove_file(workspace.path("specs-templates/base/base.spec.tera")).unwrap();
    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: the folder has no `component.toml`
--> specs-templates/Stray
 = help: create it (it may be empty), or start the folder's name with `_`

error: expected one spec template, found 0
--> specs-templates/base/component.toml
 = help: keep exactly one `*.spec.tera` in its folder

error: 2 mistakes in the workspace's files

"#]]
    );
}

#[test]
fn reports_dependency_cycles() {
    let workspace = sound();
    workspace.write("specs-templates/base/component.toml", "requires = [\"top\"]\n");
    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: dependency cycle: base -> top -> base
 --> specs-templates/top/component.toml:1:13
  |
1 | requires = ["base"]
  |             ^^^^^^ this closes the cycle


"#]]
    );
}

#[test]
fn rejects_component_without_supported_target_unless_optional() {
    let workspace = sound();
    workspace.write("specs-templates/top/component.toml", "gpu-targets = [\"gfx942\"]\n");
    workspace.run(&["plan"]).exits(3).reports([
        "cannot build `top`: upstream supports none of the workspace's GPU targets (gfx1151)",
        "--> specs-templates/top/component.toml",
        "set `optional = true`",
    ]);
    workspace.write(
        "specs-templates/top/component.toml",
        "gpu-targets = [\"gfx942\"]\noptional = true\n",
    );
    let ran = workspace.run(&["plan"]);
    ran.exits(0).reports(["warning: `top` is left out"]);
    assert!(!ran.stdout.contains("top"), "{}", ran.stdout);
    workspace.run(&["plan", "top"]).exits(3).reports(["error: cannot build `top`"]);
}

#[test]
fn suggests_init_without_a_workspace() {
    let workspace = Workspace::empty();
    for command in ["plan", "build", "render", "lock", "wheel", "index", "container"] {
        let ran = workspace.run(&[command]);
        ran.exits(3);
        assert_data_eq!(
            ran.stderr,
            str![[r#"
error: no `rocmrpm.toml` in `[HOLDER]/workspace` or in any folder above it

help: create a workspace here with `rocmrpm init`, or use another one with `-C DIR`

"#]]
        );
    }
}

#[test]
fn finds_the_workspace_from_subfolders() {
    let workspace = sound();
    let below = workspace.path("src/base");
    let ran = workspace.outcome(workspace.command(&["plan"]).current_dir(&below));
    ran.exits(0);
    assert_eq!(ran.stdout, workspace.run(&["plan"]).stdout);
    let mut elsewhere = workspace.command(&["-C", below.to_str().unwrap(), "plan"]);
    assert_eq!(workspace.outcome(elsewhere.current_dir("/")).exits(0).stdout, ran.stdout);
}

#[test]
fn suggests_the_nearest_name_on_the_command_line() {
    let workspace = sound();
    for (args, error, help) in [
        (
            ["plan", "--chroot", "fedora-34"],
            "there is no chroot `fedora-34`",
            "did you mean `fedora-43`?",
        ),
        (["plan", "--pins", "stabel"], "there is no pin set `stabel`", "did you mean `stable`?"),
        (["plan", "--pins", "nightly"], "there is no pin set `nightly`", "expected one of: stable"),
        (["plan", "--pin", "tpo=2.1"], "there is no pin `tpo`", "did you mean `top`?"),
        (["plan", "base", "tpo"], "there is no component `tpo`", "did you mean `top`?"),
        (["build", "--until", "rmp"], "there is no stage `rmp`", "did you mean `rpm`?"),
    ] {
        let ran = workspace.run(&args);
        ran.exits(2).reports([error, help]);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn rejects_invalid_override_versions() {
    for version in ["2-1", "a b", "%{x}", "$(id)", "'"] {
        let pin = format!("top={version}");
        sound().run(&["plan", "--pin", &pin]).exits(2).reports(["cannot be the version of an RPM"]);
    }
    sound().run(&["plan", "--pin", "top"]).exits(2).reports(["expected NAME=VERSION"]);
}

#[test]
fn reports_mistakes_in_several_templates_at_once() {
    let workspace = sound();
    workspace.replace("specs-templates/base/base.spec.tera", "<{ version }>", "<{ verison }>");
    workspace.replace("specs-templates/top/top.spec.tera", "%files", "<@ if patches @>\n%files");
    let ran = workspace.run(&["render"]);
    ran.exits(3);
    assert_data_eq!(
        ran.stderr.clone(),
        str![[r#"
error: variable `verison` is not defined
 --> specs-templates/base/base.spec.tera:2:13
  |
2 | Version: <{ verison }>
  |             ^^^^^^^
  |
  = help: did you mean `version`?

error: unexpected end of input
  --> specs-templates/top/top.spec.tera:22:16
   |
22 | <{ changelog }>
   |                ^

error: 2 mistakes in the workspace's files

"#]]
    );
    assert!(!workspace.path("build").exists(), "nothing is written");
    for command in ["plan", "build"] {
        assert_eq!(workspace.run(&[command]).exits(3).stderr, ran.stderr, "{command}");
    }
}

#[test]
fn shows_a_missing_capability_in_the_template() {
    let workspace = sound();
    workspace.replace(
        "specs-templates/top/top.spec.tera",
        "BuildArch: noarch",
        "Requires: <{ rocm.rccl.devel }>",
    );
    let ran = workspace.run(&["render"]);
    ran.exits(3);
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: field `rccl` is not defined
 --> specs-templates/top/top.spec.tera:7:19
  |
7 | Requires: <{ rocm.rccl.devel }>
  |                   ^^^^
  |
  = help: expected one of: brings, device_libs, hip, libdir, llvm_bin, packaged, prefix, provider, version

error: 1 mistake in the workspace's files

"#]]
    );
}

#[test]
fn reports_a_mistake_in_a_shared_template_once() {
    let workspace = sound();
    workspace.replace(
        "specs-templates/_shared/build-env.tera",
        "<{ export.value }>",
        "<{ export.valeu }>",
    );
    let ran = workspace.run(&["render"]);
    ran.exits(3).reports(["specs-templates/_shared/build-env.tera:1:"]);
    assert_eq!(ran.stderr.matches("export.valeu").count(), 1, "{}", ran.stderr);
}

#[test]
fn rejects_a_spec_that_omits_sources() {
    let workspace = sound();
    workspace.write(
        "specs-templates/top/component.toml",
        "[[edit]]\nfile = \"a.txt\"\nfind = \"a\"\nreplace = \"b\"\nmatches = 1\nreason = \"x\"\n",
    );
    workspace.write(
        "specs-templates/top/0001-x.patch",
        "Subject: x\n\nOrigin: own\nDrop-When: never\n---\n",
    );
    let pins = workspace.read("pins/stable.toml");
    workspace.write("pins/stable.toml", format!("{pins}[top.sources.more]\npath = \"src/base\"\n"));
    workspace.run(&["render"]).exits(3).reports([
        "the template `specs-templates/top/top.spec.tera` does not use source `top-more-2.0.tar.gz`, \
         patch `0001-x.patch`, edit of 'a.txt'",
        "`<@ include \"_shared/edits.tera\" @>` after %autosetup",
    ]);
}

#[test]
fn checks_environment_variables_before_rendering() {
    let workspace = sound();
    workspace.write(
        "specs-templates/top/component.toml",
        "[env]\nGOOD = \"{prefix}\"\nROCM_PATH = \"{prefx}/x\"\n\"B-AD\" = \"1\"\n\"2X\" = \"1\"\n",
    );
    let ran = workspace.run(&["render"]);
    ran.exits(3);
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: `2X` cannot be the name of an environment variable
 --> specs-templates/top/component.toml:5:8
  |
5 | "2X" = "1"
  |        ^^^ expected letters, digits and `_`, starting with a letter or `_`

error: `B-AD` cannot be the name of an environment variable
 --> specs-templates/top/component.toml:4:10
  |
4 | "B-AD" = "1"
  |          ^^^ expected letters, digits and `_`, starting with a letter or `_`

error: unknown placeholder `{prefx}` in `ROCM_PATH`
 --> specs-templates/top/component.toml:3:13
  |
3 | ROCM_PATH = "{prefx}/x"
  |             ^^^^^^^^^^^ expected {prefix} or {gpu-targets}
  |
  = help: did you mean `{prefix}`?

error: 3 mistakes in the workspace's files

"#]]
    );
}

/// The shell that runs %build sees every value unchanged, whatever it contains.
#[test]
fn environment_variables_reach_the_build_unchanged() {
    let workspace = sound();
    let values =
        [("A", "it's"), ("B", "'; touch pwned; '"), ("C", "100%"), ("D", "a\\b \"$HOME\" `id`")];
    let mut text = String::from("[env]\n");
    for (name, value) in values {
        text += &format!("{name} = {}\n", toml_edit::Value::from(value));
    }
    workspace.write("specs-templates/top/component.toml", &text);
    workspace.run(&["render"]).exits(0);
    let spec = support::rpmspec(&workspace.path("build/fedora-43/specs/top.spec"), &["-P"]);
    let exports: Vec<&str> = spec.lines().filter(|line| line.starts_with("export ")).collect();
    let script = format!("{}\nprintf '%s\\n' \"$A\" \"$B\" \"$C\" \"$D\"\n", exports.join("\n"));
    let shown = rocmrpm::process::Command::new("bash")
        .args(["-c", &script])
        .cwd(workspace.root())
        .text()
        .unwrap();
    let wanted: Vec<&str> = values.iter().map(|(_, value)| *value).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    assert!(!workspace.path("pwned").exists());
}

#[test]
fn rejects_a_pin_without_a_digest_until_it_is_locked() {
    let workspace = sound();
    let index = Index::with_hello("1.0");
    let archive = workspace.holder().join("top-2.0.tar.gz");
    fs_err::write(&archive, support::sdist("top", "2.0")).unwrap();
    let upstream = workspace.holder().join("upstream");
    fs_err::create_dir(&upstream).unwrap();
    fs_err::write(upstream.join("x.txt"), "x\n").unwrap();
    for args in [
        &["init", "--quiet"][..],
        &["add", "x.txt"],
        &["commit", "--quiet", "--message", "x"],
        &["tag", "v1.0"],
    ] {
        workspace.git_in(&upstream, args);
    }
    workspace.write("specs-templates/hello/component.toml", "");
    workspace.write("specs-templates/top/component.toml", "");
    workspace.write("specs-templates/hello/hello.spec.tera", SPEC);
    let pins = format!(
        "[base]\nversion = \"1.0\"\ngit = \"file://{}\"\n\n[hello]\nversion = \"1.0\"\nsdist = \"hello\"\n\n\
         [top]\nversion = \"2.0\"\nurl = \"file://{}/top-{{version}}.tar.gz\"\n",
        upstream.display(),
        workspace.holder().display()
    );
    workspace.write("pins/stable.toml", &pins);

    for (name, missing) in [("base", "commit"), ("hello", "sha256"), ("top", "sha256")] {
        let help = format!("help: run `rocmrpm lock` to fetch it and record its {missing}");
        let ran = workspace.run_with_index(&index, &["build", "--until", "sources", name]);
        ran.exits(3);
        ran.reports([&format!("`{name}`"), &help]);
    }
    assert!(!workspace.path("pins/stable.lock").exists());

    // If one source is unavailable, nothing is written.
    let nowhere = Index::empty();
    workspace.run_with_index(&nowhere, &["lock"]).exits(3).reports(["has no project `hello`"]);
    assert!(!workspace.path("pins/stable.lock").exists());

    workspace
        .run_with_index(&index, &["lock"])
        .exits(0)
        .reports(["Locked pins/stable.lock: 3 sources"]);
    let lock = workspace.read("pins/stable.lock");
    assert!(lock.contains(workspace.git_in(&upstream, &["rev-parse", "HEAD"]).trim()), "{lock}");
    let digest = rocmrpm::digest::Sha256::of_file(&archive).unwrap().0;
    assert!(lock.contains(&format!("sha256 = \"{digest}\"")), "{lock}");
    assert_eq!(workspace.read("pins/stable.toml"), pins, "the pin set is unchanged");

    workspace
        .run_with_index(&index, &["lock"])
        .exits(0)
        .reports(["Unchanged pins/stable.lock: 3 sources"]);
    assert_eq!(workspace.read("pins/stable.lock"), lock);
    workspace
        .run_with_index(&index, &["build", "--until", "sources"])
        .exits(0)
        .reports(["Fetched 3 sources"]);
    workspace
        .run(&["build", "--until", "sources", "--offline"])
        .exits(0)
        .reports(["Fetched 3 sources"]);
    workspace.run(&["plan"]).exits(0);

    // A file that differs from the locked one is rejected with both digests.
    let other = support::sdist("top", "2.1");
    fs_err::write(&archive, &other).unwrap();
    fs_err::remove_dir_all(workspace.holder().join("cache")).unwrap();
    let found = rocmrpm::digest::Sha256::of_bytes(&other);
    let ran = workspace.run(&["build", "--until", "sources", "top", "--chroot", "fedora-43"]);
    ran.exits(30);
    ran.reports([&digest.to_string(), &found.to_string()]);
}

#[test]
fn checks_wheels_and_index_settings() {
    let workspace = sound();
    workspace.replace(
        "rocmrpm.toml",
        "[stack]",
        "[wheels]\nrocm = \"rocm-sdc\"\n\n[index]\noutside = [\"pip\", \"my index\"]\ntrack = \"pip\"\n\n[stack]",
    );
    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: unknown source of ROCm `rocm-sdc`
 --> rocmrpm.toml:2:8
  |
2 | rocm = "rocm-sdc"
  |        ^^^^^^^^^^ expected `system`, `rocm-sdk` or `bundled`
  |
  = help: did you mean `rocm-sdk`?

error: `my index` is not an index
 --> rocmrpm.toml:5:19
  |
5 | outside = ["pip", "my index"]
  |                   ^^^^^^^^^^ expected `pip` or the URL of a Simple API
  |
  = help: use `pip` for the index that pip on this machine uses

error: unknown key `track`
 --> rocmrpm.toml:6:1
  |
6 | track = "pip"
  | ^^^^^ this table has no such key
  |
  = help: did you mean `tracks`?

error: 3 mistakes in the workspace's files

"#]]
    );
}

#[test]
fn skips_components_of_the_provider() {
    let workspace = sound();
    workspace.replace("mock-configs/rocm/fedora.toml", "prefix =", "brings = [\"base\"]\nprefix =");
    workspace
        .run(&["plan"])
        .exits(0)
        .reports(["`base` is left out: the ROCm provider `fedora` already includes it"])
        .prints(["top"]);
    workspace.replace("mock-configs/rocm/fedora.toml", "[\"base\"]", "[\"bass\"]");
    workspace.run(&["plan"]).exits(3).reports([
        "unknown component `bass`",
        "fedora.toml:1:11",
        "did you mean `base`?",
    ]);
}

#[test]
fn checks_closure_decisions() {
    let workspace = sound();
    workspace.write(
        "specs-templates/top/component.toml",
        r#"requires = ["base"]

[closure]
requirements = ["requirements.txt", "../requirements.txt"]
runtime = "a b"
extra = []

[[closure.member]]
name = "Ruamel_YAML"
place = "privat"
from = "sidst"
reason = "x"

[[closure.member]]
name = "ray"
place = "dropped"
reason = "x"

[[closure.member]]
name = "ray"
place = "rpm"
without = "serving"

[[closure.member]]
place = "system"
reason = ""
"#,
    );
    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    assert_eq!(ran.stdout, "");
    ran.reports([
        "error: the path leads out of the source\n --> specs-templates/top/component.toml:4:37",
        "error: `a b` cannot be a package's name\n --> specs-templates/top/component.toml:5:11",
        "error: unknown key `extra`\n --> specs-templates/top/component.toml:6:1",
        "help: did you mean `extras`?",
        "error: this is not a normalized name\n --> specs-templates/top/component.toml:9:8",
        "help: did you mean `ruamel-yaml`?",
        "error: unknown place `privat`\n  --> specs-templates/top/component.toml:10:9",
        "expected one of system, rpm, private, dropped",
        "help: did you mean `private`?",
        "error: unknown from `sidst`\n  --> specs-templates/top/component.toml:11:8",
        "error: a dropped member needs `without`\n  --> specs-templates/top/component.toml:14:1",
        "error: `without` is for dropped members",
        "error: `reason` is missing in `[closure.member]`\n  --> specs-templates/top/component.toml:19:1",
        "error: `name` is missing in `[closure.member]`\n  --> specs-templates/top/component.toml:24:1",
        "error: `reason` must not be empty\n  --> specs-templates/top/component.toml:26:10",
        "11 mistakes in the workspace's files",
    ]);
    workspace.write(
        "specs-templates/top/component.toml",
        "[[closure.member]]\nname = \"ray\"\nreason = \"x\"\n\n[[closure.member]]\nname = \"ray\"\nreason = \"y\"\n",
    );
    workspace.run(&["plan"]).exits(3).reports([
        "`ray` has two `[[closure.member]]` tables",
        "component.toml:6:8",
        "remove one of the two",
    ]);
    workspace.write("specs-templates/base/component.toml", "[closure]\n");
    workspace.write("specs-templates/top/component.toml", "[closure]\n");
    workspace.run(&["plan"]).exits(3).reports(["`base` already has a `[closure]` table"]);
}
