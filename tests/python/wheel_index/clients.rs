//! Tests the index with real clients: pip, and uv from the index configured for pip.

use rocmrpm::index;
use rocmrpm::process::Command;

use super::fixtures::*;
use crate::tools::{alone, new_environment, tool};

/// A virtual environment whose pip ignores the user's settings.
struct Environment(tempfile::TempDir);

impl Environment {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        new_environment(&dir.path().join("venv"));
        Self(dir)
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let program = self.0.path().join("venv/bin").join(program);
        self.settled(Command::new(program.to_str().unwrap()), args)
    }

    /// Runs a tool outside of this environment.
    fn tool(&self, name: &str, args: &[&str]) -> String {
        self.settled(tool(name), args)
    }

    fn settled(&self, command: Command, args: &[&str]) -> String {
        let command = alone(command).args(args).cwd(self.0.path());
        let line = command.line();
        command.text().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn python(&self, code: &str) -> String {
        self.run("python", &["-c", code])
    }
}

#[test]
fn pip_installs_from_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let environment = Environment::new();
    let python = environment.python("import sys; print('%d.%d' % sys.version_info[:2])");
    let digits = python.replace('.', "");
    let site = format!("/usr/lib64/python{python}/site-packages");
    let machine = if cfg!(target_arch = "aarch64") { 183 } else { X86_64 };
    let info = format!("{site}/demo_ext-2.0.dist-info");
    let requires =
        metadata("demo-ext", "2.0").replace("\n\n", "\nRequires-Dist: demo-tool==1.0\n\n");
    let extension = Package::new("python3-demo-ext", "x86_64")
        .file(&format!("{info}/METADATA"), requires)
        .file(&format!("{info}/WHEEL"), format!("Tag: cp{digits}-cp{digits}-linux_x86_64\n"))
        .program(&format!("{site}/demo_ext/_C.cpython-{digits}-x86_64-linux-gnu.so"), elf(machine))
        .file(&format!("{site}/demo_ext/__init__.py"), "value = 7\n")
        .write(dir.path());
    let wheels = [one(&[rich(dir.path())], &out).path, one(&[extension], &out).path];
    // A comma or `+` in the path of the index must not matter either.
    let simple = index::write(&wheels, &dir.path().join("in+dex")).unwrap().simple;
    let url = format!("file://{}", simple.display());

    environment.run("pip", &["install", "--quiet", "--index-url", &url, "demo-ext"]);
    environment.run("pip", &["check"]);
    assert_eq!(environment.run("demo-tool", &[]), "it runs");
    let venv = environment.0.path().join("venv");
    assert_eq!(environment.run("demo-extra", &[]), format!("extra {}", venv.display()));
    assert_eq!(environment.run("demo-shell", &[]), "shell");
    assert_eq!(std::fs::read_to_string(venv.join("share/demo-tool/data.txt")).unwrap(), "data\n");
    assert!(!venv.join("bin/demo-tool-3").exists());
    assert_eq!(environment.python("import demo_ext; print(demo_ext.value)"), "7");
    let frozen = environment.run("pip", &["freeze"]);
    assert!(frozen.contains("demo-ext==2.0+rocm7.14.gfx1151"), "{frozen}");

    let lock = environment.0.path().join("lock.txt");
    let digest = rocmrpm::digest::Sha256::of_file(&wheels[0]).unwrap().0;
    std::fs::write(&lock, format!("demo-tool==1.0+rocm7.14.gfx1151 --hash=sha256:{digest}\n"))
        .unwrap();
    let hashed =
        ["install", "--quiet", "--force-reinstall", "--require-hashes", "--index-url", &url, "-r"];
    environment.run("pip", &[&hashed[..], &[lock.to_str().unwrap()]].concat());
    environment.run("pip", &["check"]);
    environment.run("pip", &["uninstall", "--quiet", "--yes", "demo-tool", "demo-ext"]);
    assert!(
        !venv.join("bin/demo-extra").exists() && !venv.join("share/demo-tool/data.txt").exists()
    );
}

#[test]
fn uv_installs_from_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let environment = Environment::new();
    let wheel = one(&[rich(dir.path())], &dir.path().join("out"));
    let simple =
        index::write(std::slice::from_ref(&wheel.path), &dir.path().join("index")).unwrap().simple;
    let url = format!("file://{}", simple.display());
    let lock = environment.0.path().join("lock.txt");
    std::fs::write(&lock, format!("demo-tool=={} --hash=sha256:{}\n", wheel.version, wheel.sha256))
        .unwrap();
    let install = [
        "--no-config",
        "--no-cache",
        "pip",
        "install",
        "--python",
        "venv/bin/python",
        "--default-index",
    ];
    environment.tool(
        "uv",
        &[&install[..], &[&url, "--require-hashes", "-r", lock.to_str().unwrap()]].concat(),
    );
    environment.tool("uv", &["--no-config", "pip", "check", "--python", "venv/bin/python"]);
    assert_eq!(environment.run("demo-tool", &[]), "it runs");
    assert_eq!(environment.run("demo-shell", &[]), "shell");
}
