//! Upgrades from one release to the next: one commit gives one Release for all chroots, what was
//! not made for a chroot is not sent there, and a release that ends names the next one. rpm
//! itself compares the versions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{Lab, REPOSITORY};
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

/// Returns a workspace of two components for two releases, the second with a Python closure.
fn lab() -> Lab {
    let lab = Lab::init();
    lab.write(F44, &lab.read(F43).replace("43", "44").replace("2026-12-02", "2999-05-11"));
    lab.replace(F43, "2026-12-02", "2999-01-01");
    lab.write(
        "pins/stable.toml",
        "[one]\nversion = \"1.0\"\npath = \"src/one\"\n\n[two]\nversion = \"7\"\npath = \"src/two\"\n",
    );
    for (name, toml) in [("one", "[container]\npackages = [\"one\"]\n"), ("two", "[closure]\n")] {
        lab.write(&format!("specs-templates/{name}/component.toml"), toml);
        lab.write(&format!("specs-templates/{name}/{name}.spec.tera"), SPEC);
        lab.write(&format!("src/{name}/file.txt"), "1\n");
    }
    lab
}

/// Writes a closure as `rocmrpm closure --write` does, with these members as RPMs.
fn write_closure(lab: &Lab, stem: &str, members: &[(&str, &str)]) {
    let digest = "0".repeat(64);
    let pin = |(name, version): &(&str, &str)| {
        format!("[{name}]\nversion = \"{version}\"\nsdist = \"{name}\"\nsha256 = \"{digest}\"\n")
    };
    lab.write(&format!("pins/{stem}.generated.toml"), &members.iter().map(pin).collect::<String>());
    lab.write(&format!("pins/{stem}.requirements.lock"), "");
    lab.write(&format!("specs-templates/generated/{stem}/closure.toml"), "private = []\n");
    for (name, _) in members {
        let folder = format!("specs-templates/generated/{stem}/{name}");
        lab.write(&format!("{folder}/component.toml"), "generated = \"two\"\n");
        lab.write(&format!("{folder}/{name}.spec.tera"), SPEC);
    }
}

/// Returns `VERSION-RELEASE` of each component for a chroot.
#[track_caller]
fn releases(lab: &Lab, chroot: &str) -> BTreeMap<String, String> {
    let plan = lab.run(&["plan", "--chroot", chroot, "--json"]).exits(0).json("rocmrpm/plan/2");
    let text = |value: &serde_json::Value| value.as_str().unwrap().replace("%{?dist}", "");
    let steps = plan["steps"].as_array().unwrap().iter();
    steps
        .map(|s| (text(&s["component"]), format!("{}-{}", text(&s["version"]), text(&s["release"]))))
        .collect()
}

#[track_caller]
fn release(lab: &Lab, chroot: &str, component: &str) -> String {
    releases(lab, chroot)[component].clone()
}

#[test]
fn one_commit_gives_one_release_for_all_chroots() {
    let lab = lab();
    lab.commit("Begin");
    for chroot in ["fedora-43", "fedora-44", "host"] {
        assert_eq!(release(&lab, chroot, "one"), "1.0-1", "{chroot}");
    }
    lab.replace(F43, "[macros]\n", "[macros]\nof_43 = \"1\"\n");
    assert_eq!(release(&lab, "fedora-43", "one"), "1.0-2~dirty");
    assert_eq!(release(&lab, "fedora-44", "one"), "1.0-1", "what it is built from is committed");
    lab.commit("Change Fedora 43");
    lab.replace(F44, "rocm-provider = \"amdrocm\"", "rocm-provider = \"fedora\"");
    lab.commit("Take Fedora 44's ROCm");
    lab.replace("mock-configs/rocm/fedora.toml", "prefix = ", "brings = [\"two\"]\nprefix = ");
    lab.commit("Take `two` of Fedora 44");
    for chroot in ["fedora-43", "fedora-44"] {
        assert_eq!(release(&lab, chroot, "one"), "1.0-4", "{chroot}");
    }
    // This machine is no release.
    lab.replace("mock-configs/host.toml", "rocm-provider", "python = \"3.11\"\nrocm-provider");
    lab.commit("Change this machine");
    assert_eq!(release(&lab, "fedora-43", "one"), "1.0-4");
    assert_eq!(release(&lab, "host", "one"), "1.0-5");
    // Nor does a Release fall with a release that goes.
    fs_err::remove_file(lab.path(F44)).unwrap();
    lab.commit("Drop Fedora 44");
    assert_eq!(release(&lab, "fedora-43", "one"), "1.0-5");
}

#[test]
fn when_support_ends_changes_no_package() {
    let lab = lab();
    lab.commit("Begin");
    lab.replace(F44, "2999-05-11", "2999-06-01");
    lab.replace(F44, "fedoraproject.org/fedora:44", "example.org/fedora:44");
    assert_eq!(release(&lab, "fedora-44", "one"), "1.0-1");
    lab.commit("Support it longer");
    assert_eq!(release(&lab, "fedora-44", "one"), "1.0-1");
}

#[test]
fn members_have_releases_below_those_of_fedora_that_rise_for_all_chroots() {
    let lab = lab();
    write_closure(&lab, "stable", &[("m", "1.0"), ("two-runtime", "7")]);
    lab.commit("Begin");
    assert_eq!(release(&lab, "fedora-43", "m"), "1.0-0.1");
    assert_eq!(release(&lab, "fedora-43", "two-runtime"), "7-1", "no release has such a package");
    write_closure(&lab, "stable.fedora-44", &[("m", "1.0")]);
    assert_eq!(release(&lab, "fedora-44", "m"), "1.0-0.2~dirty");
    assert_eq!(release(&lab, "fedora-43", "m"), "1.0-0.1");
    lab.commit("Write the closure for Fedora 44");
    let template = "specs-templates/generated/stable.fedora-44/m/m.spec.tera";
    lab.replace(template, "Summary: A test", "Summary: A member");
    lab.commit("Write it again");
    for (component, expected) in [("m", "1.0-0.3"), ("two", "7-3"), ("one", "1.0-1")] {
        for chroot in ["fedora-43", "fedora-44"] {
            assert_eq!(release(&lab, chroot, component), expected, "{chroot}");
        }
    }
    // Where the versions differ, the lower one's count goes on: it was never another one there.
    lab.replace("pins/stable.fedora-44.generated.toml", "\"1.0\"", "\"1.1\"");
    lab.commit("Take 1.1");
    assert_eq!(release(&lab, "fedora-43", "m"), "1.0-0.4");
    assert_eq!(release(&lab, "fedora-44", "m"), "1.1-0.1");
    lab.replace("pins/stable.generated.toml", "\"1.0\"", "\"1.1\"");
    lab.commit("Take 1.1 everywhere");
    assert_eq!([release(&lab, "fedora-43", "m"), release(&lab, "fedora-44", "m")], ["1.1-0.2", "1.1-0.2"]);

    lab.run(&["render"]).exits(0);
    let format = "%{release}\n[%{changelogname} | %{changelogtext}\\n]";
    let spec = lab.path("build/fedora-43/specs/m.spec");
    let changelog = common::rpmspec(&spec, &["-q", "--qf", format]);
    let changelog = changelog.replace("Ada Lovelace <ada@example.org> - ", "");
    let begins =
        ["0.2.fc43", "1.1-0.2 | - Take 1.1 everywhere", "1.1-0.1 | - Take 1.1", "1.0-0.3 | - Write it again"];
    assert_eq!(changelog.lines().take(4).collect::<Vec<_>>(), begins);
}

/// The commands that give packages to others, or judge them, with a chroot of their own.
const PUBLIC: [&[&str]; 4] = [
    &["lint"],
    &["copr", "push", "--dry-run"],
    &["publish", "repository", "to"],
    &["publish", "index", "to"],
];

#[test]
fn a_chroot_without_its_closure_is_refused_with_the_command_that_writes_it() {
    let lab = lab();
    write_closure(&lab, "stable", &[]);
    let project = "owner = \"a\"\nproject = \"b\"\nchroots = [\"fedora-43-x86_64\", \"fedora-44-x86_64\"]\n";
    lab.write("copr/project.toml", project);
    let missing = "the Python closure of `two` is not written for the pins of stable on fedora-44";
    let help = "`rocmrpm closure --pins stable --chroot fedora-44 --write` writes it";
    let place = "specs-templates/two/component.toml:1:1";
    for command in PUBLIC.iter().copied().chain([&["build"][..], &["build", "two"]]) {
        let ran = lab.run(&[command, &["--chroot", "fedora-44"]].concat()).exits(3);
        ran.says(&[missing, place, help]);
    }
    lab.run(&["copr", "sync", "--dry-run"]).exits(3).says(&[missing, help]);
    lab.run(&["copr", "push"]).exits(3).says(&[missing, help]);
    assert!(!lab.path("to").exists());
    // What is not meant is not refused, nor is what comes before packages.
    let on = ["--chroot", "fedora-44"];
    lab.run(&[&["plan"], &on[..]].concat()).exits(0).says(&["warning: ", missing, help]);
    lab.run(&[&["build", "two", "--until", "spec"], &on[..]].concat()).exits(0).says(&[missing]);
    lab.run(&[&["lint", "one"], &on[..]].concat()).exits(0);
    let warning = "is not written for the pins of stable on host";
    lab.run(&["build", "two", "--until", "spec", "--chroot", "host"]).exits(0).says(&[warning]);

    // Half of it is not it.
    for part in ["pins/stable.fedora-44.requirements.lock", "pins/stable.fedora-44.generated.toml"] {
        write_closure(&lab, "stable.fedora-44", &[]);
        lab.run(&[&["lint"], &on[..]].concat()).exits(0);
        fs_err::remove_file(lab.path(part)).unwrap();
        lab.run(&[&["lint"], &on[..]].concat()).exits(3).says(&[missing]);
    }
    // What the chroot leaves out needs none.
    lab.replace("pins/stable.toml", "path = \"src/two\"", "path = \"src/two\"\npython = \"<3\"");
    lab.run(&[&["lint"], &on[..]].concat()).exits(0);
}

#[test]
fn a_member_that_would_go_down_is_refused() {
    let lab = lab();
    lab.write("copr/project.toml", "owner = \"a\"\nproject = \"b\"\nchroots = [\"fedora-44-x86_64\"]\n");
    write_closure(&lab, "stable", &[("m", "1.10"), ("same", "2.0rc1"), ("two-runtime", "7")]);
    write_closure(&lab, "stable.fedora-44", &[("m", "1.9"), ("same", "2.0"), ("two-runtime", "6")]);
    for command in PUBLIC {
        lab.run(&[command, &["--chroot", "fedora-44"]].concat()).exits(3).says(&[
            "`m` 1.9 for fedora-44 is lower than 1.10 for fedora-43",
            "pins/stable.fedora-44.generated.toml:1:2",
            "`rocmrpm closure --pins stable --chroot fedora-44 --upgrade --write` resolves it again",
            "1 mistake in",
        ]);
    }
    let alone = lab.run(&["lint", "--chroot", "fedora-43"]);
    assert!(!alone.stderr.contains("lower"), "{}", alone.stderr);
    lab.write("pins/stable.generated.toml", "[m\n");
    lab.run(&["lint", "--chroot", "fedora-44"])
        .exits(3)
        .says(&["pins/stable.generated.toml", "not valid TOML"]);
}

#[test]
fn a_release_that_ends_names_the_next_one_that_does_not() {
    let lab = lab();
    let f45 = "mock-configs/fedora-45.toml";
    lab.write(f45, &lab.read(F44).replace("44", "45"));
    lab.replace(F43, "2999-01-01", "2020-01-01");
    let says = |next: &str| format!("warning: fedora-43 reached its end of life on 2020-01-01; {next}");
    let switch = |to: &str| says(&format!("switch to {to}: `rocmrpm plan --chroot {to}`"));
    let commands: [&[&str]; 3] = [&["plan", "one"], &["build", "one", "--until", "spec"], &["doctor"]];
    for command in commands {
        lab.run(command).says(&[&switch("fedora-44")]);
    }
    let document = lab.run(&["doctor", "--json"]).json("rocmrpm/doctor/2");
    assert_eq!(document["end_of_life"].as_array().map(Vec::len), Some(1), "{document}");
    lab.replace(F44, "2999-05-11", "2021-01-01");
    lab.run(&["plan", "one"]).exits(0).says(&[&switch("fedora-45")]);
    lab.replace(f45, "2999-05-11", "2022-01-01");
    lab.run(&["plan", "one"]).exits(0).says(&[&says("the workspace has no later release")]);
    let later = lab.run(&["plan", "one", "--chroot", "fedora-45", "--json"]).exits(0);
    assert!(later.stderr.contains("fedora-45 reached its end of life on 2022-01-01"), "{}", later.stderr);
}

#[test]
fn container_files_of_several_chroots_are_rendered_and_checked() {
    let lab = lab();
    lab.write(
        "rocmrpm.toml",
        &(lab.read("rocmrpm.toml") + "\n[container.fedora]\nchroots = [\"fedora-44\"]\n"),
    );
    lab.run(&["render"])
        .exits(0)
        .says(&["Rendered Containerfile.fedora43", "Rendered Containerfile.fedora44"]);
    let file = lab.read("Containerfile.fedora44");
    for part in
        ["registry.fedoraproject.org/fedora:44", "build/fedora-44/repository", "-f Containerfile.fedora44 ."]
    {
        assert!(file.contains(part), "{part}: {file}");
    }
    lab.run(&["render", "--check"]).exits(0).says(&["2 committed files"]);
    lab.replace("Containerfile.fedora44", "fedora:44", "fedora:45");
    lab.run(&["render", "--check"]).exits(1).says(&["Differs Containerfile.fedora44"]);
    lab.run(&["render", "--chroot", "fedora-44"]).exits(0);
    assert_eq!(lab.read("Containerfile.fedora44"), file);

    lab.replace("rocmrpm.toml", "chroots = [\"fedora-44\"]", "chroots = [\"fedora-4\"]");
    lab.run(&["render"]).exits(3).says(&["unknown chroot `fedora-4`", "did you mean `fedora-4"]);
    lab.replace(
        "rocmrpm.toml",
        "[container.fedora]\nchroots = [\"fedora-4\"]",
        "[container.ollama]\nchroots = [\"host\"]",
    );
    lab.run(&["render"]).exits(3).says(&["a container file of the flavour `ollama` is for no chroot"]);
    // What was asked for and cannot be is an error, not left out.
    lab.replace("rocmrpm.toml", "[container.ollama]", "[container.fedora]");
    lab.run(&["render"]).exits(3).says(&["`host`", "container-image"]);
}

/// Returns the names of the TOML files in a folder of the repository.
fn names(folder: &str) -> Vec<String> {
    let entries = fs_err::read_dir(Path::new(REPOSITORY).join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned)).collect();
    names.sort();
    names
}

/// Returns the version and release of all packages that specs make for a release.
fn packages(lab: &Lab, set: &str, chroot: &str) -> BTreeMap<String, [String; 3]> {
    lab.run(&["render", "--pins", set, "--chroot", chroot]).exits(0);
    let config: toml::Table = lab.read(&format!("mock-configs/{chroot}.toml")).parse().unwrap();
    let define = |name: &str, key: &str| format!("{name} {}", config[key].as_str().unwrap());
    let (dist, fedora) = (define("dist", "dist"), define("fedora", "release"));
    let specs = fs_err::read_dir(lab.path(&format!("build/{chroot}/specs"))).unwrap();
    let specs: Vec<PathBuf> = specs.map(|entry| entry.unwrap().path()).collect();
    let (first, rest) = specs.split_first().unwrap();
    let format = "%{name} %{epochnum} %{version} %{release}\n";
    let mut args = vec!["--define", &dist, "--define", &fedora, "-q", "--qf", format];
    args.extend(rest.iter().map(|path| path.to_str().unwrap()));
    let lines = common::rpmspec(first, &args);
    fs_err::remove_dir_all(lab.path(&format!("build/{chroot}/specs"))).unwrap();
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut next = || words.next().unwrap();
        (next(), [next(), next(), next()])
    };
    lines.lines().map(line).collect()
}

/// Returns which of the pairs rpm finds to go down: epoch, version and release, compared one
/// after the other as rpm does (rpm-version(7)).
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

/// Every package of every pin set, from each release to the next: of components, and of members
/// of the closures that are written.
#[test]
fn no_package_of_the_stack_goes_down_with_an_upgrade() {
    let lab = Lab::copy_of("");
    lab.commit("Begin");
    // A history that concerns one release more than the others.
    for subject in ["One", "Two"] {
        lab.replace(F43, "[macros]\n", &format!("[macros]\n\"only_for_43_{subject}\" = \"1\"\n"));
        lab.commit(subject);
    }
    let chroots: Vec<_> = names("mock-configs").into_iter().filter(|name| name != "host").collect();
    assert!(chroots.len() > 1, "{chroots:?}");
    let sets: Vec<_> = names("pins").into_iter().filter(|name| !name.ends_with(".generated")).collect();
    for set in sets {
        let all: Vec<_> = chroots.iter().map(|chroot| packages(&lab, &set, chroot)).collect();
        for (at, old) in all.iter().enumerate() {
            assert!(old.contains_key("python3-triton-rocm"), "{set} for {}: {old:?}", chroots[at]);
            for (later, new) in all.iter().enumerate().skip(at + 1) {
                let both = old.iter().filter_map(|(name, old)| Some((name.as_str(), old, new.get(name)?)));
                let both: Vec<_> = both.collect();
                assert!(both.len() > 5, "{set}: {both:?}");
                let down = going_down(&both);
                assert!(down.is_empty(), "{set}, {} to {}: {down:?}", chroots[at], chroots[later]);
            }
        }
    }
}
