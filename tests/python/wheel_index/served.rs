//! Tests one index with real clients, from files and from the server: the distribution's pip, the
//! newest pip, and uv. Also tests it next to an index with other builds, and with tools that check
//! wheels.

use std::path::{Path, PathBuf};

use rocmrpm::index;
use rocmrpm::process::Command;
use rocmrpm::wheel::Wheel;

use super::fixtures::*;
use super::serve::Server;
use crate::fetch;
use crate::tools::{PYTHON, alone, assert_accepted, new_environment, tool};

const JSON: &str = "application/vnd.pypi.simple.v1+json";
const HTML: &str = "application/vnd.pypi.simple.v1+html";

/// An index of three wheels for this machine's Python, and an environment to install into.
struct ServedIndex {
    dir: tempfile::TempDir,
    wheels: Vec<Wheel>,
}

impl ServedIndex {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let version = "import sys; print('%d.%d' % sys.version_info[:2])";
        let version = Command::new(PYTHON).args(["-c", version]).text().unwrap();
        let wheels = build(&stack(dir.path(), &version), &dir.path().join("wheels")).unwrap();
        let paths: Vec<PathBuf> = wheels.iter().map(|wheel| wheel.path.clone()).collect();
        index::write(&paths, &dir.path().join("index")).unwrap();
        new_environment(&dir.path().join("venv"));
        let place = Self { dir, wheels };
        place.write("lock.txt", place.pins(|wheel| format!(" --hash=sha256:{}", wheel.sha256)));
        place.write("constraints.txt", place.pins(|_| String::new()));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn pins(&self, more: impl Fn(&Wheel) -> String) -> String {
        self.wheels
            .iter()
            .map(|w| format!("{}=={}{}\n", w.distribution, w.version, more(w)))
            .collect()
    }

    /// Removes the JSON pages, like file servers without PEP 691.
    fn html_alone(&self) {
        for entry in
            walkdir::WalkDir::new(self.path("index/simple")).into_iter().map(Result::unwrap)
        {
            if entry.file_name() == "index.json" {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }

    fn run(&self, command: Command, args: &[&str]) -> Result<String, String> {
        let command = alone(command).args(args).cwd(self.dir.path());
        let line = command.line();
        command.text().map_err(|error| format!("{line}: {error}"))
    }

    /// Runs the newest pip on the environment.
    fn newest(&self, args: &[&str]) -> Result<String, String> {
        self.run(tool("pip").args(["--python", "venv/bin/python"]), args)
    }

    /// Runs the distribution's pip: Debian 12's is 23.0.1.
    fn oldest(&self, args: &[&str]) -> Result<String, String> {
        self.run(Command::new(self.path("venv/bin/pip").to_str().unwrap()), args)
    }

    fn uv(&self, args: &[&str]) -> Result<String, String> {
        self.run(tool("uv"), args)
    }

    /// Fails unless our distributions are installed, complete and working; then uninstalls them.
    #[track_caller]
    fn assert_installed(&self) {
        let code = "import demo_ext, flash_attn, einops; q = demo_ext.SimpleQueue(); q.put(flash_attn.name); print(q.get())";
        assert_eq!(self.python(code).unwrap(), "Flash_Attn");
        self.uv(&["pip", "check", "--python", "venv/bin/python"]).unwrap();
        for wheel in &self.wheels {
            assert_eq!(self.version(&wheel.distribution).unwrap(), wheel.version);
        }
        let names: Vec<&str> =
            self.wheels.iter().map(|wheel| wheel.distribution.as_str()).collect();
        self.uninstall(&names);
        assert!(self.version("flash-attn").is_err());
    }

    fn uninstall(&self, names: &[&str]) {
        self.uv(&[&["pip", "uninstall", "--python", "venv/bin/python"], names].concat()).unwrap();
    }

    fn python(&self, code: &str) -> Result<String, String> {
        self.run(Command::new(self.path("venv/bin/python").to_str().unwrap()), &["-c", code])
    }

    /// Returns the installed version of a distribution.
    fn version(&self, distribution: &str) -> Result<String, String> {
        self.python(&format!("import importlib.metadata as m; print(m.version('{distribution}'))"))
    }
}

type Pip = fn(&ServedIndex, &[&str]) -> Result<String, String>;

const HASHED: [&str; 5] = ["install", "--quiet", "--require-hashes", "-r", "lock.txt"];

#[test]
fn pip_installs_with_hashes_from_files_and_from_the_server() {
    let place = ServedIndex::new();
    let files = format!("file://{}", place.path("index/simple").display());
    for pip in [ServedIndex::oldest, ServedIndex::newest] {
        pip(&place, &[&HASHED[..], &["--index-url", &files]].concat()).unwrap();
        place.assert_installed();
        // By name: requirements lead to the others.
        pip(&place, &["install", "--quiet", "--index-url", &files, "demo-ext"]).unwrap();
        place.assert_installed();
    }
    for form in [JSON, HTML] {
        if form == HTML {
            place.html_alone();
        }
        for (pip, newest) in [(ServedIndex::oldest as Pip, false), (ServedIndex::newest, true)] {
            let server = Server::start(&place.path("index"));
            pip(&place, &[&HASHED[..], &["--index-url", &server.url("simple/")]].concat()).unwrap();
            place.assert_installed();
            let served = server.served();
            assert!(served.contains(&format!("GET /simple/flash-attn/ 200 {form}")), "{served:#?}");
            pip(&place, &["install", "--quiet", "--index-url", &server.url("simple"), "demo-ext"])
                .unwrap();
            place.assert_installed();
            let served = server.served();
            // PEP 658: pip reads the metadata without the wheel. pip 23.0 does not know its PEP 714
            // name in JSON, and fails on the older name.
            let metadata =
                |line: &String| line.contains("/demo_ext-2.0") && line.contains(".metadata 200 ");
            assert!(!newest || served.iter().any(metadata), "{served:#?}");
            assert!(
                served.iter().all(|line| line.contains(" 200 ") || line.contains(" 206 ")),
                "{served:#?}"
            );
        }
    }
    let wrong = place.pins(|_| format!(" --hash=sha256:{}", "0".repeat(64)));
    place.write("lock.txt", wrong);
    let server = Server::start(&place.path("index"));
    let refused = place.newest(&[&HASHED[..], &["--index-url", &server.url("simple/")]].concat());
    assert!(refused.unwrap_err().to_lowercase().contains("hash"));
}

#[test]
fn uv_installs_locks_and_syncs_from_the_server() {
    let place = ServedIndex::new();
    let server = Server::start(&place.path("index"));
    let url = server.url("simple/");
    for form in [JSON, HTML] {
        if form == HTML {
            place.html_alone();
        }
        let install = ["pip", "install", "--python", "venv/bin/python", "--default-index", &url];
        place.uv(&[&install[..], &["--require-hashes", "-r", "lock.txt"]].concat()).unwrap();
        place.assert_installed();
        place.uv(&[&install[..], &["Flash_Attn", "demo.ext"]].concat()).unwrap();
        place.assert_installed();
        let served = server.served();
        assert!(served.contains(&format!("GET /simple/flash-attn/ 200 {form}")), "{served:#?}");
        assert!(served.iter().all(|line| !line.contains(" 404 ")), "{served:#?}");

        let project = format!("project-{}", &form[form.len() - 4..]);
        place.write(
            &format!("{project}/pyproject.toml"),
            format!(
                "[project]\nname = \"app\"\nversion = \"1\"\nrequires-python = \">=3.8\"\ndependencies = [\"demo-ext\"]\n\
                 [[tool.uv.index]]\nname = \"rocm\"\nurl = \"{url}\"\ndefault = true\n"
            ),
        );
        let args = ["--project", &project, "--python", PYTHON];
        place.uv(&[&["lock"], &args[..]].concat()).unwrap();
        let lock = std::fs::read_to_string(place.path(&format!("{project}/uv.lock"))).unwrap();
        for wheel in &place.wheels {
            let file = wheel.path.file_name().unwrap().to_string_lossy().replace('+', "%2B");
            let line = lock.lines().find(|line| line.contains(&file));
            let line = line.unwrap_or_else(|| panic!("no {file}\n{lock}"));
            assert!(line.contains(&format!("hash = \"sha256:{}\"", wheel.sha256)), "{line}");
            assert!(lock.contains(&format!("version = \"{}\"", wheel.version)), "{lock}");
        }
        place.uv(&[&["sync", "--locked"], &args[..]].concat()).unwrap();
        let python =
            Command::new(place.path(&format!("{project}/.venv/bin/python")).to_str().unwrap());
        assert_eq!(
            place
                .run(python, &["-c", "import demo_ext, flash_attn; print(flash_attn.name)"])
                .unwrap(),
            "Flash_Attn"
        );
    }
}

#[test]
fn clients_install_without_separate_metadata() {
    let place = ServedIndex::new();
    place.html_alone();
    for wheel in &place.wheels {
        let name = rocmrpm::wheel::normalized(&wheel.distribution).unwrap();
        let page = format!("index/simple/{name}/index.html");
        let text = std::fs::read_to_string(place.path(&page)).unwrap();
        assert!(text.contains(" data-core-metadata="), "{text}");
        place.write(
            &page,
            text.replace(" data-core-metadata=", " data-x=")
                .replace(" data-dist-info-metadata=", " data-y="),
        );
    }
    let server = Server::start(&place.path("index"));
    let url = server.url("simple/");
    // Without METADATA, uv asks for parts of a wheel, and pip does if configured. The server sends
    // no parts, so both fetch the whole wheel.
    place
        .uv(&["pip", "install", "--python", "venv/bin/python", "--default-index", &url, "demo-ext"])
        .unwrap();
    place.assert_installed();
    place
        .newest(&["install", "--quiet", "--use-feature=fast-deps", "--index-url", &url, "demo-ext"])
        .unwrap();
    place.assert_installed();
    assert!(
        server.served().iter().any(|line| line.contains(".whl 200 ")),
        "{:#?}",
        server.served()
    );
}

/// Creates another index with a build of one of our distributions for other GPUs, whose plain
/// version is greater than ours.
fn others(place: &ServedIndex) -> PathBuf {
    let info = "others/flash_attn-9.0/flash_attn-9.0.dist-info";
    place.write(
        &format!("{info}/METADATA"),
        "Metadata-Version: 2.1\nName: flash_attn\nVersion: 9.0\n",
    );
    place.write(
        &format!("{info}/WHEEL"),
        "Wheel-Version: 1.0\nGenerator: other\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    );
    place.write("others/flash_attn-9.0/flash_attn/__init__.py", "name = 'CUDA'\n");
    place.run(tool("wheel"), &["pack", "--dest-dir", "others", "others/flash_attn-9.0"]).unwrap();
    let wheel = place.path("others/flash_attn-9.0-py3-none-any.whl");
    index::write(&[wheel], &place.path("others/index")).unwrap();
    place.path("others/index")
}

#[test]
fn clients_choose_our_build_despite_greater_versions() {
    let place = ServedIndex::new();
    let (ours, theirs) = (Server::start(&place.path("index")), Server::start(&others(&place)));
    let (ours, theirs) = (ours.url("simple/"), theirs.url("simple/"));
    let chosen = || {
        let version = place.version("flash-attn").unwrap();
        place.uninstall(&["flash-attn", "einops"]);
        version
    };
    let our_version = "2.8.3+rocm7.14.gfx1151";

    let pip = ["install", "--quiet", "--index-url", &ours];
    place.newest(&[&pip[..], &["flash-attn"]].concat()).unwrap();
    assert_eq!(chosen(), our_version, "only our index");
    // pip combines all indexes and selects the greatest version, regardless of their order.
    let both = [&pip[..], &["--extra-index-url", &theirs, "flash-attn"]].concat();
    for pip in [ServedIndex::oldest, ServedIndex::newest] {
        pip(&place, &both).unwrap();
        assert_eq!(chosen(), "9.0", "pip now prefers an index: update the documentation");
        pip(&place, &[&both[..], &["--constraint", "constraints.txt"]].concat()).unwrap();
        assert_eq!(chosen(), our_version, "with constraints");
    }

    // uv takes a distribution from the first index that has it.
    let uv = [
        "pip",
        "install",
        "--python",
        "venv/bin/python",
        "--index",
        &ours,
        "--default-index",
        &theirs,
    ];
    place.uv(&[&uv[..], &["flash-attn"]].concat()).unwrap();
    assert_eq!(chosen(), our_version, "our index first");
    place
        .uv(&[&uv[..], &["flash-attn", "--index-strategy", "unsafe-best-match"]].concat())
        .unwrap();
    assert_eq!(chosen(), "9.0");
}

#[test]
fn wheel_checkers_accept_our_wheels() {
    let place = ServedIndex::new();
    for wheel in &place.wheels {
        assert_accepted(&wheel.path);
    }
}

/// Needs the index configured for pip, once.
#[test]
fn wheel_checkers_accept_real_libraries() {
    let dir = tempfile::tempdir().unwrap();
    let unpacked = dir.path().join("unpacked");
    fetch::unpack(&fetch::wheel("bitsandbytes"), &unpacked);
    let rpm = repackaged(&unpacked, dir.path(), |path| {
        !path.contains("cuda1") && !path.contains("_xpu20")
    });
    let wheel = one(&[rpm], &dir.path().join("wheels"));
    assert!(names(&wheel.path).contains(&"bitsandbytes/libbitsandbytes_rocm72.so".to_owned()));
    assert!(
        wheel.tags.iter().all(|tag| tag.starts_with("py3-none-") && tag.ends_with("x86_64")),
        "{:?}",
        wheel.tags
    );
    assert_accepted(&wheel.path);
}

/// Creates an RPM from the files of an unpacked wheel.
fn repackaged(unpacked: &Path, dir: &Path, wanted: impl Fn(&str) -> bool) -> PathBuf {
    let mut package = Package::new("python3-repackaged", "x86_64");
    for entry in walkdir::WalkDir::new(unpacked).sort_by_file_name().into_iter().map(Result::unwrap)
    {
        let path = entry.path().strip_prefix(unpacked).unwrap().to_str().unwrap();
        if entry.file_type().is_file() && wanted(path) {
            package =
                package.file(&format!("{LIB64}/{path}"), std::fs::read(entry.path()).unwrap());
        }
    }
    package.write(dir)
}
