//! Installs dumb-pypi in a virtual environment, and makes the list of wheels that it reads.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::run::{Cost, cost};

const REQUIREMENTS: &str = "dumb-pypi==1.15.0";

/// Distributions whose METADATA the wheels get; their requirements are not installed.
const DISTRIBUTIONS: [&str; 30] = [
    "aiohttp==3.14.5",
    "attrs==26.1.0",
    "boto3==1.44.5",
    "cffi==2.1.1",
    "click==8.5.1",
    "cryptography==50.0.2",
    "django==5.2.19",
    "fastapi==0.165.0",
    "flask==3.1.3",
    "httpx==0.28.1",
    "idna==3.20",
    "jsonschema==4.26.0",
    "matplotlib==3.11.2",
    "networkx==3.6.1",
    "numpy==2.4.6",
    "pandas==3.1.1",
    "pillow==13.0.0",
    "pluggy==1.7.0",
    "pydantic==2.14.3",
    "pygments==2.21.0",
    "pytest==9.2.0",
    "pyyaml==6.0.3",
    "requests==2.34.2",
    "rich==15.0.0",
    "safetensors==0.8.0",
    "scipy==1.17.1",
    "sqlalchemy==2.1.9",
    "sympy==1.14.0",
    "tqdm==4.70.1",
    "urllib3==2.8.0",
];

/// Writes the list that dumb-pypi reads from the wheels; prints its CPU time.
const MAKE_LIST: &str = r#"
import email.parser, hashlib, json, os, sys, time, zipfile
with open(sys.argv[1], "w") as out:
    for folder in sys.argv[2:]:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            with zipfile.ZipFile(path) as wheel:
                member = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
                bytes = wheel.read(member)
            metadata = email.parser.BytesHeaderParser().parsebytes(bytes)
            line = {"filename": name, "hash": "sha256=" + digest, "upload_timestamp": 1700000000,
                    "core_metadata": "sha256=" + hashlib.sha256(bytes).hexdigest()}
            if metadata["Requires-Python"]:
                line["requires_python"] = metadata["Requires-Python"]
            if metadata.get_all("Requires-Dist"):
                line["requires_dist"] = metadata.get_all("Requires-Dist")
            out.write(json.dumps(line) + "\n")
print(time.process_time())
"#;

const RUN: &str = r#"
import sys, time, warnings
warnings.simplefilter("ignore")
from dumb_pypi.main import main
main(sys.argv[1:])
print(time.process_time())
"#;

/// An installed dumb-pypi.
pub struct DumbPypi(PathBuf);

impl DumbPypi {
    /// Installs it in the target folder, once.
    pub fn installed() -> Self {
        let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-index-venv");
        let lock = std::fs::File::create(venv.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        let (done, wanted) =
            (venv.join(".done"), format!("{REQUIREMENTS} {}", DISTRIBUTIONS.join(" ")));
        if std::fs::read_to_string(&done).ok().as_ref() != Some(&wanted) {
            let run = |command: &mut Command| {
                assert!(command.status().unwrap().success(), "{command:?} failed");
            };
            run(Command::new("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&venv));
            let pip = || {
                let mut command = Command::new(venv.join("bin/pip"));
                command.args(["install", "--quiet", "--disable-pip-version-check"]);
                command
            };
            run(pip().arg(REQUIREMENTS));
            run(pip().args(["--no-deps", "--target"]).arg(venv.join("others")).args(DISTRIBUTIONS));
            std::fs::write(done, wanted).unwrap();
        }
        Self(venv)
    }

    /// Returns the METADATA of real distributions.
    pub fn metadata(&self) -> Vec<String> {
        let infos = walkdir::WalkDir::new(self.0.join("others"))
            .max_depth(2)
            .sort_by_file_name()
            .into_iter();
        let files =
            infos.map(|entry| entry.unwrap().into_path()).filter(|path| path.ends_with("METADATA"));
        let texts: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        assert!(texts.len() >= DISTRIBUTIONS.len());
        texts
    }

    fn python(&self, code: &str) -> Command {
        let mut command = Command::new(self.0.join("bin/python"));
        command.args(["-c", code]);
        command
    }

    /// Makes the list of the wheels in the folders.
    pub fn make_list(&self, folders: &[&Path], list: &Path) -> Cost {
        cost(self.python(MAKE_LIST).arg(list).args(folders))
    }

    /// Writes the pages.
    pub fn run(
        &self,
        list: &Path,
        previous: Option<&Path>,
        output: &Path,
        options: &[&str],
    ) -> Cost {
        let mut command = self.python(RUN);
        command.arg("--package-list-json").arg(list).arg("--output-dir").arg(output);
        command.args(["--packages-url", "../../packages"]).args(options);
        if let Some(previous) = previous {
            command.arg("--previous-package-list-json").arg(previous);
        }
        cost(&mut command)
    }
}
