//! Bad input: the exit code and message of each mistake, that no partial output is left, and that
//! the next run succeeds once it is fixed. Offline; needs rpmbuild, createrepo_c, curl and unshare.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::server::{Reply, SeenRequest, TestServer};
use crate::support::{Parts, Ran, Workspace, names_in, ran, template};
use rocmrpm::digest::Sha256;

/// Returns a gzipped archive with `demo-1.0/hello` and this number of incompressible bytes.
fn archive(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(bytes).collect();
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    for (name, content) in [("demo-1.0/hello", b"hello\n".as_slice()), ("demo-1.0/noise", &noise)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// Returns a workspace with one component `demo` made of these parts.
fn with(parts: &Parts<'_>) -> Workspace {
    let workspace = Workspace::new();
    workspace.component("demo", parts);
    workspace
}

/// Pins `demo` to a new file in the workspace, with this digest.
fn pin_file(workspace: &Workspace, name: &str, content: &[u8], digest: Sha256) -> String {
    let file = workspace.write(format!("files/{name}"), content);
    let url = format!("file://{}", file.display());
    workspace.pin("demo", &format!("url = \"{url}\"\nsha256 = \"{digest}\""));
    url
}

/// Fails unless a build changed only `build/`, and there only logs.
#[track_caller]
fn build_fails(workspace: &Workspace, code: i32) -> Ran {
    let before = workspace.sources();
    let ran = workspace.build();
    ran.exits(code);
    assert_eq!(workspace.sources(), before);
    workspace.assert_nothing_of("demo");
    ran.has_one_help_per_error();
    ran
}

#[track_caller]
fn build_succeeds(workspace: &Workspace) {
    workspace.build().exits(0).reports(["Built demo", "1 built, 0 fresh"]);
    workspace.assert_whole("demo");
    assert_eq!(names_in(&workspace.built("results")), ["demo"]);
}

#[test]
fn rejects_wrong_digest_with_both_values() {
    let workspace = with(&Parts::default());
    let content = archive(10);
    let (wrong, right) = (Sha256::of_bytes("another file"), Sha256::of_bytes(&content));
    let url = pin_file(&workspace, "demo-1.0.tar.gz", &content, wrong);
    build_fails(&workspace, 30).reports([
        "the digest of `demo-1.0.tar.gz`",
        &url,
        &format!("expected sha256 {wrong}, found {right}"),
        "help: if upstream replaced the file and you have checked the new one, remove the digest",
    ]);
    pin_file(&workspace, "demo-1.0.tar.gz", &content, right);
    build_succeeds(&workspace);
}

#[test]
fn resumes_an_interrupted_download() {
    let workspace = with(&Parts::default());
    let content = archive(200_000);
    let half = content.len() / 2;
    let (body, answered) = (content.clone(), AtomicBool::new(false));
    let server = TestServer::start(move |_| {
        let whole = Reply::file(body.clone());
        if answered.swap(true, Ordering::SeqCst) { whole } else { whole.cut_after(half) }
    });
    let (url, digest) = (server.url("/demo-1.0.tar.gz"), Sha256::of_bytes(&content));
    workspace.pin("demo", &format!("url = \"{url}\"\nsha256 = \"{digest}\""));
    build_fails(&workspace, 30).reports([
        format!("the download of {url} was interrupted after {half} bytes"),
        "help: run the same command again to resume".into(),
    ]);
    build_succeeds(&workspace);
    let offset = |asked: &SeenRequest| {
        asked.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    };
    let offsets: Vec<usize> =
        server.seen().iter().map(|asked| offset(asked).unwrap_or(0)).collect();
    assert_eq!(offsets, [0, half]);
}

#[test]
fn rejects_a_web_page_instead_of_an_archive() {
    let workspace = with(&Parts::default());
    let page = b"<!DOCTYPE html><title>Log in</title>";
    let url = pin_file(&workspace, "demo-1.0.tar.gz", page, Sha256::of_bytes(page));
    build_fails(&workspace, 3).reports([
        "`demo-1.0.tar.gz` from",
        &url,
        "is not a gzip file",
        "it begins with",
        "<!DOCTYPE html>",
        "help: open the URL of the pin in a browser",
    ]);
    let content = archive(10);
    pin_file(&workspace, "demo-1.0.tar.gz", &content, Sha256::of_bytes(&content));
    build_succeeds(&workspace);
}

#[test]
fn rejects_a_pin_without_digest() {
    let workspace = with(&Parts::default());
    let content = archive(10);
    let url = pin_file(&workspace, "demo-1.0.tar.gz", &content, Sha256::of_bytes(&content));
    workspace.pin("demo", &format!("url = \"{url}\""));
    build_fails(&workspace, 3)
        .reports(["the pin of `demo` 1.0 has no sha256", "help: run `rocmrpm lock`"]);
    workspace.run(&["lock"]).exits(0);
    build_succeeds(&workspace);
}

#[test]
fn undefined_variable_shows_its_location() {
    let workspace = with(&Parts { build: "make <{ no_such_thing }>", ..Parts::default() });
    build_fails(&workspace, 3).reports([
        "no_such_thing",
        "specs-templates/demo/demo.spec.tera:19:9",
        "make <{ no_such_thing }>",
    ]);
    workspace.replace(&template("demo"), "make <{ no_such_thing }>", "true");
    build_succeeds(&workspace);
}

#[test]
fn rejected_spec_shows_the_line() {
    let workspace = with(&Parts { preamble: "Nmae: demo", ..Parts::default() });
    let ran = build_fails(&workspace, 3);
    ran.reports([
        "rpm rejects the spec",
        "demo.spec:10:1",
        "Nmae: demo",
        "Unknown tag",
        "edit the template; this file is generated",
    ])
    .never_reports("       Shell ");
    workspace.replace(&template("demo"), "Nmae: demo", "");
    build_succeeds(&workspace);
}

#[test]
fn failed_build_shows_phase_lines_cause_log_and_commands() {
    let build = "echo before; echo 'x.hip:1:10: fatal error: hip/hip_runtime.h: No such file or directory' >&2\nexit 1";
    let workspace = with(&Parts { build, ..Parts::default() });
    let failed = build_fails(&workspace, 10);
    failed.reports([
        "`demo` failed in %build: HIP's headers are not installed",
        "    x.hip:1:10: fatal error: hip/hip_runtime.h",
        "help: add `BuildRequires: rocm-hip-devel` (Fedora); run `apt-get install libamdhip64-dev` (Debian)",
    ]);
    failed.never_reports("Executing(%prep)");
    let log = std::fs::read_to_string(failed.reference("Log")).unwrap();
    assert!(log.contains("hip/hip_runtime.h"), "{log}");
    let enter = failed.reference("Shell");
    workspace.shell(&format!("{enter} -- ls demo-1.0/hello")).exits(0);
    let retry = failed.reference("Retry");
    workspace.shell(&retry).exits(10).reports(["HIP's headers are not installed"]);
    workspace.replace(&template("demo"), "exit 1", "exit 0");
    workspace.shell(&retry).exits(0).reports(["Built demo"]);
    workspace.assert_whole("demo");
}

#[test]
fn several_failures_show_their_logs_and_one_retry_at_the_end() {
    let build = "echo 'x.c:1:10: fatal error: a.h: No such file or directory' >&2\nexit 1";
    let workspace = with(&Parts { build, ..Parts::default() });
    let build = "echo it breaks\nexit 1";
    workspace.component("other", &Parts { build, ..Parts::default() });
    let failed = workspace.run(&["build", "--chroot", "host", "--keep-going"]);
    failed.exits(10).has_one_help_per_error();
    let (_, end) = failed.stderr.split_once("  Incomplete ").unwrap();
    let root = workspace.root();
    let (root, program) = (root.display(), env!("CARGO_BIN_EXE_rocmrpm"));
    assert_eq!(
        end,
        format!(
            "2 failed, 0 skipped, 0 up to date\n         \
             Log {root}/build/host/work/demo/logs/build.log\n         \
             Log {root}/build/host/work/other/logs/build.log\n       \
             Retry {program} -C {root} build demo other --chroot host --pins stable --builder host\n"
        )
    );
}

#[test]
fn failed_build_names_its_phase() {
    let prep = Parts { prep: "%autosetup -n elsewhere", ..Parts::default() };
    let check = Parts { check: "echo 'test_a failed: 1 != 2'\nfalse", ..Parts::default() };
    let more = "install -Dpm 644 hello %{buildroot}%{_datadir}/demo/hello\n\
                install -Dpm 644 hello %{buildroot}%{_datadir}/forgotten";
    let unpackaged = Parts { install: more, ..Parts::default() };
    let absent = Parts { files: "%{_datadir}/demo\n%{_datadir}/absent", ..Parts::default() };
    let cases: [(Parts<'_>, &[&str]); 4] = [
        (
            prep,
            &[
                "`demo` failed in %prep: the source unpacks to another folder than the spec expects",
                "elsewhere",
                "help: set `top-folder` in the pin",
            ],
        ),
        (check, &["`demo` failed in %check", "    test_a failed: 1 != 2"]),
        (
            unpackaged,
            &[
                "`demo` failed in %files: no %files section lists these installed files",
                "/usr/share/forgotten",
                "help: list them in %files, or remove them in %install",
            ],
        ),
        (
            absent,
            &[
                "`demo` failed in %files: %files lists files that were not installed",
                "/usr/share/absent",
            ],
        ),
    ];
    let workspace = with(&Parts::default());
    for (parts, expected) in cases {
        workspace.component("demo", &parts);
        build_fails(&workspace, 10).reports(expected);
    }
    workspace.component("demo", &Parts::default());
    build_succeeds(&workspace);
}

#[test]
fn names_a_patch_that_does_not_apply() {
    let workspace = with(&Parts::default());
    let patch = "--- a/hello\n+++ b/hello\n@@ -1 +1 @@\n-good bye\n+farewell\n";
    let path = workspace.write("specs-templates/demo/0001-farewell.patch", patch);
    build_fails(&workspace, 10).reports([
        "`demo` failed in %prep: a patch does not apply to this version",
        "0001-farewell.patch",
        "help: run `rocmrpm patch status` to see the hunk",
    ]);
    std::fs::write(path, patch.replace("good bye", "hello")).unwrap();
    build_succeeds(&workspace);
}

/// Returns a folder with links to every program of /usr/bin except these.
fn programs_without(workspace: &Workspace, absent: &[&str]) -> std::path::PathBuf {
    let dir = workspace.cache().join("../bin");
    std::fs::create_dir_all(&dir).unwrap();
    for name in
        names_in(Path::new("/usr/bin")).iter().filter(|name| !absent.contains(&name.as_str()))
    {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(name), dir.join(name)).unwrap();
    }
    dir
}

#[test]
fn names_a_missing_tool_with_its_packages() {
    let cases = [
        ("createrepo_c", "`dnf install createrepo_c`", "`apt-get install createrepo-c`"),
        ("rpmbuild", "`dnf install rpm-build`", "`apt-get install rpm`"),
        ("curl", "`dnf install curl`", "`apt-get install curl`"),
    ];
    for (tool, fedora, debian) in cases {
        let workspace = with(&Parts::default());
        let content = archive(10);
        pin_file(&workspace, "demo-1.0.tar.gz", &content, Sha256::of_bytes(&content));
        let path = programs_without(&workspace, &[tool]);
        let before = workspace.sources();
        ran(workspace.command(&["build"]).env("PATH", path)).exits(40).reports([
            format!("the program `{tool}` is not installed"),
            format!("help: on Fedora: {fedora}; on Debian: {debian}"),
        ]);
        assert_eq!(workspace.sources(), before);
        workspace.assert_nothing_of("demo");
        build_succeeds(&workspace);
    }
}

#[test]
fn names_a_missing_build_requirement() {
    // On machines with RPMs, rpm itself reports what is missing.
    let debian = Path::new("/var/lib/dpkg/status").exists();
    let requirement = if debian { "ninja-build" } else { "no-such-package" };
    let workspace =
        with(&Parts { preamble: &format!("BuildRequires: {requirement}"), ..Parts::default() });
    let ran = ran(&mut workspace.build_without_ninja());
    if debian {
        ran.exits(40).reports([
            "BuildRequires of `demo` are not installed: ninja-build",
            "help: run `apt-get install ninja-build`",
        ]);
    } else {
        ran.exits(10).reports(["`demo` failed in BuildRequires", "no-such-package is needed by"]);
    }
    workspace.assert_nothing_of("demo");
    workspace.replace(&template("demo"), &format!("BuildRequires: {requirement}"), "");
    build_succeeds(&workspace);
}

#[test]
fn names_an_unreadable_component() {
    // Permissions do not stop root, so the file is replaced by a folder.
    let workspace = with(&Parts::default());
    let file = workspace.path("specs-templates/demo/component.toml");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    build_fails(&workspace, 3)
        .reports(["specs-templates/demo", "the folder has no `component.toml`"]);
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, b"# \xff\n").unwrap();
    let ran = workspace.build();
    ran.exits(3).reports(["specs-templates/demo/component.toml:1:3", "not UTF-8"]);
    std::fs::write(&file, "").unwrap();
    build_succeeds(&workspace);
}

#[test]
fn names_a_build_folder_that_cannot_be_created() {
    let workspace = with(&Parts::default());
    let file = workspace.write("build", "not a folder");
    let ran = workspace.build();
    ran.exits(20).reports([file.to_string_lossy().as_ref()]);
    std::fs::remove_file(&file).unwrap();
    build_succeeds(&workspace);
}

#[test]
fn rejects_a_path_that_rpm_cannot_use() {
    let workspace = with(&Parts::default());
    let moved = workspace.cache().join("../with space");
    std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
    std::fs::create_dir_all(workspace.cache()).unwrap();
    std::fs::rename(workspace.root(), &moved).unwrap();
    std::fs::create_dir(workspace.root()).unwrap();
    let ran = ran(workspace
        .command(&["-C", &moved.to_string_lossy(), "build"])
        .env("ROCMRPM_TRUST", &moved));
    ran.exits(20).reports(["the path contains a space", "help: move the workspace to a folder"]);
    std::fs::remove_dir(workspace.root()).unwrap();
    std::fs::rename(&moved, workspace.root()).unwrap();
    build_succeeds(&workspace);
}

/// Builds twice in a mount namespace where `build/host` is a file system with this many free
/// kilobytes, the second time with more.
fn on_a_full_disk(workspace: &Workspace, kilobytes: u64, expected: &[&str]) {
    std::fs::create_dir_all(workspace.built("")).unwrap();
    let rocmrpm = env!("CARGO_BIN_EXE_rocmrpm");
    let (size, ballast) = (40_000, 40_000 - kilobytes);
    let script = format!(
        "set -e\nmount -t tmpfs -o size={size}k none build/host\n\
         head -c $(({ballast} * 1024)) /dev/zero > build/host/ballast\n\
         code=0; '{rocmrpm}' build || code=$?\necho first $code\n\
         find build/host/results build/host/repository -name '*demo*' 2>/dev/null || :\n\
         rm build/host/ballast\n\
         code=0; '{rocmrpm}' build || code=$?\necho second $code\n\
         ls build/host/results/demo/build.json\n"
    );
    let mut command = Command::new("unshare");
    // The mapping makes it work for ordinary users; root does not need it.
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c", &script]);
    workspace.settle(&mut command);
    let ran = ran(&mut command);
    ran.exits(0).reports(expected).reports(["1 built, 0 fresh"]);
    assert_eq!(ran.stdout, "first 20\nsecond 0\nbuild/host/results/demo/build.json\n", "{ran}");
}

const NO_SPACE: &str = "free some space and run the same command again to resume";

#[test]
fn reports_a_full_disk_while_copying_the_source() {
    let workspace = with(&Parts::default());
    let content = archive(1_000_000);
    pin_file(&workspace, "demo-1.0.tar.gz", &content, Sha256::of_bytes(&content));
    on_a_full_disk(&workspace, 600, &["No space left on device", "demo-1.0.tar.gz", NO_SPACE]);
}

#[test]
fn reports_a_full_disk_during_the_build() {
    let workspace = with(&Parts { build: "head -c 20000000 /dev/zero > big", ..Parts::default() });
    on_a_full_disk(&workspace, 4000, &["`demo` failed in %build: the disk is full", NO_SPACE]);
}

#[test]
fn reports_a_full_disk_while_storing_results() {
    // %clean runs when the packages are written.
    let clean = "rm -rf %{_sourcedir}/* %{_specdir}/* %{_builddir}/*\n\
                 head -c 20000000 /dev/zero > %{_tmppath}/big 2>/dev/null || :";
    let workspace = with(&Parts { clean, ..Parts::default() });
    on_a_full_disk(&workspace, 4000, &["cannot", "No space left on device", NO_SPACE]);
}

#[test]
fn rejects_a_source_folder_outside_the_workspace() {
    let workspace = with(&Parts::default());
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("hello"), "hello\n").unwrap();
    std::fs::remove_dir_all(workspace.path("src/demo")).unwrap();
    std::os::unix::fs::symlink(outside.path(), workspace.path("src/demo")).unwrap();
    build_fails(&workspace, 3).reports(["src/demo", "outside the workspace"]);
    std::fs::remove_file(workspace.path("src/demo")).unwrap();
    workspace.write("src/demo/hello", "hello\n");
    build_succeeds(&workspace);
}
