//! What a user sees whose workspace has mistakes: all of them at once, each with its
//! file, line, column, the text there, and the nearest right name.

use crate::support;
use crate::support::{Index, Workspace};
use snapbox::{assert_data_eq, str};

/// A sound workspace of two components, `base` and `top`, which requires `base`.
/// The chroot is `fedora-43`, so that nothing depends on this machine.
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
fn a_sound_workspace_has_no_mistakes() {
    sound().run(&["plan"]).exits(0).prints(["base", "top"]);
}

#[test]
fn the_mistakes_of_all_files_are_told_at_once() {
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
    workspace.write("specs-templates/top/component.toml", "requires = [\"bsae\"]\noptinal = true\n");
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
  |                           ^^^^^^^^^ not a name that LLVM's AMDGPU backend knows
  |
  = help: did you mean `gfx1151`?

error: unknown chroot `fedora-34`
 --> rocmrpm.toml:4:18
  |
4 | default-chroot = "fedora-34"
  |                  ^^^^^^^^^^^ there is nothing of this name
  |
  = help: did you mean `fedora-43`?

error: unknown key `defualt-pins`
 --> rocmrpm.toml:5:1
  |
5 | defualt-pins = "stable"
  | ^^^^^^^^^^^^ not a key of this table
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
  |                ^^^^^^^^^ not a name that LLVM's AMDGPU backend knows
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
  |             ^^^^^^ there is nothing of this name
  |
  = help: did you mean `base`?

error: unknown key `optinal`
 --> specs-templates/top/component.toml:2:1
  |
2 | optinal = true
  | ^^^^^^^ not a key of this table
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
  |  ^^^ there is nothing of this name
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
  |                 ^^^^^^^^ there is nothing of this name
  |
  = help: did you mean `fedora`?

error: unknown key `develop`
 --> mock-configs/rocm/fedora.toml:5:1
  |
5 | develop = "rocm-hip-devel"
  | ^^^^^^^ not a key of this table
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
fn a_syntax_error_hides_no_other_file() {
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
  |             ^^^^^^ there is nothing of this name
  |
  = help: did you mean `base`?

error: 3 mistakes in the workspace's files

"#]]
    );
}

#[test]
fn one_slip_is_one_mistake() {
    for (file, old, new, place) in [
        ("rocmrpm.toml", "gfx1151\"", "gfx1151", "rocmrpm.toml:3:"),
        ("rocmrpm.toml", "\"fedora-43\"", "\"fedora-43", "rocmrpm.toml:4:"),
        ("pins/stable.toml", "[base]", "[base", "pins/stable.toml:1:"),
        ("pins/stable.toml", "[top]", "[base]", "pins/stable.toml:5:"),
        ("mock-configs/fedora-43.toml", "\"fedora\"", "\"fed", "mock-configs/fedora-43.toml:5:"),
        ("specs-templates/top/component.toml", "base\"]", "bas", "specs-templates/top/component.toml:1:"),
    ] {
        let workspace = sound();
        workspace.replace(file, old, new);
        let ran = workspace.run(&["plan"]);
        ran.exits(3).says(["error: this is not valid TOML", place]);
        let one = "error: 1 mistake in the workspace's files";
        assert!(ran.stderr.contains(one), "{file} with `{new}`:\n{}", ran.stderr);
    }
}

#[test]
fn a_folder_that_is_no_component_is_told_once() {
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
 = help: a component has one, if an empty one; folders beginning with `_` are no components

error: the component has 0 spec templates, not one
--> specs-templates/base/component.toml
 = help: keep exactly one `*.spec.tera` in its folder

error: 2 mistakes in the workspace's files

"#]]
    );
}

#[test]
fn components_that_require_each_other_are_told_with_the_path() {
    let workspace = sound();
    workspace.write("specs-templates/base/component.toml", "requires = [\"top\"]\n");
    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: components require each other in a circle: base -> top -> base
 --> specs-templates/top/component.toml:1:13
  |
1 | requires = ["base"]
  |             ^^^^^^ this closes the circle


"#]]
    );
}

#[test]
fn a_component_without_a_supported_target_is_refused_unless_it_is_optional() {
    let workspace = sound();
    workspace.write("specs-templates/top/component.toml", "gpu-targets = [\"gfx942\"]\n");
    workspace.run(&["plan"]).exits(3).says([
        "`top` cannot be built: upstream supports none of the workspace's GPU targets (gfx1151)",
        "--> specs-templates/top/component.toml",
        "set `optional = true`",
    ]);
    workspace.write("specs-templates/top/component.toml", "gpu-targets = [\"gfx942\"]\noptional = true\n");
    let ran = workspace.run(&["plan"]);
    ran.exits(0).says(["warning: `top` is left out"]);
    assert!(!ran.stdout.contains("top"), "{}", ran.stdout);
    workspace.run(&["plan", "top"]).exits(3).says(["error: `top` cannot be built"]);
}

#[test]
fn without_a_workspace_the_way_to_one_is_told() {
    let workspace = Workspace::empty();
    for command in ["plan", "build", "render", "lock", "wheel", "index", "container"] {
        let ran = workspace.run(&[command]);
        ran.exits(3);
        assert_data_eq!(
            ran.stderr,
            str![[r#"
error: there is no `rocmrpm.toml` in `[HOLDER]/workspace` or in any folder above it

help: `rocmrpm init` makes a workspace here; `-C DIR` uses one elsewhere

"#]]
        );
    }
}

#[test]
fn a_workspace_is_found_from_the_folders_below_it() {
    let workspace = sound();
    let below = workspace.path("src/base");
    let ran = workspace.outcome(workspace.command(&["plan"]).current_dir(&below));
    ran.exits(0);
    assert_eq!(ran.stdout, workspace.run(&["plan"]).stdout);
    let mut elsewhere = workspace.command(&["-C", below.to_str().unwrap(), "plan"]);
    assert_eq!(workspace.outcome(elsewhere.current_dir("/")).exits(0).stdout, ran.stdout);
}

#[test]
fn unknown_names_on_the_command_line_name_the_nearest() {
    let workspace = sound();
    for (args, error, help) in [
        (["plan", "--chroot", "fedora-34"], "there is no chroot `fedora-34`", "did you mean `fedora-43`?"),
        (["plan", "--pins", "stabel"], "there is no pin set `stabel`", "did you mean `stable`?"),
        (["plan", "--pins", "nightly"], "there is no pin set `nightly`", "there is: stable"),
        (["plan", "--pin", "tpo=2.1"], "there is no pin `tpo`", "did you mean `top`?"),
        (["plan", "base", "tpo"], "there is no component `tpo`", "did you mean `top`?"),
        (["build", "--until", "rmp"], "there is no stage `rmp`", "did you mean `rpm`?"),
    ] {
        let ran = workspace.run(&args);
        ran.exits(2).says([error, help]);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn an_overriding_version_must_be_one_of_an_rpm() {
    for version in ["2-1", "a b", "%{x}", "$(id)", "'"] {
        let pin = format!("top={version}");
        sound().run(&["plan", "--pin", &pin]).exits(2).says(["cannot be the version of an RPM"]);
    }
    sound().run(&["plan", "--pin", "top"]).exits(2).says(["expected NAME=VERSION"]);
}

#[test]
fn mistakes_in_several_templates_are_told_at_once() {
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
fn a_capability_that_the_provider_lacks_is_shown_in_the_template() {
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
  = help: there is: brings, device_libs, hip, libdir, llvm_bin, prefix, provider, version

error: 1 mistake in the workspace's files

"#]]
    );
}

#[test]
fn a_mistake_in_a_shared_template_is_told_once_and_in_that_file() {
    let workspace = sound();
    workspace.replace("specs-templates/_shared/build-env.tera", "<{ export.value }>", "<{ export.valeu }>");
    let ran = workspace.run(&["render"]);
    ran.exits(3).says(["specs-templates/_shared/build-env.tera:1:"]);
    assert_eq!(ran.stderr.matches("export.valeu").count(), 1, "{}", ran.stderr);
}

#[test]
fn what_a_spec_leaves_out_is_an_error() {
    let workspace = sound();
    workspace.write(
        "specs-templates/top/component.toml",
        "[[edit]]\nfile = \"a.txt\"\nfind = \"a\"\nreplace = \"b\"\nmatches = 1\nreason = \"x\"\n",
    );
    workspace.write("specs-templates/top/0001-x.patch", "Subject: x\n\nOrigin: own\nDrop-When: never\n---\n");
    let pins = workspace.read("pins/stable.toml");
    workspace.write("pins/stable.toml", format!("{pins}[top.sources.more]\npath = \"src/base\"\n"));
    workspace.run(&["render"]).exits(3).says([
        "the template `specs-templates/top/top.spec.tera` leaves out source `top-more-2.0.tar.gz`, \
         patch `0001-x.patch`, edit of 'a.txt'",
        "`<@ include \"_shared/edits.tera\" @>` behind %autosetup",
    ]);
}

#[test]
fn environment_variables_are_checked_before_they_are_rendered() {
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
  |        ^^^ expected letters, digits and `_`, not beginning with a digit

error: `B-AD` cannot be the name of an environment variable
 --> specs-templates/top/component.toml:4:10
  |
4 | "B-AD" = "1"
  |          ^^^ expected letters, digits and `_`, not beginning with a digit

error: unknown placeholder `{prefx}` in `ROCM_PATH`
 --> specs-templates/top/component.toml:3:13
  |
3 | ROCM_PATH = "{prefx}/x"
  |             ^^^^^^^^^^^ there is {prefix} and {gpu-targets}
  |
  = help: did you mean `{prefix}`?

error: 3 mistakes in the workspace's files

"#]]
    );
}

/// Whatever a value has in it, the shell that runs %build sees just that.
#[test]
fn environment_variables_reach_the_build_as_they_were_written() {
    let workspace = sound();
    let values = [("A", "it's"), ("B", "'; touch pwned; '"), ("C", "100%"), ("D", "a\\b \"$HOME\" `id`")];
    let mut text = String::from("[env]\n");
    for (name, value) in values {
        text += &format!("{name} = {}\n", toml_edit::Value::from(value));
    }
    workspace.write("specs-templates/top/component.toml", &text);
    workspace.run(&["render"]).exits(0);
    let spec = support::rpmspec(&workspace.path("build/fedora-43/specs/top.spec"), &["-P"]);
    let exports: Vec<&str> = spec.lines().filter(|line| line.starts_with("export ")).collect();
    let script = format!("{}\nprintf '%s\\n' \"$A\" \"$B\" \"$C\" \"$D\"\n", exports.join("\n"));
    let shown =
        rocmrpm::process::Command::new("bash").args(["-c", &script]).cwd(workspace.root()).text().unwrap();
    let wanted: Vec<&str> = values.iter().map(|(_, value)| *value).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    assert!(!workspace.path("pwned").exists());
}

#[test]
fn refuses_a_pin_without_a_digest_until_it_is_locked() {
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
        let help = format!("help: `rocmrpm lock` fetches it once and records its {missing}");
        let ran = workspace.run_with_index(&index, &["build", "--until", "sources", name]);
        ran.exits(3);
        ran.says([&format!("`{name}`"), &help]);
    }
    assert!(!workspace.path("pins/stable.lock").exists());

    // One source that cannot be had, and nothing is written.
    let nowhere = Index::empty();
    workspace.run_with_index(&nowhere, &["lock"]).exits(3).says(["has no project `hello`"]);
    assert!(!workspace.path("pins/stable.lock").exists());

    workspace.run_with_index(&index, &["lock"]).exits(0).says(["Locked pins/stable.lock: 3 sources"]);
    let lock = workspace.read("pins/stable.lock");
    assert!(lock.contains(workspace.git_in(&upstream, &["rev-parse", "HEAD"]).trim()), "{lock}");
    let digest = rocmrpm::digest::Sha256::of_file(&archive).unwrap().0;
    assert!(lock.contains(&format!("sha256 = \"{digest}\"")), "{lock}");
    assert_eq!(workspace.read("pins/stable.toml"), pins, "the pins themselves stay as they were written");

    workspace.run_with_index(&index, &["lock"]).exits(0).says(["Unchanged pins/stable.lock: 3 sources"]);
    assert_eq!(workspace.read("pins/stable.lock"), lock);
    workspace.run_with_index(&index, &["build", "--until", "sources"]).exits(0).says(["Fetched 3 sources"]);
    workspace.run(&["build", "--until", "sources", "--offline"]).exits(0).says(["Fetched 3 sources"]);
    workspace.run(&["plan"]).exits(0);

    // A file that is no longer what was locked is refused with both digests.
    let other = support::sdist("top", "2.1");
    fs_err::write(&archive, &other).unwrap();
    fs_err::remove_dir_all(workspace.holder().join("cache")).unwrap();
    let found = rocmrpm::digest::Sha256::of_bytes(&other);
    let ran = workspace.run(&["build", "--until", "sources", "top", "--chroot", "fedora-43"]);
    ran.exits(30);
    ran.says([&digest.to_string(), &found.to_string()]);
}

#[test]
fn where_wheels_find_rocm_and_their_requirements_is_checked() {
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
  |        ^^^^^^^^^^ expected `system` or `rocm-sdk`
  |
  = help: did you mean `rocm-sdk`?

error: `my index` is not an index
 --> rocmrpm.toml:5:19
  |
5 | outside = ["pip", "my index"]
  |                   ^^^^^^^^^^ expected `pip` or the URL of a Simple API
  |
  = help: `pip` is the index that this machine's pip uses

error: unknown key `track`
 --> rocmrpm.toml:6:1
  |
6 | track = "pip"
  | ^^^^^ not a key of this table
  |
  = help: did you mean `tracks`?

error: 3 mistakes in the workspace's files

"#]]
    );
}

#[test]
fn what_the_provider_brings_is_not_built() {
    let workspace = sound();
    workspace.replace("mock-configs/rocm/fedora.toml", "prefix =", "brings = [\"base\"]\nprefix =");
    workspace
        .run(&["plan"])
        .exits(0)
        .says(["`base` is left out: the ROCm provider `fedora` brings it"])
        .prints(["top"]);
    workspace.replace("mock-configs/rocm/fedora.toml", "[\"base\"]", "[\"bass\"]");
    workspace.run(&["plan"]).exits(3).says([
        "unknown component `bass`",
        "fedora.toml:1:11",
        "did you mean `base`?",
    ]);
}

#[test]
fn what_is_decided_of_a_closure_is_checked() {
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
    ran.says([
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
    workspace.run(&["plan"]).exits(3).says([
        "`ray` is decided twice",
        "component.toml:6:8",
        "keep one of the two",
    ]);
    workspace.write("specs-templates/base/component.toml", "[closure]\n");
    workspace.write("specs-templates/top/component.toml", "[closure]\n");
    workspace.run(&["plan"]).exits(3).says(["`base` has a table `[closure]` already"]);
}
