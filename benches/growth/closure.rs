//! Measures the closure of a component with many members, from its lock.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::growth::{Growth, best};
use super::{rocmrpm, rocmrpm_in, run, tools, wheels, workspace};

const METADATA: &str = "Metadata-Version: 2.4\nName: x\nVersion: 1\nSummary: A distribution\nLicense-Expression: MIT\n";
const CHROOT: &str = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
    rocm-provider = \"host\"\nbase-config = \"bench.cfg\"\npackages = [\"bench\"]\n";
const SPEC: &str = "Name: app\nVersion: <{ version }>\nRelease: <{ release }>\nSummary: A component\n\
    License: MIT\nBuildArch: noarch\n<@ for required in closure.requires @>Requires: <{ required }>\n\
    <@ endfor @>%description\nA component.\n%files\n%changelog\n<{ changelog }>\n";

/// Adds its row.
pub fn measure(growth: &mut Growth, dir: &Path) {
    let uv = tools::environment("python-tools", include_str!("../../tests/support/tools.txt"));
    let path = format!("{}:{}", uv.join("bin").display(), std::env::var("PATH").unwrap());
    growth.row("members of a closure: closure from its lock", [10, 100, 1000], |members| {
        let at = dir.join(format!("closure-{members}"));
        let (all, _) = wheels::make(&at.join("wheels"), &[METADATA.to_owned()], members, members);
        rocmrpm::index::write(&wheels::in_folder(&all), &at.join("index")).unwrap();
        let server = Server::of(&at.join("index"));
        let own = at.join("workspace");
        of_one(&own, members);
        let closure = |args: &[&str]| {
            let mut command = rocmrpm_in(&own);
            command.args(["closure", "app"]).args(args);
            command
                .env("PATH", &path)
                .env("PIP_INDEX_URL", &server.url)
                .env("NO_PROXY", "127.0.0.1");
            run(command.env("ROCMRPM_CACHE", at.join("cache")).env("UV_CACHE_DIR", at.join("uv")));
        };
        closure(&["--write"]);
        best(|| closure(&[]))
    });
}

/// Writes a workspace with a component that requires all of the wheels.
fn of_one(dir: &Path, members: usize) {
    workspace::base(dir);
    let requires: Vec<String> = (0..members).map(|at| format!("\"bench-{at}\"")).collect();
    let project = format!(
        "[project]\nname = \"app\"\nversion = \"1.0\"\ndependencies = [{}]\n",
        requires.join(", ")
    );
    for (path, text) in [
        (
            "rocmrpm.toml",
            std::fs::read_to_string(dir.join("rocmrpm.toml")).unwrap().replace("host", "bench"),
        ),
        ("mock-configs/bench.toml", CHROOT.to_owned()),
        ("mock-configs/packages/bench.tsv", "python3\t3.14.0\n".to_owned()),
        ("pins/stable.toml", "[app]\nversion = \"1.0\"\npath = \"src/app\"\n".to_owned()),
        ("specs-templates/app/component.toml", "[closure]\n".to_owned()),
        ("specs-templates/app/app.spec.tera", SPEC.to_owned()),
        ("src/app/pyproject.toml", project),
    ] {
        workspace::write(dir, path, &text);
    }
}

/// Serves an index on this machine until it is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn of(index: &Path) -> Self {
        let mut command: Command = rocmrpm();
        command.args(["index", "serve", "--port", "0"]).arg(index).stderr(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http")).unwrap().to_owned();
        Self { process, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
