//! Tests upgrades from one release to the next: one commit gives the same Release for all chroots,
//! incomplete chroots are not published, and an expiring release names its successor. rpm itself
//! compares the versions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support;
use crate::support::{REPOSITORY, Workspace};
use rocmrpm::process::Command;

const SPEC: &str = "Name: <{ name }>
Version: <{ version }>
Release: <{ release }>
Summary: A test
License: MIT
BuildArch: noarch

%description
A test.

%files

%changelog
<{ changelog }>
";

const F43: &str = "mock-configs/fedora-43.toml";
const F44: &str = "mock-configs/fedora-44.toml";

/// Returns a workspace with two components for two releases; the second has a Python closure.
fn workspace() -> Workspace {
    let workspace = Workspace::init();
    workspace
        .write(F44, workspace.read(F43).replace("43", "44").replace("2026-12-02", "2999-05-11"));
    workspace.replace(F43, "2026-12-02", "2999-01-01");
    workspace.write(
        "pins/stable.toml",
        "[one]\nversion = \"1.0\"\npath = \"src/one\"\n\n[two]\nversion = \"7\"\npath = \"src/two\"\n",
    );
    for (name, toml) in [("one", "[container]\npackages = [\"one\"]\n"), ("two", "[closure]\n")] {
        workspace.write(format!("specs-templates/{name}/component.toml"), toml);
        workspace.write(format!("specs-templates/{name}/{name}.spec.tera"), SPEC);
        workspace.write(format!("src/{name}/file.txt"), "1\n");
    }
    workspace
}

/// Writes a closure like `rocmrpm closure --write`, with these members as RPMs.
fn write_closure(workspace: &Workspace, stem: &str, members: &[(&str, &str)]) {
    let digest = "0".repeat(64);
    let pin = |(name, version): &(&str, &str)| {
        format!("[{name}]\nversion = \"{version}\"\nsdist = \"{name}\"\nsha256 = \"{digest}\"\n")
    };
    workspace
        .write(format!("pins/{stem}.generated.toml"), members.iter().map(pin).collect::<String>());
    workspace.write(format!("pins/{stem}.requirements.lock"), "");
    workspace.write(format!("specs-templates/generated/{stem}/closure.toml"), "private = []\n");
    for (name, _) in members {
        let folder = format!("specs-templates/generated/{stem}/{name}");
        workspace.write(format!("{folder}/component.toml"), "generated = \"two\"\n");
        workspace.write(format!("{folder}/{name}.spec.tera"), SPEC);
    }
}

/// Returns `VERSION-RELEASE` of each component for a chroot.
#[track_caller]
fn releases(workspace: &Workspace, chroot: &str) -> BTreeMap<String, String> {
    let plan =
        workspace.run(&["plan", "--chroot", chroot, "--json"]).exits(0).document("rocmrpm/plan/2");
    let text = |value: &serde_json::Value| value.as_str().unwrap().replace("%{?dist}", "");
    let steps = plan["steps"].as_array().unwrap().iter();
    steps
        .map(|s| {
            (text(&s["component"]), format!("{}-{}", text(&s["version"]), text(&s["release"])))
        })
        .collect()
}

#[track_caller]
fn release(workspace: &Workspace, chroot: &str, component: &str) -> String {
    releases(workspace, chroot)[component].clone()
}

#[test]
fn commit_gives_the_same_release_for_all_chroots() {
    let workspace = workspace();
    workspace.commit("Begin");
    for chroot in ["fedora-43", "fedora-44", "host"] {
        assert_eq!(release(&workspace, chroot, "one"), "1.0-1", "{chroot}");
    }
    workspace.replace(F43, "[macros]\n", "[macros]\nof_43 = \"1\"\n");
    assert_eq!(release(&workspace, "fedora-43", "one"), "1.0-2~dirty");
    assert_eq!(release(&workspace, "fedora-44", "one"), "1.0-1", "its inputs are committed");
    workspace.commit("Change Fedora 43");
    workspace.replace(F44, "rocm-provider = \"amdrocm\"", "rocm-provider = \"fedora\"");
    workspace.commit("Take Fedora 44's ROCm");
    workspace.replace(
        "mock-configs/rocm/fedora.toml",
        "prefix = ",
        "brings = [\"two\"]\nprefix = ",
    );
    workspace.commit("Take `two` of Fedora 44");
    for chroot in ["fedora-43", "fedora-44"] {
        assert_eq!(release(&workspace, chroot, "one"), "1.0-4", "{chroot}");
    }
    // This machine is not a release.
    workspace.replace(
        "mock-configs/host.toml",
        "rocm-provider",
        "python = \"3.11\"\nrocm-provider",
    );
    workspace.commit("Change this machine");
    assert_eq!(release(&workspace, "fedora-43", "one"), "1.0-4");
    assert_eq!(release(&workspace, "host", "one"), "1.0-5");
    // Removing a release does not decrease the Release either.
    fs_err::remove_file(workspace.path(F44)).unwrap();
    workspace.commit("Drop Fedora 44");
    assert_eq!(release(&workspace, "fedora-43", "one"), "1.0-5");
}

#[test]
fn end_of_life_date_does_not_change_packages() {
    let workspace = workspace();
    workspace.commit("Begin");
    workspace.replace(F44, "2999-05-11", "2999-06-01");
    workspace.replace(F44, "fedoraproject.org/fedora:44", "example.org/fedora:44");
    assert_eq!(release(&workspace, "fedora-44", "one"), "1.0-1");
    workspace.commit("Support it longer");
    assert_eq!(release(&workspace, "fedora-44", "one"), "1.0-1");
}

#[test]
fn member_releases_are_below_fedora_and_rise_for_all_chroots() {
    let workspace = workspace();
    write_closure(&workspace, "stable", &[("m", "1.0"), ("two-runtime", "7")]);
    workspace.commit("Begin");
    assert_eq!(release(&workspace, "fedora-43", "m"), "1.0-0.1");
    assert_eq!(
        release(&workspace, "fedora-43", "two-runtime"),
        "7-1",
        "no release has such a package"
    );
    write_closure(&workspace, "stable.fedora-44", &[("m", "1.0")]);
    assert_eq!(release(&workspace, "fedora-44", "m"), "1.0-0.2~dirty");
    assert_eq!(release(&workspace, "fedora-43", "m"), "1.0-0.1");
    workspace.commit("Write the closure for Fedora 44");
    let template = "specs-templates/generated/stable.fedora-44/m/m.spec.tera";
    workspace.replace(template, "Summary: A test", "Summary: A member");
    workspace.commit("Write it again");
    for (component, expected) in [("m", "1.0-0.3"), ("two", "7-3"), ("one", "1.0-1")] {
        for chroot in ["fedora-43", "fedora-44"] {
            assert_eq!(release(&workspace, chroot, component), expected, "{chroot}");
        }
    }
    // If the versions differ, the count for the lower version continues because it was never
    // different there.
    workspace.replace("pins/stable.fedora-44.generated.toml", "\"1.0\"", "\"1.1\"");
    workspace.commit("Take 1.1");
    assert_eq!(release(&workspace, "fedora-43", "m"), "1.0-0.4");
    assert_eq!(release(&workspace, "fedora-44", "m"), "1.1-0.1");
    workspace.replace("pins/stable.generated.toml", "\"1.0\"", "\"1.1\"");
    workspace.commit("Take 1.1 everywhere");
    assert_eq!(
        [release(&workspace, "fedora-43", "m"), release(&workspace, "fedora-44", "m")],
        ["1.1-0.2", "1.1-0.2"]
    );

    workspace.run(&["render"]).exits(0);
    let format = "%{release}\n[%{changelogname} | %{changelogtext}\\n]";
    let spec = workspace.path("build/fedora-43/specs/m.spec");
    let changelog = support::rpmspec(&spec, &["-q", "--qf", format]);
    let changelog = changelog.replace("Ada Lovelace <ada@example.org> - ", "");
    let begins = [
        "0.2.fc43",
        "1.1-0.2 | - Take 1.1 everywhere",
        "1.1-0.1 | - Take 1.1",
        "1.0-0.3 | - Write it again",
    ];
    assert_eq!(changelog.lines().take(4).collect::<Vec<_>>(), begins);
}

/// The commands that publish or check packages, each with a separate chroot.
const PUBLIC: [&[&str]; 4] = [
    &["lint"],
    &["copr", "push", "--dry-run"],
    &["publish", "repository", "to"],
    &["publish", "index", "to"],
];

#[test]
fn rejects_a_chroot_without_its_closure() {
    let workspace = workspace();
    write_closure(&workspace, "stable", &[]);
    let project =
        "owner = \"a\"\nproject = \"b\"\nchroots = [\"fedora-43-x86_64\", \"fedora-44-x86_64\"]\n";
    workspace.write("copr/project.toml", project);
    let missing = "the Python closure of `two` is not written for pin set `stable` on fedora-44";
    let help = "write it: rocmrpm closure --pins stable --chroot fedora-44 --write";
    let place = "specs-templates/two/component.toml:1:1";
    for command in PUBLIC.iter().copied().chain([&["build"][..], &["build", "two"]]) {
        let ran = workspace.run(&[command, &["--chroot", "fedora-44"]].concat());
        ran.exits(3);
        ran.reports([missing, place, help]);
    }
    workspace.run(&["copr", "sync", "--dry-run"]).exits(3).reports([missing, help]);
    workspace.run(&["copr", "push"]).exits(3).reports([missing, help]);
    assert!(!workspace.path("to").exists());
    // Components that were not selected and earlier stages are not rejected.
    let on = ["--chroot", "fedora-44"];
    workspace.run(&[&["plan"], &on[..]].concat()).exits(0).reports(["warning: ", missing, help]);
    workspace
        .run(&[&["build", "two", "--until", "spec"], &on[..]].concat())
        .exits(0)
        .reports([missing]);
    workspace.run(&[&["lint", "one"], &on[..]].concat()).exits(0);
    let warning = "is not written for pin set `stable` on host";
    workspace
        .run(&["build", "two", "--until", "spec", "--chroot", "host"])
        .exits(0)
        .reports([warning]);

    // One of the two files is not enough.
    for part in ["pins/stable.fedora-44.requirements.lock", "pins/stable.fedora-44.generated.toml"]
    {
        write_closure(&workspace, "stable.fedora-44", &[]);
        workspace.run(&[&["lint"], &on[..]].concat()).exits(0);
        fs_err::remove_file(workspace.path(part)).unwrap();
        workspace.run(&[&["lint"], &on[..]].concat()).exits(3).reports([missing]);
    }
    // Components that the chroot omits need none.
    workspace.replace(
        "pins/stable.toml",
        "path = \"src/two\"",
        "path = \"src/two\"\npython = \"<3\"",
    );
    workspace.run(&[&["lint"], &on[..]].concat()).exits(0);
}

#[test]
fn rejects_a_member_downgrade() {
    let workspace = workspace();
    workspace.write(
        "copr/project.toml",
        "owner = \"a\"\nproject = \"b\"\nchroots = [\"fedora-44-x86_64\"]\n",
    );
    write_closure(&workspace, "stable", &[("m", "1.10"), ("same", "2.0rc1"), ("two-runtime", "7")]);
    write_closure(
        &workspace,
        "stable.fedora-44",
        &[("m", "1.9"), ("same", "2.0"), ("two-runtime", "6")],
    );
    for command in PUBLIC {
        workspace.run(&[command, &["--chroot", "fedora-44"]].concat()).exits(3).reports([
            "`m` 1.9 for fedora-44 is lower than 1.10 for fedora-43",
            "pins/stable.fedora-44.generated.toml:1:2",
            "`rocmrpm closure --pins stable --chroot fedora-44 --upgrade --write` to resolve it again",
            "1 mistake in",
        ]);
    }
    let alone = workspace.run(&["lint", "--chroot", "fedora-43"]);
    assert!(!alone.stderr.contains("lower"), "{}", alone.stderr);
    workspace.write("pins/stable.generated.toml", "[m\n");
    workspace
        .run(&["lint", "--chroot", "fedora-44"])
        .exits(3)
        .reports(["pins/stable.generated.toml", "not valid TOML"]);
}

#[test]
fn end_of_life_warning_suggests_the_next_release() {
    let workspace = workspace();
    let f45 = "mock-configs/fedora-45.toml";
    workspace.write(f45, workspace.read(F44).replace("44", "45"));
    workspace.replace(F43, "2999-01-01", "2020-01-01");
    let says =
        |next: &str| format!("warning: fedora-43 reached its end of life on 2020-01-01; {next}");
    let switch = |to: &str| says(&format!("switch to {to}: `rocmrpm plan --chroot {to}`"));
    let commands: [&[&str]; 3] =
        [&["plan", "one"], &["build", "one", "--until", "spec"], &["doctor"]];
    for command in commands {
        workspace.run(command).reports([&switch("fedora-44")]);
    }
    let document = workspace.run(&["doctor", "--json"]).document("rocmrpm/doctor/2");
    assert_eq!(document["end_of_life"].as_array().map(Vec::len), Some(1), "{document}");
    workspace.replace(F44, "2999-05-11", "2021-01-01");
    workspace.run(&["plan", "one"]).exits(0).reports([&switch("fedora-45")]);
    workspace.replace(f45, "2999-05-11", "2022-01-01");
    workspace.run(&["plan", "one"]).exits(0).reports([&says("the workspace has no later release")]);
    let later = workspace.run(&["plan", "one", "--chroot", "fedora-45", "--json"]);
    later.exits(0);
    assert!(
        later.stderr.contains("fedora-45 reached its end of life on 2022-01-01"),
        "{}",
        later.stderr
    );
}

#[test]
fn renders_and_checks_container_files_of_several_chroots() {
    let workspace = workspace();
    workspace.write(
        "rocmrpm.toml",
        &(workspace.read("rocmrpm.toml") + "\n[container.fedora]\nchroots = [\"fedora-44\"]\n"),
    );
    workspace
        .run(&["render"])
        .exits(0)
        .reports(["Rendered Containerfile.fedora43", "Rendered Containerfile.fedora44"]);
    let file = workspace.read("Containerfile.fedora44");
    for part in [
        "registry.fedoraproject.org/fedora:44",
        "build/fedora-44/repository",
        "-f Containerfile.fedora44 .",
    ] {
        assert!(file.contains(part), "{part}: {file}");
    }
    workspace.run(&["render", "--check"]).exits(0).reports(["2 committed files"]);
    workspace.replace("Containerfile.fedora44", "fedora:44", "fedora:45");
    workspace.run(&["render", "--check"]).exits(1).reports(["Differs Containerfile.fedora44"]);
    workspace.run(&["render", "--chroot", "fedora-44"]).exits(0);
    assert_eq!(workspace.read("Containerfile.fedora44"), file);

    workspace.replace("rocmrpm.toml", "chroots = [\"fedora-44\"]", "chroots = [\"fedora-4\"]");
    workspace
        .run(&["render"])
        .exits(3)
        .reports(["unknown chroot `fedora-4`", "did you mean `fedora-4"]);
    workspace.replace(
        "rocmrpm.toml",
        "[container.fedora]\nchroots = [\"fedora-4\"]",
        "[container.ollama]\nbase = \"x/y:1\"\nbuilt-by = \"X\"\nchroots = [\"host\"]",
    );
    workspace
        .run(&["render"])
        .exits(3)
        .reports(["a container file of the flavor `ollama` does not depend on a chroot"]);
    // A listed chroot without a container image is an error instead of being omitted.
    workspace.replace(
        "rocmrpm.toml",
        "[container.ollama]\nbase = \"x/y:1\"\nbuilt-by = \"X\"",
        "[container.fedora]",
    );
    workspace.run(&["render"]).exits(3).reports(["`host`", "container-image"]);
}

/// Returns the names of the TOML files in a folder of the repository, without suffix.
fn names(folder: &str) -> Vec<String> {
    let entries = fs_err::read_dir(Path::new(REPOSITORY).join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> =
        names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned)).collect();
    names.sort();
    names
}

/// Returns the epoch, version and release of all packages in the specs for a release.
fn packages(workspace: &Workspace, set: &str, chroot: &str) -> BTreeMap<String, [String; 3]> {
    workspace.run(&["render", "--pins", set, "--chroot", chroot]).exits(0);
    let config: toml::Table =
        workspace.read(format!("mock-configs/{chroot}.toml")).parse().unwrap();
    let define = |name: &str, key: &str| format!("{name} {}", config[key].as_str().unwrap());
    let (dist, fedora) = (define("dist", "dist"), define("fedora", "release"));
    let specs = fs_err::read_dir(workspace.path(format!("build/{chroot}/specs"))).unwrap();
    let specs: Vec<PathBuf> = specs.map(|entry| entry.unwrap().path()).collect();
    let (first, rest) = specs.split_first().unwrap();
    let format = "%{name} %{epochnum} %{version} %{release}\n";
    let mut args = vec!["--define", &dist, "--define", &fedora, "-q", "--qf", format];
    args.extend(rest.iter().map(|path| path.to_str().unwrap()));
    let lines = support::rpmspec(first, &args);
    fs_err::remove_dir_all(workspace.path(format!("build/{chroot}/specs"))).unwrap();
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut next = || words.next().unwrap();
        (next(), [next(), next(), next()])
    };
    lines.lines().map(line).collect()
}

/// Returns the pairs that rpm considers a downgrade: compares epoch, version and release in order,
/// as rpm does (rpm-version(7)).
fn going_down(pairs: &[(&str, &[String; 3], &[String; 3])]) -> Vec<String> {
    let mut script = String::from("%{lua:\n");
    for (name, old, new) in pairs {
        let compare = |at: usize| format!("rpm.vercmp('{}', '{}')", new[at], old[at]);
        script += &format!(
            "local order = {}; if order == 0 then order = {} end; if order == 0 then order = {} end\n\
             if order < 0 then print('{name}\\n') end\n",
            compare(0),
            compare(1),
            compare(2)
        );
    }
    let down = Command::new("rpm").args(["--eval", &(script + "}")]).text();
    let down = down.unwrap_or_else(|error| panic!("rpm: {error} (Debian package: rpm)"));
    down.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn rpm_finds_lower_versions() {
    let evr = |text: &str| {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        [words[0].clone(), words[1].clone(), words[2].clone()]
    };
    let pairs = [
        ("down", evr("0 1.0 2.fc43"), evr("0 1.0 1.fc44")),
        ("up", evr("0 1.0 2.fc43"), evr("0 1.0 2.fc44")),
        ("pre", evr("0 1.0 1.fc43"), evr("0 1.0~rc1 1.fc44")),
        ("epoch", evr("0 2.0 1.fc43"), evr("1 1.0 1.fc44")),
        ("fedora", evr("0 1.0 0.99.fc43"), evr("0 1.0 1.fc44")),
    ];
    let pairs: Vec<_> = pairs.iter().map(|(name, old, new)| (*name, old, new)).collect();
    assert_eq!(going_down(&pairs), ["down", "pre"]);
}

/// Checks every package of every pin set, of components and written closures, from each release to
/// the next.
#[test]
fn upgrade_never_downgrades_a_package_of_the_stack() {
    let workspace = Workspace::copy_of("");
    workspace.commit("Begin");
    // Commits that affect only one of the releases.
    for subject in ["One", "Two"] {
        workspace.replace(
            F43,
            "[macros]\n",
            &format!("[macros]\n\"only_for_43_{subject}\" = \"1\"\n"),
        );
        workspace.commit(subject);
    }
    let chroots: Vec<_> = names("mock-configs").into_iter().filter(|name| name != "host").collect();
    assert!(chroots.len() > 1, "{chroots:?}");
    let sets: Vec<_> =
        names("pins").into_iter().filter(|name| !name.ends_with(".generated")).collect();
    for set in sets {
        let all: Vec<_> = chroots.iter().map(|chroot| packages(&workspace, &set, chroot)).collect();
        for (at, old) in all.iter().enumerate() {
            assert!(old.contains_key("python3-triton-rocm"), "{set} for {}: {old:?}", chroots[at]);
            for (later, new) in all.iter().enumerate().skip(at + 1) {
                let both =
                    old.iter().filter_map(|(name, old)| Some((name.as_str(), old, new.get(name)?)));
                let both: Vec<_> = both.collect();
                assert!(both.len() > 5, "{set}: {both:?}");
                let down = going_down(&both);
                assert!(down.is_empty(), "{set}, {} to {}: {down:?}", chroots[at], chroots[later]);
            }
        }
    }
}
