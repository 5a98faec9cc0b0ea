//! The packages that provide the programs rocmrpm runs. It does not check what is installed.

/// The package that provides a program: Fedora's name, then Debian's. An empty name means that the
/// distribution does not package it.
const PACKAGES: &[(&str, &str, &str)] = &[
    ("aws", "awscli2", "awscli"),
    ("buildah", "buildah", "buildah"),
    ("cargo", "cargo", "cargo"),
    ("clang++-19", "", "clang-19"),
    ("copr-cli", "copr-cli", ""),
    ("createrepo_c", "createrepo_c", "createrepo-c"),
    ("curl", "curl", "curl"),
    ("dnf", "dnf5", "dnf"),
    ("git", "git-core", "git"),
    ("elfdeps", "rpm-build", "rpm"),
    ("gpg", "gnupg2", "gnupg"),
    ("hipcc", "hipcc", "hipcc"),
    ("ldconfig", "glibc", "libc-bin"),
    ("mock", "mock", ""),
    ("pip", "python3-pip", "python3-pip"),
    ("podman", "podman", "podman"),
    ("python3", "python3", "python3"),
    ("pythondistdeps.py", "python3-rpm-generators", "rpm"),
    ("rpm", "rpm", "rpm"),
    ("rpmbuild", "rpm-build", "rpm"),
    ("rpmkeys", "rpm", "rpm"),
    ("rpmsign", "rpm-sign", "rpm"),
    ("rpmspec", "rpm-build", "rpm"),
    ("rsync", "rsync", "rsync"),
    ("skopeo", "skopeo", "skopeo"),
    ("tar", "tar", "tar"),
    ("unshare", "util-linux", "util-linux"),
    ("uv", "uv", ""),
];

/// Returns how to install a program on Fedora and on Debian.
pub fn install_help(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or(program);
    match PACKAGES.iter().find(|(name, ..)| *name == base) {
        Some((_, fedora, "")) => {
            format!("on Fedora: `dnf install {fedora}`; Debian does not package it")
        }
        Some((_, "", debian)) => format!("on Debian: `apt-get install {debian}`"),
        Some((_, fedora, debian)) => {
            format!("on Fedora: `dnf install {fedora}`; on Debian: `apt-get install {debian}`")
        }
        None => format!("install `{base}` and add it to PATH"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_package_of_a_program() {
        assert!(install_help("createrepo_c").contains("apt-get install createrepo-c"));
    }
}
