//! Completions as shells request them: in trusted and untrusted workspaces, and outside of any.

use std::path::Path;

use crate::support::{Ran, Workspace};

/// Returns a workspace with components, two pin sets, and the chroots of `rocmrpm init`.
fn workspace() -> Workspace {
    let workspace = Workspace::init();
    for component in ["torch", "triton", "vllm", "_shared", "generated/stable/python-a"] {
        workspace.write(format!("specs-templates/{component}/component.toml"), "");
    }
    workspace.write("pins/edge.toml", "");
    workspace.write("pins/stable.generated.toml", "");
    workspace
}

/// Completes the last of the words as a shell does that sourced `rocmrpm completions SHELL`, in a
/// folder of the workspace.
fn complete_in(workspace: &Workspace, folder: &str, shell: &str, words: &[&str]) -> Ran {
    let mut command = workspace.command(&["--"]);
    command.args(words).current_dir(workspace.path(folder)).env_remove("ROCMRPM_TRUST");
    command
        .env("ROCMRPM_COMPLETE", shell)
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    workspace.outcome(command.env("_CLAP_IFS", "\n"))
}

/// Returns the candidates without their help, and without options.
#[track_caller]
fn values(ran: &Ran) -> Vec<String> {
    ran.exits(0);
    assert_eq!(ran.stderr, "");
    let value = |line: &str| line.split(['\t', ':']).next().unwrap().to_owned();
    ran.stdout.lines().map(value).filter(|value| !value.starts_with('-')).collect()
}

#[track_caller]
fn complete(workspace: &Workspace, shell: &str, line: &str) -> Vec<String> {
    values(&complete_in(workspace, "", shell, &line.split(' ').collect::<Vec<_>>()))
}

const STAGES: &[&str] = &["sources", "spec", "srpm", "rpm", "wheel", "index", "container"];

#[test]
fn shells_complete_the_names_of_the_workspace() {
    let workspace = workspace();
    for shell in ["bash", "zsh", "fish"] {
        for (line, expected) in [
            ("rocmrpm build ", &["torch", "triton", "vllm"][..]),
            ("rocmrpm build t", &["torch", "triton"]),
            ("rocmrpm build torch v", &["vllm"]),
            ("rocmrpm build py", &["python-a"]),
            ("rocmrpm build x", &[]),
            ("rocmrpm patch status v", &["vllm"]),
            ("rocmrpm inspect --component v", &["vllm"]),
            ("rocmrpm build --pin v", &["vllm="]),
            ("rocmrpm plan --chroot ", &["fedora-43", "host"]),
            ("rocmrpm plan --pins ", &["edge", "stable"]),
            ("rocmrpm pins derive --base e", &["edge"]),
            ("rocmrpm build --until ", STAGES),
            ("rocmrpm build --until sp", &["spec"]),
            ("rocmrpm explain gpu-target-missing-", &["gpu-target-missing-in-file"]),
            ("rocmrpm explain disk-f", &["disk-full"]),
            ("rocmrpm explain requirement-o", &["requirement-outdated"]),
            ("rocmrpm container --flavor v", &["vulkan"]),
            ("rocmrpm init --gpu-target gfx1151", &["gfx1151"]),
            ("rocmrpm pins o", &["outdated"]),
            ("rocmrpm build --color n", &["never"]),
        ] {
            assert_eq!(complete(&workspace, shell, line), expected, "{shell}: {line}");
        }
    }
}

#[test]
fn every_command_is_completed_and_hidden_ones_are_not() {
    let commands = complete(&workspace(), "bash", "rocmrpm ");
    let reference = include_str!("../../docs/reference/commands.md");
    let headings = reference.lines().filter_map(|line| line.strip_prefix("## `rocmrpm "));
    let mut expected: Vec<&str> = headings
        .map(|name| name.trim_end_matches('`'))
        .filter(|name| !name.contains(' '))
        .collect();
    expected.push("help");
    assert_eq!(commands, expected);
    assert!(expected.len() > 20 && !expected.contains(&"man"), "{expected:?}");
}

#[test]
fn the_option_for_the_workspace_selects_whose_names_are_candidates() {
    let workspace = workspace();
    let outside = Path::new("..");
    let from_outside = |line: &str| {
        values(&complete_in(
            &workspace,
            outside.to_str().unwrap(),
            "zsh",
            &line.split(' ').collect::<Vec<_>>(),
        ))
    };
    assert_eq!(from_outside("rocmrpm build t"), [""; 0]);
    assert_eq!(from_outside("rocmrpm -C workspace build t"), ["torch", "triton"]);
    assert_eq!(from_outside("rocmrpm build -Cworkspace/pins t"), ["torch", "triton"]);
    assert_eq!(from_outside("rocmrpm -C nosuch build t"), [""; 0]);
}

#[test]
fn outside_of_a_workspace_only_names_of_rocmrpm_are_candidates() {
    let workspace = Workspace::empty();
    for (line, expected) in [
        ("rocmrpm build ", &[][..]),
        ("rocmrpm plan --chroot ", &[]),
        ("rocmrpm build --until sr", &["srpm"]),
        ("rocmrpm explain disk-f", &["disk-full"]),
    ] {
        assert_eq!(complete(&workspace, "bash", line), expected, "{line}");
    }
}

#[test]
fn an_untrusted_workspace_with_mistakes_runs_nothing_and_asks_nothing() {
    let workspace = workspace();
    workspace.run(&["trust", "--remove"]);
    let trace = workspace.holder().join("TRACE");
    let spec = format!("%global x %(touch {})\nName: torch\n", trace.display());
    workspace.write("specs-templates/torch/torch.spec.tera", spec);
    workspace.write("specs-templates/torch/component.toml", "this is = not TOML");
    workspace.write("rocmrpm.toml", "[stack");
    workspace.write("pins/stable.toml", [0xff, 0xfe]);
    for name in ["$(touch TRACE)", "a b", "-x", ";id"] {
        workspace.write(format!("specs-templates/{name}/component.toml"), "");
        workspace.write(format!("pins/{name}.toml"), "");
    }
    let before = workspace.files();
    for shell in ["bash", "zsh", "fish"] {
        assert_eq!(
            complete(&workspace, shell, "rocmrpm build "),
            ["torch", "triton", "vllm"],
            "{shell}"
        );
        assert_eq!(
            complete(&workspace, shell, "rocmrpm plan --pins "),
            ["edge", "stable"],
            "{shell}"
        );
    }
    assert!(!trace.exists());
    assert!(workspace.files() == before, "completing wrote a file");
}

#[test]
fn a_shell_that_rocmrpm_does_not_know_gets_nothing() {
    let workspace = workspace();
    let ran = complete_in(&workspace, "", "tcsh", &["rocmrpm", "build", ""]);
    ran.exits(1);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let disabled =
        workspace.outcome(workspace.command(&["--version"]).env("ROCMRPM_COMPLETE", "0"));
    assert!(disabled.exits(0).stdout.starts_with("rocmrpm "));
}

/// bash itself quotes paths; the candidates of other programs it inserts as they are.
#[test]
fn paths_are_left_to_bash_and_completed_for_others() {
    let workspace = workspace();
    workspace.write("a $(id).rpm", "");
    for line in ["rocmrpm inspect ", "rocmrpm inspect a", "rocmrpm lint --spec a", "rocmrpm -C "] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(complete_in(&workspace, "", "bash", &words).exits(0).stdout, "", "{line}");
    }
    assert_eq!(complete(&workspace, "fish", "rocmrpm inspect a"), ["a $(id).rpm"]);
}

/// Completes a line with the function that bash calls, and returns its replies.
fn in_bash(workspace: &Workspace, words: &str, index: usize, current: &str) -> Vec<String> {
    let programs = Path::new(env!("CARGO_BIN_EXE_rocmrpm")).parent().unwrap();
    let script = format!(
        "set -e; export PATH='{}':$PATH; source <(rocmrpm completions bash); complete -p rocmrpm >&2; \
         COMP_WORDS=({words}) COMP_CWORD={index} COMP_TYPE=9; \
         _clap_complete_rocmrpm rocmrpm '{current}' build; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        programs.display()
    );
    let mut bash = std::process::Command::new("bash");
    workspace.settle(bash.args(["--norc", "-c", &script]));
    let ran = workspace.outcome(bash);
    ran.exits(0).reports(["-o default -o nosort", "-F _clap_complete_rocmrpm rocmrpm"]);
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_gets_candidates_from_the_script() {
    let workspace = workspace();
    assert_eq!(in_bash(&workspace, "rocmrpm build t", 2, "t"), ["torch", "triton"]);
    // bash makes `=` a word.
    assert_eq!(in_bash(&workspace, "rocmrpm build --chroot = fe", 4, "fe"), ["fedora-43"]);
    assert_eq!(in_bash(&workspace, "rocmrpm build --chroot =", 3, ""), ["fedora-43", "host"]);
}

#[test]
fn scripts_run_the_installed_program_by_name() {
    let workspace = Workspace::empty();
    for (shell, run) in [
        ("bash", "ROCMRPM_COMPLETE=\"bash\" \\\n        \"rocmrpm\" -- "),
        ("zsh", "ROCMRPM_COMPLETE=\"zsh\" \\\n        rocmrpm -- "),
        ("fish", "(ROCMRPM_COMPLETE=fish rocmrpm -- "),
        ("elvish", "ROCMRPM_COMPLETE=\"elvish\" rocmrpm -- "),
        ("powershell", "$env:ROCMRPM_COMPLETE = \"powershell\""),
    ] {
        let ran = workspace.run(&["completions", shell]);
        ran.exits(0);
        assert_eq!(ran.stderr, "", "{shell}");
        assert!(ran.stdout.contains(run), "{shell}:\n{}", ran.stdout);
    }
}
