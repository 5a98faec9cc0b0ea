//! Every command as users see it: its output on each stream, its exit code, and what it leaves
//! behind when it fails.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;

use crate::support::transcript::Transcript;
use crate::support::{Index, Workspace, golden, project, rpmspec, sdist};

const COMMANDS: &[&str] = &[
    "init",
    "add",
    "lock",
    "pins",
    "prep",
    "patch",
    "audit",
    "lint",
    "render",
    "plan",
    "build",
    "reproduce",
    "shell",
    "inspect",
    "explain",
    "wheel",
    "sdk",
    "index",
    "requirements",
    "publish",
    "publish repository",
    "copr",
    "copr sync",
    "copr push",
    "copr status",
    "copr watch",
    "copr cancel",
    "container",
    "container build",
    "container check",
    "pipeline",
    "pipeline run",
    "pipeline status",
    "pipeline accept",
    "evidence",
    "evidence show",
    "evidence check",
    "evidence export",
    "evidence import",
    "verify",
    "trust",
    "doctor",
    "completions",
];

/// Returns a new workspace with the folder `src/hello`, which is not a component yet.
fn with_source() -> Workspace {
    let workspace = Workspace::init();
    for (path, text) in project("hello", "1.0") {
        workspace.write(format!("src/hello/{path}"), &text);
    }
    workspace
}

/// Returns the same workspace with the component `hello`.
fn with_hello() -> Workspace {
    let workspace = with_source();
    workspace.run(&["add", "hello", "--path", "src/hello", "--version", "1.0"]).exits(0);
    workspace
}

#[test]
fn init_creates_the_folder() {
    let workspace = Workspace::empty();
    let next = "next: `cd new/stack`, then add a component";
    workspace.run(&["init", "new/stack"]).exits(0).reports(["the workspace `stack`", next]);
    workspace.run(&["-C", "new/stack", "plan"]).exits(0);
    workspace.run(&["init", "new/stack"]).exits(2).reports(["is already a workspace"]);
}

#[test]
fn help_goes_to_stdout_and_matches_the_golden_file() {
    let workspace = Workspace::empty();
    let mut all = workspace.run(&["--help"]).exits(0).stdout.clone();
    for command in COMMANDS {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        assert!(
            all.contains(&format!("\n  {} ", words[words.len() - 2])),
            "{command} is not in the list"
        );
        let ran = workspace.run(&words);
        ran.exits(0);
        assert_eq!(ran.stderr, "", "{command}");
        all += &format!("\n$ rocmrpm {command} --help\n{}", ran.stdout);
    }
    golden("help.txt", &all);
}

#[test]
fn help_lists_every_command_in_one_group() {
    let help = Workspace::empty().run(&["--help"]).exits(0).stdout.clone();
    let reference = include_str!("../../docs/reference/commands.md");
    let headings = reference.lines().filter_map(|line| line.strip_prefix("## `rocmrpm "));
    let commands =
        headings.map(|name| name.trim_end_matches('`')).filter(|name| !name.contains(' '));
    let groups: Vec<(&str, &str)> =
        help.split("\n\n").filter_map(|part| part.split_once(":\n")).collect();
    let mut grouped = 0;
    for command in commands {
        let has = |(_, list): &&(&str, &str)| {
            list.lines().any(|line| line.starts_with(&format!("  {command} ")))
        };
        let found: Vec<&str> = groups.iter().filter(has).map(|(heading, _)| *heading).collect();
        assert_eq!(found.len(), 1, "{command}: {found:?}");
        grouped += 1;
    }
    assert!(grouped > 30, "{grouped}");
    assert!(help.contains("\n\nBuild:\n  plan "), "{help}");
}

#[test]
fn old_names_of_commands_work_but_are_not_in_the_help() {
    let workspace = with_hello();
    for args in [&["audit", "nosuch"][..], &["audit", "offline", "nosuch"]] {
        workspace.run(args).exits(2).reports(["there is no component `nosuch`"]);
    }
    for option in ["--check", "--verify"] {
        let note = "no component with a Python distribution has been built for host";
        workspace.run(&["wheel", option, "--chroot", "host"]).exits(0).reports([note]);
    }
    assert!(!workspace.run(&["audit", "--help"]).stdout.contains("audit offline"));
    assert!(!workspace.run(&["wheel", "--help"]).stdout.contains("--verify"));
}

#[test]
fn prints_the_version() {
    let ran = Workspace::empty().run(&["--version"]);
    ran.exits(0);
    assert_eq!(ran.stdout, concat!("rocmrpm ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn misuse_exits_with_2_and_prints_nothing_to_stdout() {
    let workspace = Workspace::init();
    for (args, message) in [
        (&[][..], "Usage: rocmrpm"),
        (&["plna"], "'plan'"),
        (&["plan", "--jsno"], "'--json'"),
        (&["plan", "--builder", "koji"], "[possible values: mock, host]"),
        (&["add"], "<NAME>"),
        (&["add", "x", "--url", "https://h/x.tar.gz"], "--version"),
        (
            &["add", "x", "--version", "1", "--url", "https://h/x", "--git", "https://h/y"],
            "cannot be used with",
        ),
        (&["inspect"], "<PATH>"),
        (&["completions", "tcsh"], "possible values"),
        (&["build", "--color", "blue"], "always"),
    ] {
        let ran = workspace.run(args);
        ran.exits(2).reports([message]);
        assert_eq!(ran.stdout, "", "{args:?}");
    }
}

#[test]
fn closed_pipe_is_not_an_error() {
    let workspace = with_hello();
    for args in ["completions bash", "--help", "plan --json", "doctor"] {
        let script = format!(
            "set -o pipefail; {{ sleep 0.3; exec '{}' {args}; }} | true",
            env!("CARGO_BIN_EXE_rocmrpm")
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .current_dir(workspace.root())
            .env("ROCMRPM_CACHE", workspace.holder().join("cache"))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !stderr.contains("error"),
            "{args}: {}\n{stderr}",
            output.status
        );
    }
}

#[test]
fn uses_colors_only_if_wanted() {
    let workspace = with_hello();
    let colored = |variables: &[(&str, &str)], args: &[&str]| {
        let ran = workspace.outcome(workspace.command(args).envs(variables.iter().copied()));
        (ran.stdout.contains('\x1b'), ran.stderr.contains('\x1b'))
    };
    let unknown = ["plan", "--chroot", "x"];
    assert_eq!(colored(&[], &["plan"]), (false, false), "neither stream is a terminal");
    assert_eq!(colored(&[], &["plan", "--color", "always"]), (true, false));
    assert_eq!(colored(&[], &["--color", "always", "plan", "--chroot", "x"]), (false, true));
    assert_eq!(colored(&[("CLICOLOR_FORCE", "1")], &["plan"]), (true, false));
    assert_eq!(colored(&[("CLICOLOR_FORCE", "1")], &["--color=never", "plan"]), (false, false));
    assert_eq!(colored(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &unknown), (false, false));
    assert_eq!(
        colored(&[], &["plan", "--json", "--color", "always"]),
        (false, false),
        "JSON is never colored"
    );
}

#[test]
fn quiet_prints_only_data_warnings_and_errors() {
    let workspace = with_hello();
    let loud = workspace.run(&["plan"]);
    loud.exits(0);
    let quiet = workspace.run(&["plan", "-q"]);
    quiet.exits(0);
    assert_eq!((quiet.stdout, quiet.stderr), (loud.stdout, String::new()));
    for args in
        [&["render"][..], &["lock"], &["render", "--check"], &["build", "--until", "sources"]]
    {
        assert_ne!(workspace.run(args).exits(0).stderr, "", "{args:?}");
        assert_eq!(workspace.run(&[args, &["--quiet"]].concat()).exits(0).stderr, "", "{args:?}");
    }
    for (args, schema) in [
        (&["render", "--json"][..], "rocmrpm/render/1"),
        (&["build", "--until", "sources", "--json"], "rocmrpm/sources/1"),
        (&["build", "--until", "spec", "--json"], "rocmrpm/specs/1"),
    ] {
        workspace.run(args).exits(0).document(schema);
    }
    workspace
        .run(&["-q", "plan", "--chroot", "x"])
        .exits(2)
        .reports(["error: there is no chroot `x`", "help: "]);
    workspace.replace("mock-configs/fedora-43.toml", "2026-12-02", "2020-01-01");
    workspace
        .run(&["-q", "plan"])
        .exits(0)
        .reports(["warning: fedora-43 reached its end of life on 2020-01-01"]);
}

#[test]
fn init_creates_a_workspace_and_keeps_existing_files() {
    let workspace = Workspace::empty();
    workspace.write("pins/stable.toml", "# mine\n");
    workspace
        .run(&["init"])
        .exits(0)
        .reports(["the workspace `workspace` in [HOLDER]/workspace", "`rocmrpm add NAME`"]);
    assert_eq!(workspace.read("pins/stable.toml"), "# mine\n");
    workspace.run(&["plan"]).exits(0);
    workspace.run(&["render"]).exits(0);
    let before = workspace.files();
    workspace
        .run(&["init"])
        .exits(2)
        .reports(["error: `[HOLDER]/workspace` is already a workspace", "rocmrpm add NAME"]);
    assert!(workspace.files() == before);
    // In another folder, with several targets; a name that needs quotes is rejected first.
    let named = |name| {
        let targets = ["--gpu-target", "gfx1151", "--gpu-target", "gfx942"];
        workspace.run(&[&["-C", "new/deep", "init", "--name", name], targets.as_slice()].concat())
    };
    named("a \"b\"\nFROM evil")
        .exits(2)
        .reports(["is not a valid name for a stack", "rocmrpm init --name NAME"]);
    assert!(!workspace.path("new/deep/rocmrpm.toml").exists());
    named("deep").exits(0);
    workspace.run(&["-C", "new/deep", "plan"]).exits(0);
    assert!(
        workspace.read("new/deep/rocmrpm.toml").contains("gpu-targets = [\"gfx1151\", \"gfx942\"]")
    );
}

#[test]
fn init_rejects_unknown_gpu_target_before_writing() {
    let workspace = Workspace::empty();
    let ran = workspace.run(&["init", "--gpu-target", "gfx1511"]);
    ran.exits(2);
    ran.reports(["error: unknown GPU target `gfx1511`", "help: did you mean `gfx1151`?"]);
    assert!(workspace.files().is_empty());
}

#[test]
fn add_pins_an_sdist_from_the_index() {
    let workspace = Workspace::init();
    let index = Index::with_hello("1.0");
    index.add("hello", "1.1", &sdist("hello", "1.1"));
    let ran = workspace.run_with_index(&index, &["add", "hello"]);
    ran.exits(0);
    assert_eq!(ran.stdout, "");
    ran.reports([
        "Added specs-templates/hello/component.toml",
        "Added specs-templates/hello/python-hello.spec.tera",
        "Pinned hello 1.1 in pins/stable.toml",
        "`rocmrpm build hello`",
    ]);
    let digest = rocmrpm::digest::Sha256::of_bytes(sdist("hello", "1.1"));
    let pin = format!(
        "adds one.\n\n[hello]\nversion = \"1.1\"\nsdist = \"hello\"\nsha256 = \"{digest}\"\n"
    );
    assert!(
        workspace.read("pins/stable.toml").ends_with(&pin),
        "{}",
        workspace.read("pins/stable.toml")
    );
    // The spec has the metadata of the project, including percent signs.
    workspace.run(&["render"]).exits(0);
    let spec = workspace.path("build/fedora-43/specs/python-hello.spec");
    let metadata =
        rpmspec(&spec, &["-q", "--srpm", "--qf", "%{version}|%{summary}|%{license}|%{url}"]);
    assert_eq!(metadata, "1.1|Says 100% hello|MIT|https://example.org/hello");
    // Add an older version under another name to the same set.
    workspace
        .run_with_index(&index, &["add", "hello-old", "--sdist", "hello", "--version", "1.0"])
        .exits(0);
    workspace.run_with_index(&index, &["build", "--until", "sources", "--chroot", "host"]).exits(0);
}

#[test]
fn add_pins_git_tags_and_urls() {
    let workspace = Workspace::init();
    let upstream = workspace.holder().join("upstream");
    fs_err::create_dir(&upstream).unwrap();
    fs_err::write(upstream.join("CMakeLists.txt"), "project(x)\n").unwrap();
    for args in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "x"], &["tag", "v2.0"]]
    {
        workspace.git_in(&upstream, args);
    }
    let url = format!("file://{}", upstream.display());
    workspace
        .run(&["add", "lib", "--git", &url, "--version", "2.0"])
        .exits(0)
        .reports(["lib.spec.tera", "warning: lib: check `License:`"]);
    let commit = workspace.git_in(&upstream, &["rev-parse", "HEAD"]);
    assert!(
        workspace.read("pins/stable.toml").contains(&format!("commit = \"{}\"", commit.trim()))
    );

    fs_err::write(workspace.holder().join("hello-1.0.tar.gz"), sdist("hello", "1.0")).unwrap();
    let url = format!("file://{}/hello-{{version}}.tar.gz", workspace.holder().display());
    workspace
        .run(&["add", "hello", "--url", &url, "--version", "1.0"])
        .exits(0)
        .reports(["python-hello.spec.tera"]);
    assert!(
        workspace.read("pins/stable.toml").contains(&format!("url = \"{url}\"")),
        "the version stays a placeholder"
    );
    workspace.run(&["render"]).exits(0);
    for name in ["lib", "python-hello"] {
        rpmspec(&workspace.path(format!("build/fedora-43/specs/{name}.spec")), &["-P"]);
    }
}

#[test]
fn add_accepts_folders_as_shells_complete_them() {
    for spelling in ["src/hello", "./src/hello", "src/hello/", "[ROOT]/src/hello"] {
        let workspace = with_source();
        let path = spelling.replace("[ROOT]", workspace.root().to_str().unwrap());
        workspace.run(&["add", "hello", "--path", &path, "--version", "1.0"]).exits(0);
        assert!(workspace.read("pins/stable.toml").contains("path = \"src/hello\"\n"), "{path}");
        workspace.run(&["plan"]).exits(0).prints(["hello      1.0-1    build"]);
    }
}

#[test]
fn rejected_add_leaves_nothing_behind() {
    let workspace = with_hello();
    let index = Index::with_hello("1.0");
    index.add("page", "1.0", b"<html>not an archive</html>");
    let before = workspace.files();
    for (args, code, message) in [
        (&["Hello World"][..], 2, "`Hello World` is not a valid name for a component"),
        (&["../x"], 2, "`../x` is not a valid name for a component"),
        (&["_shared"], 2, "is not a valid name for a component"),
        (&["hello"], 2, "the component `hello` already exists"),
        (&["nosuch"], 3, "has no project `nosuch`"),
        (&["h2", "--sdist", "hello", "--version", "9.9"], 3, "has no sdist of `hello` 9.9"),
        (
            &["h2", "--path", "../elsewhere", "--version", "1"],
            2,
            "is not a folder inside the workspace",
        ),
        (
            &["h2", "--path", "/usr/share", "--version", "1"],
            2,
            "is not a folder inside the workspace",
        ),
        (&["h2", "--path", ".", "--version", "1"], 2, "is not a folder inside the workspace"),
        (&["h2", "--path", "src/nosuch", "--version", "1"], 3, "does not exist"),
        (
            &["h2", "--path", "src/hello", "--version", "1-2"],
            2,
            "`1-2` cannot be the version of an RPM",
        ),
        (&["h2", "--url", "ftp://h/x", "--version", "1"], 2, "not a URL that can be fetched"),
        (
            &["h2", "--url", "file:///nosuch-{version}.tar.gz", "--version", "1"],
            30,
            "file:///nosuch-1.tar.gz",
        ),
        (&["h2", "--git", "file:///nosuch", "--version", "1"], 30, "file:///nosuch"),
        (&["h2", "--pins", "stabel"], 2, "did you mean `stable`?"),
        (&["page"], 3, "page-1.0.tar.gz"),
    ] {
        let ran = workspace.run_with_index(&index, &[&["add"], args].concat());
        ran.exits(code).reports(["error: ", message]);
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(workspace.files() == before, "{args:?} left something behind");
    }
}

/// From an empty folder to a package, and the effects of a change.
#[test]
fn builds_and_rebuilds_a_first_package() {
    let workspace = with_hello();
    let plan = workspace.run(&["plan", "--chroot", "host"]);
    plan.exits(0);
    plan.prints([
        "WAVE  COMPONENT  VERSION  PLAN   WHY\n1     hello      1.0-1    build  it was never built\n",
    ]);
    let build = ["build", "--chroot", "host", "--until", "rpm"];
    let ran = workspace.run(&build);
    ran.exits(0);
    assert_eq!(ran.stdout, "");
    ran.reports(["Built hello 1 RPM", "Finished 1 built, 0 fresh", "build/host/repository"]);
    assert!(!ran.stderr.contains("error"), "{}", ran.stderr);
    let rpm = "build/host/results/hello/python3-hello-1.0-1.noarch.rpm";
    ran.reports([rpm, "rocmrpm inspect build/host/results/hello/*.rpm"]);
    assert!(workspace.path(rpm).exists(), "{}", ran.stderr);
    workspace.run(&["inspect", rpm]).exits(0).prints(["python3-hello-1.0-1.noarch", "no findings"]);

    workspace.run(&["plan", "--chroot", "host"]).exits(0).prints(["fresh  nothing changed"]);
    let built = fs_err::metadata(workspace.path(rpm)).unwrap().modified().unwrap();
    workspace.run(&build).exits(0).reports(["Finished 0 built, 1 fresh"]);
    assert_eq!(fs_err::metadata(workspace.path(rpm)).unwrap().modified().unwrap(), built);

    let why = |workspace: &Workspace| {
        let plan = workspace
            .run(&["plan", "--chroot", "host", "--json"])
            .exits(0)
            .document("rocmrpm/plan/2");
        plan["steps"][0]["reasons"].to_string()
    };
    workspace.replace("src/hello/hello/__init__.py", "hello", "good morning");
    assert_eq!(why(&workspace), "[\"source changed\"]");
    workspace.replace("rocmrpm.toml", "gfx1151\"]", "gfx1151\", \"gfx1100\"]");
    assert!(why(&workspace).contains("GPU targets changed"), "{}", why(&workspace));
    workspace.run(&build).exits(0).reports(["Finished 1 built, 0 fresh"]);
    fs_err::remove_file(workspace.path(rpm)).unwrap();
    assert!(why(&workspace).contains("python3-hello-1.0-1.noarch.rpm"), "{}", why(&workspace));

    // A build does not expand macros, so that a placeholder in one reaches the package.
    let template = "specs-templates/hello/python-hello.spec.tera";
    workspace.replace(template, "License:        MIT", "License:        %{words}");
    workspace.replace(template, "Name:", "%global words TODO\nName:");
    workspace.run(&build).exits(0);
    workspace.run(&["publish", "repository", "../published", "--chroot", "host"]).exits(1).reports(
        ["python3-hello-1.0-1.noarch.rpm is not finished: `License` has the placeholder `TODO`"],
    );
}

#[test]
fn json_commands_print_only_a_document_with_its_schema() {
    let workspace = with_hello();
    for (args, schema) in [
        (&["plan", "--json"][..], "rocmrpm/plan/2"),
        (&["wheel", "--json"], "rocmrpm/wheel/1"),
        (&["index", "--json"], "rocmrpm/index/1"),
        (&["doctor", "--json"], "rocmrpm/doctor/2"),
        (&["inspect", "--json", "src"], "rocmrpm/inspection/4"),
    ] {
        workspace.run(args).document(schema);
    }
    let plan = workspace.run(&["plan", "--json"]).document("rocmrpm/plan/2");
    let step = &plan["steps"][0];
    assert_eq!(plan["chroot"], "fedora-43");
    assert_eq!((plan["stale"].as_u64(), step["wave"].as_u64()), (Some(1), Some(1)));
    assert_eq!(step["reasons"][0], "it was never built");
    // A failed build also prints a document; the error is on stderr.
    workspace.replace("specs-templates/hello/python-hello.spec.tera", "Summary: ", "Sumary: ");
    let ran = workspace.run(&["build", "--chroot", "host", "--until", "srpm", "--json"]);
    ran.exits(3);
    let run = ran.document("rocmrpm/run/2");
    assert_eq!(
        (run["complete"].as_bool(), &run["components"][0]["outcome"]),
        (Some(false), &"failed".into())
    );
    assert_eq!(run["components"][0]["problems"][0]["line"], 7);
    ran.reports(["error: rpm rejects the spec", "error: `hello` failed"]);
}

#[test]
fn inspect_reports_unreadable_files() {
    let workspace = Workspace::init();
    workspace.write("notes.txt", "hello\n");
    workspace.write("broken.rpm", "\u{feff}no RPM");
    workspace.write("broken.whl", "no wheel");
    for (path, message) in [
        ("nosuch", "nosuch: no such file or folder"),
        ("notes.txt", "notes.txt: not an RPM, wheel, tar archive, ELF file, code object"),
        ("broken.rpm", "broken.rpm"),
        ("broken.whl", "broken.whl"),
    ] {
        let ran = workspace.run(&["inspect", path]);
        assert!(matches!(ran.code, Some(1..=3)), "{path}: {ran:?}");
        assert_eq!(ran.stdout, "", "{path}");
        ran.reports(["error: ", message]);
    }
    workspace
        .run(&["inspect", "--gpu-target", "gfx1511", "src"])
        .exits(2)
        .reports(["did you mean `gfx1151`?"]);
    // It also works outside of any workspace.
    let bin = env!("CARGO_BIN_EXE_rocmrpm");
    let ran =
        workspace.outcome(workspace.command(&["inspect", bin]).current_dir(workspace.holder()));
    ran.exits(0);
    ran.prints(["rocmrpm", "libc.so.6", "no findings"]);
    // Files have no colors, whatever `--color` is.
    for color in ["--color=never", "--color=always"] {
        workspace.run(&["inspect", color, bin, "--output", "inspection.txt"]).exits(0);
        let text = workspace.read("inspection.txt");
        assert!(text.contains("no findings") && !text.contains('\u{1b}'), "{text}");
    }
    // A mistake in the workspace is reported, although only its targets are needed.
    workspace.replace("rocmrpm.toml", "gfx1151\"]", "gfx1511\"]");
    workspace.run(&["inspect", bin]).exits(3).reports(["--> rocmrpm.toml:6:"]);
}

#[test]
fn doctor_lists_missing_tools_with_packages() {
    let workspace = Workspace::empty();
    let mut command = workspace.command(&["doctor"]);
    command.env("PATH", workspace.holder()).env("PIP_INDEX_URL", "https://me:secret@h/simple");
    let ran = workspace.outcome(command);
    ran.exits(40);
    ran.prints([
        "rpmbuild",
        "missing",
        "`dnf install rpm-build`",
        "`apt-get install rpm`",
        "https://h/simple",
    ]);
    assert!(!ran.stdout.contains("secret"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    workspace.run(&["doctor"]).exits(0).prints([
        "rpmbuild",
        "found",
        "file:///nonexistent/simple",
        "[HOLDER]/cache",
    ]);
}

/// Returns the folder with the files of a machine with Strix Halo, as its kernel writes them.
fn strix_halo() -> String {
    format!("{}/tests/machines/strix-halo", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn doctor_shows_the_gpu_and_how_to_fix_what_it_finds() {
    let workspace = Workspace::empty();
    let doctor = |args: &[&str]| {
        let mut command = workspace.command(&[&["doctor", "--root", &strix_halo()], args].concat());
        command.env("HSA_OVERRIDE_GFX_VERSION", "11.0.0");
        workspace.outcome(command)
    };
    let ran = doctor(&[]);
    ran.exits(0).prints([
        "gfx1151: 0.5 GiB reserved, up to 62.8 GiB of 125.7 GiB shared, MES firmware 0x80",
        "6.18.9-200.fc43.x86_64",
        "GPU settings  HSA_OVERRIDE_GFX_VERSION=11.0.0",
        "\nnote: the GPU may use 62.8 GiB of 125.7 GiB, the default\n  \
         help: to give it more, run `rocmrpm doctor --gpu-memory GIB`\n",
        "\nerror: `HSA_OVERRIDE_GFX_VERSION=11.0.0` makes programs run code for gfx1100 on gfx1151: \
         wrong results, illegal instructions, and crashes are possible\n  \
         help: run `unset HSA_OVERRIDE_GFX_VERSION`\n",
    ]);
    let json = doctor(&["--json"]).exits(0).document("rocmrpm/doctor/2");
    assert_eq!(json["gpu"]["gpus"][0]["target"], "gfx1151");
    assert_eq!(json["gpu"]["limit"], 67_459_072_000_u64);
    let topics: Vec<&str> = json["gpu_findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["topic"].as_str().unwrap())
        .collect();
    assert_eq!(topics, ["memory", "override"]);
    assert!(json["gpu_memory"].is_null());
}

/// Runs as another user if the test runs as root, who can open every file.
#[test]
fn doctor_names_the_group_that_may_open_the_gpu() {
    let workspace = Workspace::empty();
    let dir = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    fs_err::set_permissions(dir.path(), mode(0o755)).unwrap();
    let (program, root) = (dir.path().join("rocmrpm"), dir.path().join("root"));
    // The target folder may only be readable by root.
    fs_err::copy(env!("CARGO_BIN_EXE_rocmrpm"), &program).unwrap();
    let mut copy = std::process::Command::new("cp");
    assert!(copy.arg("-r").arg(strix_halo()).arg(&root).status().unwrap().success());
    let kfd = root.join("dev/kfd");
    let gid = fs_err::metadata(&kfd).unwrap().gid();
    fs_err::write(root.join("etc/group"), format!("render:x:{gid}:\n")).unwrap();
    fs_err::set_permissions(&kfd, mode(0o060)).unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(["doctor", "--json", "--root"]).arg(&root);
    workspace.settle(&mut command);
    command.current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let json = workspace.outcome(command).exits(0).document("rocmrpm/doctor/2");
    let file = &json["gpu"]["files"][0];
    assert_eq!((&file["accessible"], &file["group"]), (&false.into(), &"render".into()));
    let finding = &json["gpu_findings"][0];
    assert_eq!(finding["topic"], "access");
    assert!(finding["found"].as_str().unwrap().contains("cannot open `/dev/kfd`"), "{finding}");
    let help = "run `sudo usermod -aG render,video \"$USER\"`, then log in again";
    assert_eq!(finding["help"], help);
}

#[test]
fn doctor_prints_the_command_that_gives_the_gpu_memory() {
    let workspace = Workspace::empty();
    let root = strix_halo();
    let ran = workspace.run(&["doctor", "--root", &root, "--gpu-memory", "96"]);
    ran.exits(0);
    Transcript::block("docs/stack/use.md", "rocmrpm doctor --gpu-memory 96")
        .assert_prints(&ran.stdout);
    // The page's test does not compare numbers with units of bytes.
    ran.prints(["96 GiB of 125.7 GiB.\n29.7 GiB remain", "--args=ttm.pages_limit=25165824\n"]);
    let json = workspace.run(&["doctor", "--root", &root, "--gpu-memory", "96", "--json"]);
    let json = json.exits(0).document("rocmrpm/doctor/2");
    assert_eq!(json["gpu_memory"]["pages"], 25_165_824);
    workspace.run(&["doctor", "--root", &root, "--gpu-memory", "124"]).exits(2).reports([
        "error: cannot give the GPU 124 GiB: this machine has 125.7 GiB, and the system needs 8 GiB",
        "help: use `--gpu-memory 117` or less",
    ]);
    workspace.run(&["doctor", "--root", &root, "--gpu-memory", "0"]).exits(2);
}

#[test]
fn doctor_needs_no_gpu() {
    let workspace = Workspace::empty();
    let root = workspace.root().to_str().unwrap().to_owned();
    let ran = workspace.run(&["doctor", "--root", &root]);
    ran.exits(0)
        .prints(["GPU driver   no AMD GPU: device code cannot run here; builds do not need one\n"]);
    assert!(!ran.stdout.contains("kernel  ") && !ran.stdout.contains("help:"), "{}", ran.stdout);
    workspace.run(&["doctor", "--root", &root, "--gpu-memory", "8"]).exits(20).reports([
        "error: this machine has no AMD GPU that uses the system's memory",
        "help: run the command on the machine with the integrated GPU",
    ]);
}

#[test]
fn workspace_in_git_requires_git() {
    let workspace = with_hello();
    workspace.commit("Begin");
    let ran = workspace.outcome(workspace.command(&["render"]).env("PATH", "/nonexistent"));
    ran.exits(40);
    ran.reports([
        "error: cannot read the git history",
        "the program `git` is not installed",
        "`apt-get install git`",
    ]);
}

#[test]
fn container_prints_and_writes_the_same_text() {
    let workspace = with_hello();
    workspace
        .run(&["container"])
        .exits(3)
        .reports(["no component lists packages for the image", "[container]"]);
    workspace.write(
        "specs-templates/hello/component.toml",
        "[container]\npackages = [\"python3-hello\"]\n",
    );
    let printed = workspace.run(&["container", "--print"]);
    printed.exits(0);
    assert!(!workspace.path("Containerfile.fedora43").exists());
    assert_eq!(
        workspace.run(&["container"]).exits(0).reports(["Rendered Containerfile.fedora43"]).stdout,
        ""
    );
    assert_eq!(workspace.read("Containerfile.fedora43"), printed.stdout);
    workspace.run(&["container"]).exits(0).reports(["Unchanged Containerfile.fedora43"]);
    workspace
        .run(&["container", "--chroot", "host"])
        .exits(3)
        .reports(["has no `container-image`", "mock-configs/host.toml"]);
}
