//! Writes a workspace with many components, in chains of ten.

use std::path::Path;

const SPEC: &str = "Name: <{ name }>\nVersion: <{ version }>\nRelease: <{ release }>\nSummary: A component\n\
    License: MIT\nBuildArch: noarch\n<{ source_lines }>\n%description\nA component.\n%files\n\
    %changelog\n<{ changelog }>\n";

/// Writes a workspace. Its sources do not exist: no measured command fetches them.
pub fn of_chains(dir: &Path, components: usize) {
    base(dir);
    let mut pins = String::new();
    for at in 0..components {
        let name = format!("c{at}");
        pins +=
            &format!("[{name}]\nversion = \"1.0\"\nsdist = \"{name}\"\nsha256 = \"{at:064x}\"\n\n");
        let requires =
            if at % 10 == 0 { String::new() } else { format!("requires = [\"c{}\"]\n", at - 1) };
        write(dir, &format!("specs-templates/{name}/component.toml"), &requires);
        write(dir, &format!("specs-templates/{name}/{name}.spec.tera"), SPEC);
    }
    write(dir, "pins/stable.toml", &pins);
}

/// Writes the files that every workspace needs.
pub fn base(dir: &Path) {
    let stack = "[stack]\nname = \"bench\"\ngpu-targets = [\"gfx1151\"]\ndefault-chroot = \"host\"\n\
        default-pins = \"stable\"\n";
    write(dir, "rocmrpm.toml", stack);
    write(dir, "mock-configs/host.toml", "rocm-provider = \"host\"\n");
    write(dir, "mock-configs/rocm/host.toml", "prefix = \"/usr\"\nversion = \"7.1\"\n");
}

/// Writes a file and creates its folders.
pub fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
