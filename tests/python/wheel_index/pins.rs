//! Tests wheels of one stack that require each other: their METADATA, and what pip installs.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rocmrpm::error::Diagnose;
use rocmrpm::events::{Event, Events};
use rocmrpm::index;
use rocmrpm::process::Command;
use rocmrpm::wheel::{self, Pins, Request, Rocm, Wheel, WheelError};

use super::fixtures::*;
use crate::tools::{alone, new_environment, tool};

/// Records warnings.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Events for Heard {
    fn event(&self, event: Event) {
        if let Event::Warning(text) = event {
            self.0.lock().unwrap().push(text);
        }
    }
}

/// Builds the wheels of a stack with one RPM per component, all with this Release.
fn stack(
    rpms: &[PathBuf],
    release: u32,
    out_dir: &Path,
) -> Result<(Vec<Wheel>, Vec<String>), WheelError> {
    stack_of(&rpms.iter().map(|rpm| vec![rpm.clone()]).collect::<Vec<_>>(), release, out_dir)
}

/// Builds the wheels of a stack from the RPMs of each component.
fn stack_of(
    components: &[Vec<PathBuf>],
    release: u32,
    out_dir: &Path,
) -> Result<(Vec<Wheel>, Vec<String>), WheelError> {
    let label = label().release(release);
    let mut pins = Pins::new();
    for rpms in components {
        pins.extend(wheel::distributions(rpms, &label, &[])?);
    }
    let heard = Heard::default();
    let mut wheels = Vec::new();
    for rpms in components {
        wheels.extend(wheel::build(Request {
            rpms,
            label: &label,
            source_date_epoch: EPOCH,
            out_dir,
            python: Some((3, 14)),
            pins: &pins,
            rocm: &Rocm::System,
            leave_out: &[],
            not_required: &[],
            origin: None,
            events: &heard,
        })?);
    }
    for wheel in &wheels {
        let name = wheel::normalized(&wheel.distribution).unwrap();
        assert_eq!(
            pins.get(&name).unwrap().to_string(),
            wheel.version,
            "the planned versions differ from the built ones"
        );
    }
    Ok((wheels, heard.0.into_inner().unwrap()))
}

const REQUIRES: &str = "Requires-Dist: Demo.Base[fast] (>=0.5) ; python_version >= \"3\"\r\n\
    Requires-Dist: demo_base ==9; sys_platform == 'win32'\r\n\
    Requires-Dist: demo_base ==8; extra == 'old'\r\n\
    Provides-Extra: more\r\n\
    Requires-Dist: demo-base[fast,\r\n\tslow] @ https://127.0.0.1:9/demo_base-1.0-py3-none-any.whl \
    ; extra == 'more'\r\n\
    Requires-Dist: demo-above[more]; extra == 'all'\r\n\
    Requires-Dist: pip; extra == 'other'\r\n";

/// Creates `demo-base`, with two extras, and `demo-above`, which depends on it with `requires`.
fn rpms(dir: &Path, requires: &str) -> [PathBuf; 2] {
    let info = |name: &str| format!("{LIB}/{name}-1.0.dist-info/METADATA");
    let head = |name: &str| format!("Metadata-Version: 2.1\r\nName: {name}\r\nVersion: 1.0\r\n");
    let base = Package::new("python3-demo-base", "noarch")
        .file(
            &info("demo_base"),
            head("Demo.Base")
                + "Provides-Extra: fast\r\nProvides-Extra: slow\r\n\r\nRequires-Dist: demo-above\r\n",
        )
        .file(&format!("{LIB}/demo_base.py"), "value = 7\n")
        .write(dir);
    let above = Package::new("python3-demo-above", "noarch")
        .file(
            &info("demo_above"),
            head("demo_above") + requires + "\r\nRequires-Dist: demo-base\r\n",
        )
        .file(&format!("{LIB}/demo_above.py"), "import demo_base\nprint(demo_base.value)\n")
        .write(dir);
    [base, above]
}

#[test]
fn pins_only_requirements_on_the_stack() {
    let dir = tempfile::tempdir().unwrap();
    let (wheels, warnings) =
        stack(&rpms(dir.path(), REQUIRES), 3, &dir.path().join("out")).unwrap();
    let [base, above] = wheels.as_slice() else { panic!("{wheels:?}") };
    assert_eq!(base.version, "1.0+rocm7.14.gfx1151.3");
    let file = text(&above.path, "demo_above-1.0+rocm7.14.gfx1151.3.dist-info/METADATA");
    let expected = format!(
        "Metadata-Version: 2.1\r\nName: demo_above\r\nVersion: {0}\r\n\
         Requires-Dist: Demo.Base[fast]=={0} ; python_version >= \"3\"\r\n\
         Requires-Dist: demo_base=={0}; sys_platform == 'win32'\r\n\
         Requires-Dist: demo_base=={0}; extra == 'old'\r\n\
         Provides-Extra: more\r\n\
         Requires-Dist: demo-base[fast, slow]=={0} ; extra == 'more'\r\n\
         Requires-Dist: demo-above[more]=={0}; extra == 'all'\r\n\
         Requires-Dist: pip; extra == 'other'\r\n\r\nRequires-Dist: demo-base\r\n",
        base.version
    );
    assert_eq!((file.as_str(), above.metadata.as_str()), (expected.as_str(), expected.as_str()));
    assert_eq!(
        warnings,
        ["demo_above-1.0+rocm7.14.gfx1151.3: upstream requires `demo_base ==8; extra == 'old'`, \
          but the stack has 1.0, which rocmrpm pins"]
    );
}

/// Creates three distributions: a library, with a development package; one that requires both
/// packages but whose METADATA name neither; and one whose METADATA name the library with an extra.
fn undeclared(dir: &Path) -> [PathBuf; 4] {
    let with = |name: &str, requires: &str| {
        let info = format!("{LIB}/{name}-1.0.dist-info");
        Package::new(&format!("python3-{name}-rocm"), "noarch")
            .file(&format!("{info}/METADATA"), metadata(name, "1.0").replace("\n\n", requires))
            .file(&format!("{info}/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n")
            .file(&format!("{LIB}/{name}.py"), "ours = True\n")
    };
    let devel = Package::new("python3-base-rocm-devel", "noarch")
        .file("/usr/include/base/base.h", "int x;\n")
        .requires("python3-base-rocm");
    [
        with("base", "\n\n").write(dir),
        devel.write(dir),
        with("above", "\n\n").requires("python3-base-rocm").requires("/bin/sh").write(dir),
        with("beside", "\nProvides-Extra: x\nRequires-Dist: base>=1; extra == 'x'\n\n")
            .requires("python3-base-rocm-devel")
            .write(dir),
    ]
}

/// Builds the wheels of [`undeclared`]: the development package belongs to the library's component.
fn built(dir: &Path) -> Vec<Wheel> {
    let [base, devel, above, beside] = undeclared(dir);
    stack_of(&[vec![base, devel], vec![above], vec![beside]], 3, &dir.join("out")).unwrap().0
}

#[test]
fn requires_what_the_rpms_require_of_the_stack() {
    let dir = tempfile::tempdir().unwrap();
    let wheels = built(dir.path());
    let requires = |wheel: &Wheel| {
        let lines = wheel.metadata.lines().filter_map(|line| line.strip_prefix("Requires-Dist: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let found: Vec<_> = wheels.iter().map(requires).collect();
    let base = "base==1.0+rocm7.14.gfx1151.3";
    let expected: [&[String]; 3] =
        [&[], &[base.into()], &[base.into(), format!("{base}; extra == 'x'")]];
    assert_eq!(found, expected);
}

#[test]
fn pip_and_uv_prefer_ours_to_a_higher_version_outside() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = built(dir.path()).into_iter().map(|wheel| wheel.path).collect();
    let ours = index::write(&paths, &dir.path().join("index")).unwrap().simple;
    let ours = format!("file://{}", ours.display());
    let theirs = outside(&dir.path().join("outside"), &[("base", "9.0", &[])]);
    // Without the requirement, both would take this one.
    for client in ["pip", "uv"] {
        let venv = dir.path().join(client);
        new_environment(&venv);
        let python = venv.join("bin/python");
        let python = python.to_str().unwrap();
        let program = match client {
            "pip" => Command::new(python).args(["-m", "pip", "install"]),
            _ => tool("uv").args(["pip", "install", "--index-strategy", "unsafe-best-match"]),
        };
        let program = if client == "uv" { program.args(["--python", python]) } else { program };
        let args = ["--index-url", &theirs, "--extra-index-url", &ours, "above", "base"];
        alone(program).args(args).output().unwrap_or_else(|error| panic!("{client}: {error}"));
        let version = "import base, importlib.metadata as m; print(m.version('base'), base.ours)";
        let found = alone(Command::new(python)).args(["-c", version]).text().unwrap();
        assert_eq!(found, "1.0+rocm7.14.gfx1151.3 True", "{client}");
    }
}

#[test]
fn rejects_invalid_requirements_without_writing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let rpms = rpms(dir.path(), "Requires-Dist: demo-base >= one\r\n");
    let error = stack(&rpms[1..], 1, &out).unwrap_err();
    let text = error.to_string();
    for part in
        ["python3-demo-above-1.0", "demo_above-1.0.dist-info/METADATA: line 4: `demo-base >= one`"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(error.kind().exit_code(), 10);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
}

/// Runs pip of a virtual environment without user settings.
fn pip(venv: &Path, args: &[&str]) -> String {
    let mut pip = Command::new(venv.join("bin/pip").to_str().unwrap()).args(args).cwd(venv);
    for name in
        ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PYTHONPATH"]
    {
        pip = pip.env_remove(name);
    }
    let pip = pip.env("PIP_CONFIG_FILE", "/dev/null").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    pip.text().unwrap_or_else(|error| panic!("pip {args:?}: {error}"))
}

#[test]
fn pip_installs_pinned_sets_and_upgrades() {
    let dir = tempfile::tempdir().unwrap();
    let venv = dir.path().join("venv");
    Command::new("/usr/bin/python3")
        .args(["-m", "venv"])
        .arg(&venv)
        .output()
        .expect("a virtual environment needs Debian's package python3-venv, or Fedora's python3");
    let rpms = rpms(dir.path(), REQUIRES);
    let out = dir.path().join("out");
    let index_dir = dir.path().join("index");
    let url = format!("file://{}", index_dir.join("simple").display());
    let mut paths = Vec::new();
    let mut publish = |release| {
        let (wheels, _) = stack(&rpms, release, &out).unwrap();
        paths.extend(wheels.into_iter().map(|wheel| wheel.path));
        index::write(&paths, &index_dir).unwrap();
    };
    let frozen = |release: u32| {
        pip(&venv, &["check"]);
        let frozen = pip(&venv, &["freeze", "--exclude", "pip", "--exclude", "setuptools"]);
        let found: Vec<String> = frozen.lines().map(str::to_lowercase).collect();
        let version = format!("1.0+rocm7.14.gfx1151.{release}");
        assert_eq!(found.len(), 2, "{frozen}");
        for (line, name) in found.iter().zip(["demo", "demo"]) {
            assert!(line.starts_with(name) && line.ends_with(&format!("=={version}")), "{frozen}");
        }
    };
    publish(9);
    pip(&venv, &["install", "--quiet", "--no-cache-dir", "--index-url", &url, "demo-above[all]"]);
    frozen(9);
    publish(10);
    pip(
        &venv,
        &[
            "install",
            "--quiet",
            "--no-cache-dir",
            "--upgrade",
            "--index-url",
            &url,
            "demo-above[all]",
        ],
    );
    frozen(10);
    // An older version remains available by exact version, with its dependencies.
    let older = "demo-above==1.0+rocm7.14.gfx1151.9";
    pip(&venv, &["install", "--quiet", "--no-cache-dir", "--index-url", &url, older]);
    frozen(9);
}
