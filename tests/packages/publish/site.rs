//! A workspace with two wheels, one of which requires the other, and its destination.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use super::places::{Where, killed_at};
use crate::support::{Parts, Ran, Workspace, names_in, ran};

const INSTALL: &str = "site=%{buildroot}/usr/lib/python<{ chroot.python }>/site-packages\n\
    info=$site/<{ name }>-<{ version }>.dist-info\n\
    mkdir -p $info $site/<{ name }>\n";

pub struct Site<'a> {
    workspace: Workspace,
    place: &'a Where,
}

impl<'a> Site<'a> {
    pub fn new(place: &'a Where) -> Self {
        Self::made(place, false)
    }

    /// Creates a site from a build of uncommitted changes.
    pub fn dirty(place: &'a Where) -> Self {
        Self::made(place, true)
    }

    fn made(place: &'a Where, dirty: bool) -> Self {
        let workspace = Workspace::new();
        let provider = "mock-configs/rocm/host.toml";
        // Independent of this machine's ROCm.
        workspace.replace(
            provider,
            "version-header = \"/usr/include/hip/hip_version.h\"",
            "version = \"7.1\"",
        );
        let install = |requires: &str, code: &str| {
            format!(
                "{INSTALL}printf 'Metadata-Version: 2.1\\nName: <{{ name }}>\\nVersion: <{{ version }}>\\n{requires}\\n' > $info/METADATA\n\
                 printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' > $info/WHEEL\n\
                 printf '{code}\\n' > $site/<{{ name }}>/__init__.py\n"
            )
        };
        let files = "/usr/lib/python<{ chroot.python }>/site-packages/*";
        let one = install("", "name = \"one\"");
        workspace.component("one", &Parts { install: &one, files, ..Parts::default() });
        let two = install("Requires-Dist: one\\n", "import one; print(\"two uses\", one.name)");
        workspace.component("two", &Parts { install: &two, files, ..Parts::default() });
        if dirty {
            workspace.commit("Begin");
            workspace.write("src/one/hello", "changed\n");
        }
        workspace.run(&["build"]).exits(0);
        Self { workspace, place }
    }

    pub fn built(&self, path: &str) -> PathBuf {
        self.workspace.built(path)
    }

    /// Returns the file name of a component's wheel.
    pub fn wheel(&self, component: &str) -> String {
        let names = names_in(&self.built(&format!("wheels/{component}")));
        names.into_iter().find(|name| name.ends_with(".whl")).unwrap()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.workspace.command(args);
        for (name, value) in self.place.environment() {
            command.env(name, value);
        }
        command.env_remove("AWS_PROFILE");
        command
    }

    /// Runs a `publish` command for the destination.
    pub fn run(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(&self.with_place(args)))
    }

    pub fn run_without_place(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(args))
    }

    pub fn publish(&self, args: &[&str]) -> Ran {
        self.run(&[&["publish", "index"], args].concat())
    }

    fn with_place<'b>(&'b self, args: &[&'b str]) -> Vec<&'b str> {
        let mut all = args[..2].to_vec();
        all.extend(self.place.arguments());
        all.extend(&args[2..]);
        all
    }

    /// Publishes and kills rocmrpm at the n-th call of a tool.
    pub fn publish_killed_at(&self, tool: &str, step: usize) -> Ran {
        killed_at(&mut self.command(&self.with_place(&["publish", "index"])), tool, step)
    }

    /// Installs `two` from a channel with pip only and runs it.
    pub fn install(&self, channel: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let clean = |command: &mut Command| {
            for name in [
                "PIP_INDEX_URL",
                "PIP_EXTRA_INDEX_URL",
                "PIP_FIND_LINKS",
                "PIP_NO_INDEX",
                "PYTHONPATH",
            ] {
                command.env_remove(name);
            }
            command.env("PIP_CONFIG_FILE", "/dev/null").env("no_proxy", "127.0.0.1");
            let done = ran(command);
            done.exits(0);
            done.stdout.trim().to_owned()
        };
        clean(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(dir.path()));
        let python = dir.path().join("bin/python");
        let url = self.place.url(channel);
        let pip =
            ["-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"];
        clean(Command::new(&python).args(pip).args(["--index-url", &url, "two"]));
        clean(Command::new(&python).args(["-c", "import two"]))
    }

    /// Returns a folder for `PATH` without any of the tools.
    pub fn without_tools(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        symlink("/bin/sh", dir.path().join("sh")).unwrap();
        dir
    }
}
