//! `rocmrpm explain` for all rules, a single rule and an unknown rule; and the pages that document
//! rules and causes.

use crate::support::{Workspace, golden};
use rocmrpm::build::{Cause, CauseKind, Pattern, Phase, causes};
use rocmrpm::inspect::{RULES, Rule};
use rocmrpm::lint::{self, rule_groups};
use snapbox::{assert_data_eq, str};

#[test]
fn lists_all_rules_by_group() {
    let ran = Workspace::empty().run(&["explain"]);
    ran.exits(0);
    assert_eq!(ran.stderr, "");
    for (group, rules) in rule_groups() {
        assert!(ran.stdout.contains(&group.to_uppercase()), "{group}\n{}", ran.stdout);
        for Rule { id, severity, what, .. } in rules {
            let line =
                ran.stdout.lines().find(|line| line.split_whitespace().next() == Some(id.as_str()));
            let line = line.unwrap_or_else(|| panic!("{id} is not listed\n{}", ran.stdout));
            assert!(line.contains(&severity.to_string()) && line.ends_with(what), "{line}");
        }
    }
}

#[test]
fn explains_a_rule_with_a_waiver_to_paste() {
    let ran = Workspace::empty().run(&["explain", "text-relocations"]);
    ran.exits(0);
    assert_data_eq!(
        ran.stdout,
        str![[r#"
text-relocations (warning)

what
  the loader must modify the file's code while loading it (DT_TEXTREL)

why
  SELinux denies that to confined programs (execmod), so the library loads on some systems
  only; processes cannot share the modified pages

incident
  JuliaLang/julia#12019: `cannot restore segment prot after reloc: Permission denied`;
  lkl/linux#220: a crash when such a file uses an ifunc

help
  compile everything in the file with -fPIC, including static libraries, and link with
  `-Wl,-z,text`, which names the object file at fault

waiver for component.toml
  [[inspect.waive]]
  rule = "text-relocations"
  file = "*/name.so"   # optional; `*` stands for any characters
  found = "..."        # optional; a part of what was found
  reason = "..."       # why it is accepted

"#]]
    );
}

#[test]
fn explains_every_rule() {
    let workspace = Workspace::empty();
    for rule in RULES.iter().chain(lint::RULES) {
        let ran = workspace.run(&["explain", rule.id.as_str()]);
        ran.exits(0);
        assert!(
            ran.stdout.starts_with(&format!("{} ({})\n", rule.id, rule.severity)),
            "{}",
            ran.stdout
        );
    }
    for unused in ["waiver-unused", "lint-waiver-unused"] {
        workspace.run(&["explain", unused]).exits(0).prints(["cannot be waived"]);
    }
    workspace
        .run(&["explain", "sed-silent"])
        .exits(0)
        .prints(["[[lint.waive]]\n  rule = \"sed-silent\""]);
}

#[test]
fn rejects_unknown_rule_and_suggests_the_nearest() {
    let workspace = Workspace::empty();
    let ran = workspace.run(&["explain", "gpu-target-mising"]);
    ran.exits(2);
    assert_eq!(ran.stdout, "");
    assert_eq!(
        ran.stderr,
        "error: there is no rule or cause of failures named `gpu-target-mising`\n\nhelp: did you mean `gpu-target-missing`?\n"
    );
    workspace
        .run(&["explain", "banana"])
        .exits(2)
        .reports(["help: run `rocmrpm explain` to list them all"]);
}

#[test]
fn json_lists_the_same_rules() {
    let workspace = Workspace::empty();
    let all = workspace.run(&["explain", "--json"]).exits(0).document("rocmrpm/rules/2");
    let ids: Vec<_> =
        all["rules"].as_array().unwrap().iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    let expected: Vec<_> = RULES.iter().chain(lint::RULES).map(|rule| rule.id.as_str()).collect();
    assert_eq!(ids, expected);
    let one = workspace
        .run(&["explain", "executable-stack", "--json"])
        .exits(0)
        .document("rocmrpm/rules/2");
    let rules = one["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!((&rules[0]["group"], &rules[0]["severity"]), (&"hygiene".into(), &"error".into()));
    assert!(rules[0]["incident"].as_str().unwrap().contains("ROCm/clr#22"));
    let one =
        workspace.run(&["explain", "waiver-unused", "--json"]).exits(0).document("rocmrpm/rules/2");
    assert!(one["rules"][0]["incident"].is_null());
}

#[test]
fn lists_and_explains_causes_of_failed_builds() {
    let workspace = Workspace::empty();
    let all = workspace.run(&["explain"]);
    all.exits(0);
    for cause in causes() {
        let listed = all
            .stdout
            .lines()
            .any(|line| line.split_whitespace().next() == Some(cause.id.as_str()));
        assert!(listed, "{} is not listed", cause.id);
        assert!(
            RULES.iter().chain(lint::RULES).all(|rule| rule.id.as_str() != cause.id),
            "{}",
            cause.id
        );
    }
    workspace.run(&["explain", "disk-full"]).exits(0).prints([
        "disk-full (environment)",
        "the disk is full",
        "*No space left on device*",
        "phase\n  any of a build",
        "free some space",
        "seen\n",
    ]);
    let one =
        workspace.run(&["explain", "disk-full", "--json"]).exits(0).document("rocmrpm/rules/2");
    assert_eq!(one["rules"].as_array().unwrap().len(), 0);
    let found = &one["causes"][0];
    assert_eq!((&found["id"], &found["kind"]), (&"disk-full".into(), &"environment".into()));
    assert_eq!(found["phases"], serde_json::json!([]));
    let all = workspace.run(&["explain", "--json"]).exits(0).document("rocmrpm/rules/2");
    assert_eq!(all["causes"].as_array().unwrap().len(), causes().len());
    workspace.run(&["explain", "disk-ful"]).exits(2).reports(["did you mean `disk-full`?"]);
}

#[test]
fn finds_the_cause_in_the_output_of_a_program() {
    let workspace = Workspace::empty();
    workspace.write(
        "vllm.log",
        "INFO Loading weights\nMemoryError was not raised\n\
         torch.AcceleratorError: HIP error: invalid device function\n\
         For debugging consider passing AMD_SERIALIZE_KERNEL=3\n",
    );
    let ran = workspace.run(&["explain", "--log", "vllm.log"]);
    ran.exits(0);
    assert_data_eq!(
        ran.stdout,
        str![[r#"
gpu-code-missing

cause
  the program has no code for this GPU

lines of the log
  INFO Loading weights
  MemoryError was not raised
  torch.AcceleratorError: HIP error: invalid device function
  For debugging consider passing AMD_SERIALIZE_KERNEL=3

help
  install packages that are built for the GPU that `rocmrpm doctor` shows
  (`rocmrpm inspect` lists the targets in files), and unset HSA_OVERRIDE_GFX_VERSION

"#]]
    );
    let ran = workspace.run(&["explain", "--log", "vllm.log", "--json"]);
    let json = ran.exits(0).document("rocmrpm/log-cause/1");
    assert_eq!(json["cause"]["id"], "gpu-code-missing");
    assert_eq!(json["cause"]["kind"], "build");
    assert_eq!(json["lines"].as_array().unwrap().len(), 4);
}

#[test]
fn prefers_causes_of_programs_unless_the_log_is_of_a_build() {
    let workspace = Workspace::empty();
    let message = "RuntimeError: No HIP GPUs are available\n";
    workspace.write("run.log", message);
    workspace.run(&["explain", "--log", "run.log"]).exits(0).prints(["gpu-not-found\n"]);
    let build = format!(
        "Executing(%check): sh\n+ pytest\n{message}error: Bad exit status from /var/tmp/x (%check)\n"
    );
    workspace.write("build.log", build);
    workspace.run(&["explain", "--log", "build.log"]).exits(0).prints(["gpu-needed-by-tests\n"]);
    // What only builds are known for is still found.
    workspace.write("dnf.log", "No match for argument: foo-devel\n");
    workspace.run(&["explain", "--log", "dnf.log"]).exits(0).prints(["package-missing\n"]);
}

#[test]
fn reports_logs_without_a_known_cause() {
    let workspace = Workspace::empty();
    workspace.write("app.log", "all is well\n");
    let ran = workspace.run(&["explain", "--log", "app.log"]);
    ran.exits(1);
    assert_eq!(ran.stdout, "");
    ran.reports(["error: found no known cause in `app.log`", "help: run `rocmrpm explain`"]);
    let ran = workspace.run(&["explain", "--log", "app.log", "--json"]);
    ran.exits(1);
    assert!(ran.document("rocmrpm/log-cause/1")["cause"].is_null());
    workspace.run(&["explain", "disk-full", "--log", "app.log"]).exits(2);
}

#[test]
fn names_a_log_that_cannot_be_read() {
    let workspace = Workspace::empty();
    workspace.write("app.log", "all is well\n");
    let refused = |log: &str, error: &str| {
        let ran = workspace.run(&["explain", "--log", log]);
        ran.exits(2).reports([error, "\nhelp: "]);
        ran.has_one_help_per_error();
        assert_eq!(ran.stdout, "");
    };
    refused("absent.log", "error: the log `absent.log` does not exist\n");
    refused("app.log/absent", "error: the log `app.log/absent` does not exist\n");
    refused(".", "error: `.` is a folder, not a log\n");
}

#[test]
fn reads_logs_from_pipes() {
    let workspace = Workspace::empty();
    let program = env!("CARGO_BIN_EXE_rocmrpm");
    let line = "cc: fatal error: x.c: No space left on device";
    // Much more than is kept, so that the pipe is full several times.
    let log = format!("{{ yes all is well | head -c 9000000; echo '{line}'; }}");
    for command in [
        format!("{log} | {program} explain --log -"),
        format!("{log} | {program} explain --log /dev/stdin"),
        format!("mkfifo pipe && {{ {log} > pipe & }} && {program} explain --log pipe"),
    ] {
        let ran = workspace.shell(&command);
        ran.exits(0).prints(["disk-full\n", line]);
    }
    let cut = format!("{{ echo '{line}'; yes all is well | head -c 9000000; }}");
    workspace
        .shell(&format!("{cut} | {program} explain --log - --json"))
        .exits(1)
        .reports(["found no known cause in the standard input"]);
    workspace.shell(&format!("{program} explain --log - < /dev/null")).exits(1);
    workspace
        .shell(&format!("script -qec '{program} explain --log -' /dev/null"))
        .prints(["error: the standard input is a terminal", "| rocmrpm explain --log -`"]);
}

/// Generates the page from the catalog.
#[test]
fn failures_page_matches_the_catalog() {
    let mut page = "# Causes of failures\n\n\
        The causes of failures that `rocmrpm build` and `rocmrpm explain --log FILE` recognize: lines of a log, in\n\
        which `*` stands for any characters and `{1}` for characters that the cause repeats; what they mean, and\n\
        how to fix it. `rocmrpm explain ID` prints the same in the terminal. A test\n\
        (`tests/workspace/explain.rs`) writes this page from `crates/rocmrpm-core/src/build/failures.toml`; each\n\
        entry has a log in `tests/failures/`.\n"
        .to_owned();
    let of_builds = CauseKind::ALL.map(|kind| {
        let of_kind = |cause: &&Cause| cause.kind == kind && !cause.is_of_programs();
        (kind.as_str(), causes().iter().filter(of_kind).collect::<Vec<_>>())
    });
    let of_programs = causes().iter().filter(|cause| cause.is_of_programs()).collect();
    let sections = of_builds.into_iter().chain([("programs on the GPU", of_programs)]);
    for (name, causes) in sections {
        page += &format!("\n## {}{}\n", name[..1].to_uppercase(), &name[1..]);
        for cause in causes {
            let phases = cause
                .phases
                .iter()
                .map(|phase| Phase::as_str(*phase))
                .collect::<Vec<_>>()
                .join(", ");
            let phases = if phases.is_empty() { "any of a build".to_owned() } else { phases };
            let lines: String =
                cause.patterns.iter().map(|p| format!("{}\n", Pattern::as_str(p))).collect();
            page += &format!(
                "\n### {}\n\n{}\n\n```text\n{lines}```\n\n- Phase: {phases}\n- Help: {}\n- Seen: {}\n",
                cause.id, cause.cause, cause.help, cause.seen
            );
        }
    }
    golden("../../docs/reference/failures.md", &page);
}

/// Generates the page from the tables of rules.
#[test]
fn rules_page_matches_the_table() {
    let mut page = "# Rules of the inspection and of lint\n\n\
        The rules of `rocmrpm inspect` and of the inspection in `rocmrpm build` and, in the last group, those of\n\
        `rocmrpm lint`. An error keeps a package out of the repository and makes lint exit with 1; a warning is\n\
        only shown; an info is worth knowing. `rocmrpm explain ID` prints the same in the terminal, together\n\
        with a waiver to paste. A test (`tests/workspace/explain.rs`) writes this page from the tables in\n\
        `crates/rocm-inspect/src/rules/` and `crates/rocmrpm-core/src/lint/`.\n"
        .to_owned();
    for (group, rules) in rule_groups() {
        page += &format!("\n## {}{}\n", group[..1].to_uppercase(), &group[1..]);
        for Rule { id, severity, what, why, incident, help } in rules {
            page += &format!("\n### {id}\n\n**{severity}**: {what}\n\n- Why: {why}\n");
            if !incident.is_empty() {
                page += &format!("- Seen: {incident}\n");
            }
            page += &format!("- Help: {help}\n");
        }
    }
    golden("../../docs/reference/rules.md", &page);
}
