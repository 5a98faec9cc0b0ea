//! A small workspace for tests.

use std::path::Path;

use super::{Selection, Workspace};

const MANIFEST: &str = "[stack]\nname = \"lab\"\ngpu-targets = [\"gfx1151\"]\n\
                        default-chroot = \"fedora-43\"\ndefault-pins = \"stable\"\n";
const CHROOT: &str = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
                      rocm-provider = \"fedora\"\nbase-config = \"fedora-43-x86_64.cfg\"\n";
const PINS: &str =
    "[one]\nversion = \"1.0\"\npath = \"src/one\"\n\n[two]\nversion = \"7\"\npath = \"src/two\"\n";
const COPR: &str = "owner = \"alice\"\nproject = \"lab\"\nchroots = [\"fedora-43-x86_64\"]\n\
                    description = \"x\"\ninstructions = \"x\"\n";

/// Writes a workspace of two components and loads it for a chroot; `two` requires `one`.
pub(crate) fn sample(dir: &Path, chroot: &str) -> Workspace {
    for (path, text) in [
        ("rocmrpm.toml", MANIFEST),
        ("copr/project.toml", COPR),
        ("mock-configs/fedora-43.toml", CHROOT),
        ("mock-configs/host.toml", "rocm-provider = \"fedora\"\n"),
        ("mock-configs/mock.cfg.tera", ""),
        ("mock-configs/rocm/fedora.toml", "prefix = \"/usr\"\nversion = \"6.4\"\n"),
        ("pins/stable.toml", PINS),
        ("specs-templates/one/component.toml", ""),
        ("specs-templates/one/one.spec.tera", ""),
        ("specs-templates/two/component.toml", "requires = [\"one\"]\n"),
        ("specs-templates/two/two.spec.tera", ""),
        ("src/one/a", "a"),
        ("src/two/a", "a"),
    ] {
        crate::files::write_atomically(&dir.join(path), text).unwrap();
    }
    let selection = Selection { chroot: Some(chroot.to_owned()), ..Selection::default() };
    Workspace::load(dir, &selection).unwrap()
}
