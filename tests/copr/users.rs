//! Gets packages from a COPR repository with dnf, as a user and as a build root.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::{names_in, ran};

/// Package contents by file name.
pub type Packages = BTreeMap<String, Vec<u8>>;

/// Selects and downloads packages with dnf from a single repository. Verifies the server's
/// certificate with this CA.
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
        .args([
            "-y",
            "--releasever=43",
            "--setopt=module_platform_id=platform:f43",
            "--downloadonly",
        ])
        .arg(format!("--installroot={}", path("root").display()))
        .arg(format!("--destdir={}", path("packages").display()))
        .args([option("reposdir", "repos"), option("cachedir", "cache"), option("logdir", "log")])
        .args([
            option("persistdir", "state"),
            "--setopt=install_weak_deps=0".into(),
            "install".into(),
        ])
        .args(names)
        .env("NO_PROXY", "127.0.0.1");
    ran(&mut command).exits(0);
    packages_in(&path("packages"))
}

/// Reads the packages in a folder, except source packages.
pub fn packages_in(dir: &Path) -> Packages {
    let names = names_in(dir)
        .into_iter()
        .filter(|name| name.ends_with(".rpm") && !name.ends_with(".src.rpm"));
    names.map(|name| (name.clone(), std::fs::read(dir.join(name)).unwrap())).collect()
}
