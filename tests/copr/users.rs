//! What dnf takes from a repository of COPR's, as a user and as a build root.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::{names_in, ran};

/// Packages by file name, with their bytes.
pub type Packages = BTreeMap<String, Vec<u8>>;

/// Lets dnf choose and download packages from one repository alone. Its server's certificate is
/// verified with this authority.
pub fn downloads(url: &str, ca: &Path, names: &[&str]) -> Packages {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for folder in ["repos", "log", "packages"] {
        std::fs::create_dir(path(folder)).unwrap();
    }
    let text = format!(
        "[copr]\nname=copr\nbaseurl={url}\nenabled=1\ngpgcheck=0\nsslcacert={}\nskip_if_unavailable=0\n",
        ca.display()
    );
    std::fs::write(path("repos/copr.repo"), text).unwrap();
    let option = |name: &str, folder: &str| format!("--setopt={name}={}", path(folder).display());
    let mut command = Command::new("dnf");
    command
        .args(["-y", "--releasever=43", "--setopt=module_platform_id=platform:f43", "--downloadonly"])
        .arg(format!("--installroot={}", path("root").display()))
        .arg(format!("--destdir={}", path("packages").display()))
        .args([option("reposdir", "repos"), option("cachedir", "cache"), option("logdir", "log")])
        .args([option("persistdir", "state"), "--setopt=install_weak_deps=0".into(), "install".into()])
        .args(names)
        .env("NO_PROXY", "127.0.0.1");
    ran(&mut command).exits(0);
    packages_in(&path("packages"))
}

/// Reads the packages of a folder, source packages left out.
pub fn packages_in(dir: &Path) -> Packages {
    let names =
        names_in(dir).into_iter().filter(|name| name.ends_with(".rpm") && !name.ends_with(".src.rpm"));
    names.map(|name| (name.clone(), std::fs::read(dir.join(name)).unwrap())).collect()
}
