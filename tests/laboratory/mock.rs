//! Tests the mock builder with the real mock as an ordinary user: builds, and all kinds of
//! failures. Requires ROCMRPM_LAB_MOCK to name a checkout of mock; see CONTRIBUTING.md.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::install::assert_installs_and_runs;
use super::lab;
use super::support::{Parts, Ran, Transcript, Workspace, names_in};

/// The workspace of all these tests, used by one test at a time: in the laboratory all workspaces
/// have the same path and therefore the same build roots.
fn workspace() -> MutexGuard<'static, Workspace> {
    static WORKSPACE: OnceLock<Mutex<Workspace>> = OnceLock::new();
    let make = || {
        assert!(
            std::env::var_os("ROCMRPM_LAB_MOCK").is_some(),
            "ROCMRPM_LAB_MOCK does not name a checkout of mock"
        );
        let workspace = Workspace::small("laboratory-mock");
        let parts = Parts { ..Parts::default() };
        workspace.component("one", &parts);
        workspace.component("two", &Parts { build: "sleep 5", ..parts });
        let missing = Parts { preamble: "BuildRequires: no-such-devel >= 2", ..parts };
        workspace.component("missing", &missing);
        workspace.component("failing", &Parts { build: "echo it breaks >&2; exit 3", ..parts });
        workspace.component("rejected", &Parts { preamble: "Nmae: x", ..parts });
        workspace
            .component("slow", &Parts { toml: "timeout = \"5 s\"\n", build: "sleep 600", ..parts });
        workspace.component("sleeper", &Parts { build: "touch started; sleep 6001", ..parts });
        lab::hand_over(&workspace);
        Mutex::new(workspace)
    };
    WORKSPACE.get_or_init(make).lock().unwrap_or_else(PoisonError::into_inner)
}

fn build(workspace: &Workspace, component: &str) -> Ran {
    lab::rocmrpm(workspace, &["build", "--chroot", "fedora-43", component])
}

/// Succeeds if no process runs in a build root and nothing is mounted there. Each call in the
/// laboratory has separate processes, so a script must both start and search for a process.
const NOTHING_LEFT: &str = "! pgrep -f '^sleep 6001$' && ! grep /var/lib/mock /proc/self/mounts";

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn mock_builds_the_small_workspace_which_installs() {
    let workspace = workspace();
    // Builds of other tests write it, too.
    let _ = std::fs::remove_file(workspace.path("Containerfile.fedora43"));
    let done = lab::rocmrpm(&workspace, &["build", "--chroot", "fedora-43", "vecsum-report"]);
    done.exits(0).reports([
        "Built vecsum-python 3 RPMs",
        "Building (1/3) vecsum %build",
        "installing BuildRequires",
    ]);
    Transcript::block("docs/guides/build.md", "rocmrpm build --chroot fedora-43 vecsum-report")
        .assert_prints(&done.stderr);
    let results = workspace.path("build/fedora-43/results/vecsum-python");
    for file in
        ["build.json", "inspection.json", "logs/rpm/state.log", "logs/rpm/buildroot_lock.json"]
    {
        assert!(results.join(file).exists(), "{file} of {:?}", names_in(&results));
    }
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(results.join("build.json")).unwrap()).unwrap();
    let packages = record["buildroot"].to_string();
    assert!(
        packages.contains("vecsum-devel-0:1.2.0") || packages.contains("vecsum-devel-1.2.0"),
        "{packages}"
    );
    lab::rocmrpm(&workspace, &["build", "--chroot", "fedora-43", "vecsum-report"])
        .reports(["0 built, 3 fresh"]);
    assert_installs_and_runs(&workspace, false);
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn builds_two_components_concurrently_in_separate_roots() {
    let workspace = workspace();
    let done = lab::rocmrpm(&workspace, &["build", "--chroot", "fedora-43", "one", "two"]);
    done.exits(0).reports(["Built one 1 RPM", "Built two 1 RPM"]);
    let at = |what: &str| done.stderr.find(what).unwrap_or_else(|| panic!("no {what}\n{done}"));
    assert!(at("two %build") < at("Built one") || at("one %build") < at("Built two"), "{done}");
    let filled = done.stderr.matches("caching the build root").count();
    assert!(filled <= 1, "the cache was filled more than once\n{done}");
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn distinguishes_failures() {
    let workspace = workspace();
    build(&workspace, "missing").exits(10).reports([
        "`missing` failed in BuildRequires: no repository of the chroot provides no-such-devel",
        "help: correct the template's BuildRequires",
    ]);
    let failing = build(&workspace, "failing");
    failing.exits(10).reports(["`failing` failed in %build", "it breaks"]);
    build(&workspace, "rejected").exits(3).reports(["rpm rejects the spec", "Nmae: x"]);
    build(&workspace, "missing").reports(["rocmrpm explain package-missing"]);
    build(&workspace, "slow").exits(11).reports(["exceeded its time limit", "`--timeout`"]);

    // The build root of the failed build exists, and the shell opens in it.
    assert!(failing.reference("Shell").contains(" shell failing --chroot fedora-43"));
    let inside =
        ["shell", "failing", "--chroot", "fedora-43", "--", "sh", "-c", "pwd; id -un; exit 7"];
    let inside = lab::rocmrpm(&workspace, &inside);
    assert_eq!(inside.exits(7).stdout, "/builddir/build/BUILD\nmockbuild\n");

    workspace.replace("mock-configs/fedora-43.toml", "fedora-43-x86_64.cfg", "fedora-99.cfg");
    build(&workspace, "failing").exits(3).reports(["mock has no configuration", "fedora-99.cfg"]);
    workspace.replace("mock-configs/fedora-43.toml", "fedora-99.cfg", "fedora-43-x86_64.cfg");
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn build_has_only_a_loopback_network() {
    let workspace = workspace();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let connect =
        format!("exec 3<>/dev/tcp/{}", server.local_addr().unwrap().to_string().replace(':', "/"));
    lab::script(&workspace, &connect).exits(0);
    assert!(server.accept().is_ok(), "unreachable without mock");

    let interfaces = "sed -n 's/^ *\\([^ ]*\\):.*/interface \\1/p' /proc/net/dev";
    let commands = format!("{interfaces}\n{connect}");
    workspace.component("online", &Parts { build: &commands, ..Parts::default() });
    let refused = build(&workspace, "online");
    refused.exits(10).reports(["`online` failed in %build", "Connection refused"]);
    assert!(server.accept().is_err(), "the build reached the server");
    let log = workspace.read("build/fedora-43/work/online/logs/rpm/build.log");
    let seen: Vec<&str> = log.lines().filter(|line| line.starts_with("interface ")).collect();
    assert_eq!(seen, ["interface lo"]);
    let enter = ["shell", "online", "--chroot", "fedora-43", "--", "sh", "-c", interfaces];
    assert_eq!(lab::rocmrpm(&workspace, &enter).exits(0).stdout, "interface lo\n");

    let download =
        "python3 -c 'import urllib.request; urllib.request.urlopen(\"http://download.example/x\")'";
    let parts = Parts { preamble: "BuildRequires: python3", build: download, ..Parts::default() };
    workspace.component("online", &parts);
    build(&workspace, "online").exits(10).reports(["the build tries to download something"]);
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn rejects_a_build_root_in_use() {
    let workspace = workspace();
    let script = "program() { /run/rocmrpm/rocmrpm \"$@\"; }\n\
         program build --chroot fedora-43 failing 2>/dev/null && exit 1\n\
         program shell failing --chroot fedora-43 -- sleep 600 & shell=$!\n\
         for i in $(seq 60); do pgrep -f '^sleep 600$' >/dev/null && break; sleep 1; done\n\
         program build --chroot fedora-43 failing && exit 1 || code=$?\n\
         pkill -f '^sleep 600$'; wait $shell || true; exit $code";
    lab::script(&workspace, script)
        .exits(20)
        .reports(["another process uses this build root", "rocmrpm explain root-locked"]);
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn stopped_run_leaves_no_process_mount_or_result() {
    let workspace = workspace();
    for (signal, to) in [("INT", "-$group"), ("TERM", "$run")] {
        let script = format!(
            "set -m\n/run/rocmrpm/rocmrpm build --chroot fedora-43 sleeper 2>output & run=$!; group=$run\n\
             for i in $(seq 300); do pgrep -f '^sleep 6001$' >/dev/null && break; sleep 1; done\n\
             kill -{signal} -- {to}\ncode=0; wait $run || code=$?\ncat output >&2\n{NOTHING_LEFT}\nexit $code"
        );
        let stopped = lab::script(&workspace, &script);
        stopped.exits(130).reports(["Stopped sleeper", "run the same command again"]);
        assert!(!workspace.path("build/fedora-43/results/sleeper").exists(), "{stopped}");
    }
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn checks_prerequisites_of_mock_before_building() {
    let workspace = workspace();
    let program = "/run/rocmrpm/rocmrpm build --chroot fedora-43 one two failing";
    // With sudo, root acts for the user who owns the workspace.
    lab::root(&workspace, &format!("SUDO_UID=$(id -u builder) {program}"))
        .exits(20)
        .reports(["mock does not run as root"]);
    let without = format!(
        "setpriv --reuid=builder --regid=builder --clear-groups env HOME=/home/builder {program}"
    );
    lab::root(&workspace, &without)
        .exits(20)
        .reports(["you are not in the group `mock`", "usermod -aG mock"]);
    let script = format!("PATH=/usr/bin {program}");
    let missing = lab::script(&workspace, &script);
    missing.exits(40).reports(["the program `mock` is not installed", "dnf install mock"]);
}
