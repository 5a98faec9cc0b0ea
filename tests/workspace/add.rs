//! What `rocmrpm add` drafts, what keeps an unfinished package from getting out, and the user's
//! defaults.

use std::io::Write;

use crate::support::{Index, Workspace, sdist};

/// Returns a workspace with the component `x`, whose source does not state its license.
fn unfinished() -> Workspace {
    let workspace = Workspace::init();
    workspace.write("src/x/pyproject.toml", "[project]\nname = \"x\"\nversion = \"1.5\"\n");
    workspace.write("src/x/x.py", "");
    workspace.run(&["add", "x", "--path", "src/x"]).exits(0).reports([
        "Pinned x 1.5",
        "warning: x: check `License:`: the source does not state a license, and has no license file",
    ]);
    workspace
}

#[test]
fn adds_several_projects_under_normalized_names() {
    let workspace = Workspace::init();
    let index = Index::with_hello("1.0");
    index.add("hello-old", "0.9", &sdist("hello_old", "0.9"));
    index.add("hello-old", "1.0", &sdist("hello_old", "1.0"));
    let ran = workspace.run_with_index(&index, &["add", "hello", "Hello_Old==0.9"]);
    ran.exits(0).reports([
        "Pinned hello 1.0",
        "Pinned hello-old 0.9",
        "`rocmrpm build hello hello-old`",
    ]);
    let pins = workspace.read("pins/stable.toml");
    assert!(pins.contains("[hello-old]\nversion = \"0.9\"\nsdist = \"Hello_Old\"\n"), "{pins}");
    let template = workspace.read("specs-templates/hello-old/python-hello-old.spec.tera");
    for line in [
        "Name:           python-hello-old\n",
        "Summary:        Says 100%% hello\n",
        "License:        MIT\n",
        "URL:            https://example.org/hello_old\n",
        "BuildArch:      noarch\n",
        "%pyproject_save_files hello_old\n",
        "%check\n%pyproject_check_import -t\n",
        "%license LICENSE\n",
    ] {
        assert!(template.contains(line), "{line}: {template}");
    }
    assert!(!template.contains("gcc"), "{template}");
    workspace.run(&["lint"]).exits(0).prints(["0 errors, 0 warnings in 2 specs"]);
    // Nothing is written unless all can be added.
    let before = workspace.files();
    workspace.run_with_index(&index, &["add", "hello-old2==1.0", "nosuch"]).exits(3);
    workspace
        .run_with_index(&index, &["add", "a", "b", "--version", "1"])
        .exits(2)
        .reports(["`NAME==VERSION`"]);
    assert!(workspace.files() == before);
}

/// Returns the wheel of a project with the module `files/` and a program.
fn wheel(name: &str, version: &str, license: &str) -> Vec<u8> {
    let info = format!("{name}-{version}.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nSummary: Does it\n\
         License-Expression: {license}\n"
    );
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, text) in [
        ("files/__init__.py", ""),
        (&format!("{info}/METADATA"), metadata.as_str()),
        (
            &format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        (&format!("{info}/entry_points.txt"), "[console_scripts]\nrun-files = files:main\n"),
        (&format!("{info}/RECORD"), ""),
    ] {
        archive.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn reads_upstreams_wheel() {
    let workspace = Workspace::init();
    let index = Index::with_hello("1.0");
    // The wheel lists other modules than the source has, and a program.
    index.add_file("hello", "hello-1.0-py3-none-any.whl", &wheel("hello", "1.0", "MIT"));
    index.add_file("only", "only-2.0-py3-none-any.whl", &wheel("only", "2.0", "BSD-3-Clause"));
    workspace.run_with_index(&index, &["add", "hello"]).exits(0);
    let template = workspace.read("specs-templates/hello/python-hello.spec.tera");
    for line in
        ["BuildArch:      noarch\n", "%pyproject_save_files files\n", "%{_bindir}/run-files\n"]
    {
        assert!(template.contains(line), "{line}: {template}");
    }
    workspace
        .run_with_index(&index, &["add", "only"])
        .exits(3)
        .reports(["has no sdist of `only`", "`rocmrpm add only --wheel`"]);
    workspace
        .run_with_index(&index, &["add", "only", "--wheel"])
        .exits(0)
        .reports(["Pinned only 2.0"]);
    let pins = workspace.read("pins/stable.toml");
    assert!(
        pins.contains("[only]\nversion = \"2.0\"\nwheel = \"only-2.0-py3-none-any.whl\"\n"),
        "{pins}"
    );
    let template = workspace.read("specs-templates/only/python-only.spec.tera");
    for line in
        ["License:        BSD-3-Clause\n", "not\nbuilt from source.", "%{_bindir}/run-files\n"]
    {
        assert!(template.contains(line), "{line}: {template}");
    }
    workspace.run(&["lint"]).exits(0).prints(["0 errors, 0 warnings in 2 specs"]);
}

#[test]
fn unfinished_packages_are_neither_linted_built_nor_published() {
    let workspace = unfinished();
    workspace
        .run(&["lint"])
        .exits(1)
        .prints(["error[placeholder-left]", "TODO: an SPDX expression"]);
    let srpm = ["build", "--chroot", "host", "--until", "srpm"];
    workspace.run(&srpm).exits(3).reports([
        "error: the placeholder `TODO: an SPDX expression` is left",
        "specs-templates/x/python-x.spec.tera:7",
    ]);
    let template = "specs-templates/x/python-x.spec.tera";
    workspace.replace(template, "TODO: an SPDX expression", "Artistic License");
    workspace.run(&["lint"]).exits(1).prints(["error[license-not-spdx]"]);
    workspace.run(&srpm).exits(3).reports(["error: `Artistic License` is not an SPDX expression"]);
    workspace.replace(template, "Artistic License", "%{their_license}");
    workspace.replace(template, "Name:", "%global their_license TODO\nName:");
    workspace.run(&["lint"]).exits(1).prints(["error[placeholder-left]"]);
}

#[test]
fn variables_and_configuration_choose_the_chroot() {
    let workspace = Workspace::init();
    let chroot = |variable: &str| {
        let mut command = workspace.command(&["plan", "--json"]);
        let ran = workspace.outcome(command.env("ROCMRPM_CHROOT", variable));
        ran.exits(0).document("rocmrpm/plan/2")["chroot"].as_str().unwrap().to_owned()
    };
    assert_eq!((chroot("").as_str(), chroot("host").as_str()), ("fedora-43", "host"));
    let config = workspace.home().join(".config/rocmrpm");
    fs_err::create_dir_all(&config).unwrap();
    fs_err::write(config.join("config.toml"), "chroot = \"host\"\njobs = 1\n").unwrap();
    assert_eq!((chroot("").as_str(), chroot("fedora-43").as_str()), ("host", "fedora-43"));
    let mut command = workspace.command(&["plan"]);
    workspace
        .outcome(command.env("ROCMRPM_PINS", "stabel"))
        .exits(2)
        .reports(["did you mean `stable`?"]);
    fs_err::write(config.join("config.toml"), "chrot = \"host\"\n").unwrap();
    workspace
        .run(&["plan"])
        .exits(3)
        .reports(["unknown field `chrot`", "`chroot`, `jobs`, and `color`"]);
}

#[test]
fn names_the_chroot_that_has_results() {
    let workspace = Workspace::init();
    workspace.write("build/host/index/x", "");
    workspace.write("build/host/results/x/x", "");
    for command in [&["requirements"][..], &["index", "check"], &["wheel"]] {
        workspace.run(command).reports(["for another chroot there is one: pass `--chroot host`"]);
    }
}

#[test]
fn names_the_chroot_that_has_logs_and_leftovers() {
    let workspace = unfinished();
    let names_host = |args: &[&str], code: i32| {
        let ran = workspace.run(args);
        let help: Vec<&str> =
            ran.exits(code).stderr.lines().filter(|line| line.starts_with("help: ")).collect();
        help == ["help: for another chroot there is one: pass `--chroot host`"]
    };
    let commands = [
        (&["clean"][..], 0),
        (&["clean", "x"], 0),
        (&["log", "x"], 2),
        (&["log", "x", "--list"], 2),
        (&["shell", "x"], 2),
    ];
    for (args, code) in commands.iter().take(4) {
        assert!(!names_host(args, *code), "{args:?}");
    }
    workspace.write("build/host/work/x/logs/build.log", "x");
    workspace.write("build/host/work/x/build/rpmbuild/BUILD/x", "x");
    for (args, code) in commands {
        assert!(names_host(args, code), "{args:?}");
    }
    // Also if the folder of this chroot exists.
    workspace.write("build/fedora-43/times.json", "{}");
    assert!(names_host(&["clean"], 0));
    workspace.run(&["clean", "--chroot", "host"]).exits(0).never_reports("help: ");
    // Accepted results are what only `clean --all` removes.
    workspace.write("build/host/results/x/logs/build.log", "x");
    assert!(!names_host(&["clean", "x"], 0) && names_host(&["clean", "x", "--all"], 0));
    assert!(names_host(&["log", "x"], 2));
}

#[test]
fn init_chooses_a_chroot_that_can_build_here() {
    let workspace = Workspace::empty();
    let programs = workspace.holder().join("programs");
    fs_err::create_dir(&programs).unwrap();
    let init = |name: &str| {
        let mut command = workspace.command(&["-C", name, "init"]);
        let ran = workspace.outcome(command.env("PATH", &programs));
        ran.exits(0);
        (ran.stderr.clone(), workspace.read(format!("{name}/rocmrpm.toml")))
    };
    let (reported, manifest) = init("without");
    assert!(
        reported.contains("chroot `host`: this machine, because mock is not installed"),
        "{reported}"
    );
    assert!(manifest.contains("default-chroot = \"host\""), "{manifest}");
    let mock = programs.join("mock");
    fs_err::write(&mock, "#!/bin/sh\n").unwrap();
    fs_err::set_permissions(&mock, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (reported, manifest) = init("with");
    assert!(reported.contains("chroot `fedora-43`: mock is installed"), "{reported}");
    assert!(manifest.contains("default-chroot = \"fedora-43\""), "{manifest}");
    workspace
        .run(&["-C", "other", "init", "--chroot", "fedora-99"])
        .exits(2)
        .reports(["no chroot `fedora-99`", "choose host or fedora-43"]);
}

/// What is broken in a workspace, and what rocmrpm reports.
#[test]
fn messages_name_the_place_and_the_fix() {
    let template = "specs-templates/x/python-x.spec.tera";
    let workspace = unfinished();
    for (file, found, instead, messages) in [
        ("rocmrpm.toml", "name = \"test\"", "name = \"test", &["rocmrpm.toml:4:"][..]),
        (
            "rocmrpm.toml",
            "[\"gfx1151\"]",
            "\"gfx1151\"",
            &["`gpu-targets` must be a list of strings", "error: 1 mistake"],
        ),
        ("rocmrpm.toml", "\"gfx1151\"", "\"gfx1511\"", &["did you mean `gfx1151`?"]),
        (
            "pins/stable.toml",
            "[x]",
            "[y]",
            &["unknown component `y`", "specs-templates/y does not exist", "did you mean `x`?"],
        ),
        (
            "pins/stable.toml",
            "[x]",
            "[vllm]\nversion = \"1\"\npath = \"src/x\"\n\n[x]",
            &["specs-templates/vllm does not exist", "`rocmrpm add vllm`"],
        ),
        ("pins/stable.toml", "version =", "verison =", &["did you mean `version`?"]),
        (
            template,
            "<{ version }>",
            "<{ versoin }>",
            &["python-x.spec.tera:3:", "did you mean `version`?"],
        ),
        (
            template,
            "<@ endfor @>",
            "<@ endfr @>",
            &["python-x.spec.tera:", "did you mean `endfor`?"],
        ),
        (
            template,
            "_shared/header.tera",
            "_shared/heder.tera",
            &["unknown template `_shared/heder.tera`", "specs-templates/x/python-x.spec.tera:1:12"],
        ),
    ] {
        let before = workspace.read(file);
        workspace.replace(file, found, instead);
        let ran = workspace.run(&["plan"]);
        ran.exits(3).reports(messages.iter().copied());
        workspace.write(file, &before);
    }
}
