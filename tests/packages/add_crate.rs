//! Packages a program of the Rust registry, unedited: `add` vendors the crates that it depends on, and
//! rpmbuild builds it without a network. Needs cargo, and the registry that cargo is configured with.

use std::path::PathBuf;
use std::process::Command;

use super::add::add_cargo;
use crate::support::{Workspace, names_in, ran};

const NAME: &str = "hexyl";
const VERSION: &str = "0.8.0";

/// Downloads the archive of a crate with cargo, and returns its path.
fn downloaded(workspace: &Workspace) -> PathBuf {
    let manifest = format!(
        "[package]\nname = \"x\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         [dependencies]\n{NAME} = \"={VERSION}\"\n"
    );
    let folder = workspace.holder().join("download");
    fs_err::create_dir_all(folder.join("src")).unwrap();
    fs_err::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs_err::write(folder.join("src/lib.rs"), "").unwrap();
    ran(Command::new("cargo").args(["fetch", "--quiet"]).current_dir(&folder)).exits(0);
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"),
        PathBuf::from,
    );
    let caches = home.join("registry/cache");
    let file = format!("{NAME}-{VERSION}.crate");
    let archives = names_in(&caches).into_iter().map(|registry| caches.join(registry).join(&file));
    archives.into_iter().find(|path| path.exists()).unwrap()
}

#[test]
fn program_of_the_registry_builds_with_vendored_crates() {
    let workspace = Workspace::quickstart(&[]);
    let archive = downloaded(&workspace);
    let url = format!("file://{}", archive.display());
    let added = workspace.run(&["add", NAME, "--url", &url, "--version", VERSION]);
    added.exits(0).never_reports("warning:");
    let pins = workspace.read("pins/stable.toml");
    assert!(
        pins.contains(&format!("[{NAME}.sources.crates]\ncargo-vendor = \"Cargo.lock\"\n")),
        "{pins}"
    );
    let template = workspace.read(format!("specs-templates/{NAME}/{NAME}.spec.tera"));
    assert!(!template.contains("TODO"), "{template}");
    // Only for the Rust of this machine, which is no package.
    add_cargo(&workspace);
    let toml = format!("specs-templates/{NAME}/component.toml");
    workspace.write(&toml, format!("requires = [\"cargo\"]\n{}", workspace.read(&toml)));
    workspace.run(&["lint", NAME, "--chroot", "host"]).exits(0);
    workspace.run(&["lock"]).exits(0);
    workspace.run(&["build", NAME, "--chroot", "host", "--until", "sources"]).exits(0);

    let program = env!("CARGO_BIN_EXE_rocmrpm");
    let build = format!("{program} build {NAME} --chroot host --offline --until rpm");
    let mut alone = Command::new("unshare");
    // Ordinary users need the mapping; root does not.
    if !rustix::process::geteuid().is_root() {
        alone.args(["--user", "--map-current-user"]);
    }
    alone.args(["--net", "sh", "-c", &build]);
    workspace.settle(&mut alone);
    ran(&mut alone).exits(0).reports([format!("Built {NAME} 1 RPM")]);

    let results = workspace.built(format!("results/{NAME}"));
    let rpm = names_in(&results).into_iter().find(|name| name.ends_with(".x86_64.rpm")).unwrap();
    let rpm = results.join(rpm);
    let query = |args: &[&str]| ran(Command::new("rpm").args(args)).exits(0).stdout.clone();
    let rpm = rpm.to_str().unwrap();
    let provides = query(&["-qp", "--provides", rpm]);
    let bundled = provides.lines().filter(|line| line.starts_with("bundled(crate(")).count();
    // rpm before 4.20 does not ask the generator of these, and Debian's names the folder by the version.
    let old = query(&["--eval", "%[v\"%{rpmversion}\" < v\"4.20\"]"]).trim() == "1";
    assert!(bundled >= 10 || old, "{provides}");
    let unpack = format!("cd $(mktemp -d) && rpm2cpio {rpm} | cpio -id --quiet && ");
    let listed =
        workspace.shell(&format!("{unpack} cat usr/share/licenses/{NAME}*/cargo-vendor.txt"));
    assert!(listed.exits(0).stdout.lines().count() >= 10, "{}", listed.stdout);
    let license = query(&["-qp", "--qf", "%{license}", rpm]);
    assert!(license.contains("Apache-2.0") && license.contains("MIT"), "{license}");
    let script = format!("{unpack} echo abc | ./usr/bin/{NAME} --color=never");
    workspace.shell(&script).exits(0).prints(["61 62 63 0a"]);
}
