//! Tests the link modes: wheels of compiled libraries that find ROCm in AMD's wheels, installed
//! with pip and imported. Test doubles imitate the parts of AMD's wheels that ours use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocmrpm::error::Diagnose;
use rocmrpm::index;
use rocmrpm::process::Command;
use rocmrpm::wheel::{self, Rocm, Wheel, WheelError};

use super::fixtures::*;
use crate::tools::{alone, new_environment};

/// The part of the interface of AMD's module that `_rocm_init.py` uses.
const ROCM_SDK: &str = r#"
import ctypes, importlib, pathlib, re, warnings

__version__ = "1.0"
PLACES = {
    "amdhip64": ("_rocm_sdk_core", "libamdhip64.so*"),
    "hipblas": ("_rocm_sdk_libraries", "libhipblas.so*"),
}
handles = []

def initialize_process(*, preload_shortnames=None, check_version=None):
    for name in preload_shortnames or ():
        package, pattern = PLACES[name]
        folder = pathlib.Path(importlib.import_module(package).__file__).parent / "lib"
        (library,) = folder.glob(pattern)
        handles.append(ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL))
    wanted = re.escape(check_version).replace(r"\*", ".*")
    if not re.fullmatch(wanted, __version__):
        warnings.warn(f"built for ROCm {check_version}, this is {__version__}")
"#;

/// The `__init__.py` of projects that support AMD's wheels.
const INIT: &str = "try:
    from . import _rocm_init
except ModuleNotFoundError:
    pass
else:
    _rocm_init.initialize()
    del _rocm_init
from ._C import answer
";

/// A stable-ABI extension module without CPython's headers: PyModuleDef has the same layout in all
/// versions of Python 3 with the GIL.
const MODULE: &str = r#"
struct Def { long count; void *type, *init; long index; void *copy; const char *name, *doc; long size;
             void *methods, *slots, *traverse, *clear, *free; };
static struct Def def = { .count = 1, .name = "_C", .size = -1 };
extern void *PyModule_Create2(struct Def *, int);
extern int PyModule_AddIntConstant(void *, const char *, long);
extern int hip_answer(void), rocblas_answer(void);
void *PyInit__C(void) {
    void *module = PyModule_Create2(&def, 1013);
    PyModule_AddIntConstant(module, "answer", hip_answer() + rocblas_answer());
    return module;
}
"#;

struct Stack {
    compiler: Compiler,
    dir: tempfile::TempDir,
}

impl Stack {
    fn new() -> Self {
        let compiler = Compiler::new();
        compiler.library(
            "libamdhip64.so.7",
            "int hip_answer(void) { return 40; }",
            "-Wl,-soname,libamdhip64.so.7",
        );
        let blas = "-Wl,-soname,librocblas.so.5";
        compiler.library("librocblas.so.5", "int rocblas_answer(void) { return 2; }", blas);
        let flags = "-Wl,-soname,libhipblas.so.3 -l:librocblas.so.5 -l:libamdhip64.so.7 \
                     -Wl,-rpath,$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib";
        compiler.library("libhipblas.so.3", "int hipblas_answer(void) { return 7; }", flags);
        Self { compiler, dir: tempfile::tempdir().unwrap() }
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.compiler.0.path().join(name)).unwrap()
    }

    fn module(&self, flags: &str) -> Vec<u8> {
        let flags = format!("-l:libamdhip64.so.7 -l:librocblas.so.5 {flags}");
        self.compiler.library("_C.abi3.so", MODULE, &flags)
    }

    /// Builds a wheel for the mode `rocm-sdk`.
    fn wheel(
        &self,
        package: Package,
        preloaded: &[(&str, &BTreeSet<String>)],
    ) -> Result<Wheel, WheelError> {
        let preloaded: BTreeMap<_, _> =
            preloaded.iter().map(|(name, names)| ((*name).to_owned(), (*names).clone())).collect();
        let rocm = Rocm::Sdk {
            version: "7.14".to_owned(),
            preloaded,
            options: wheel::SdkOptions::default(),
        };
        let wheels = build_for(&rocm, &[package.write(self.dir.path())], &self.out())?;
        assert_eq!(wheels.len(), 1);
        assert_eq!(wheel::read(&wheels[0].path).unwrap(), wheels[0]);
        Ok(wheels[0].clone())
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// Creates test doubles of AMD's wheels for ROCm 7.14.0.
    fn sdk(&self) -> Vec<PathBuf> {
        let info = |name: &str, more: &str| {
            let metadata =
                format!("Metadata-Version: 2.1\nName: {name}\nVersion: 7.14.0\n{more}\n");
            let folder = format!("{LIB64}/{}-7.14.0.dist-info", name.replace('-', "_"));
            Package::new(name, "x86_64").file(&format!("{folder}/METADATA"), metadata)
        };
        let file = |package: Package, path: &str, content: &[u8]| {
            package.file(&format!("{LIB64}/{path}"), content)
        };
        let requires = "Requires-Dist: rocm-sdk-core==7.14.0\nProvides-Extra: libraries\n\
                        Requires-Dist: rocm-sdk-libraries==7.14.0; extra == 'libraries'\n";
        let rocm_sdk = ROCM_SDK.replace("\"1.0\"", "\"7.14.0\"");
        let rocm = file(info("rocm", requires), "rocm_sdk/__init__.py", rocm_sdk.as_bytes());
        let core = file(info("rocm-sdk-core", ""), "_rocm_sdk_core/__init__.py", b"");
        let core =
            file(core, "_rocm_sdk_core/lib/libamdhip64.so.7", &self.bytes("libamdhip64.so.7"));
        let mut libraries =
            file(info("rocm-sdk-libraries", ""), "_rocm_sdk_libraries/__init__.py", b"");
        for name in ["libhipblas.so.3", "librocblas.so.5"] {
            libraries =
                file(libraries, &format!("_rocm_sdk_libraries/lib/{name}"), &self.bytes(name));
        }
        // Only their own mode allows a RUNPATH from one of them to another.
        let mode = Rocm::Sdk {
            version: "7.14".to_owned(),
            preloaded: BTreeMap::new(),
            options: wheel::SdkOptions::default(),
        };
        let pack = |package: Package| {
            let rpm = package.write(self.dir.path());
            build_for(&mode, &[rpm], &self.dir.path().join("sdk")).unwrap().remove(0).path
        };
        [rocm, core, libraries].map(pack).into()
    }
}

struct Environment(tempfile::TempDir);

impl Environment {
    fn with(wheels: &[PathBuf], install: &[&str]) -> Self {
        let environment = Self(tempfile::tempdir().unwrap());
        new_environment(&environment.venv());
        let simple = index::write(wheels, &environment.0.path().join("index")).unwrap().simple;
        let url = format!("file://{}", simple.display());
        environment
            .run(&[&["-m", "pip", "install", "--quiet", "--index-url", &url], install].concat())
            .unwrap();
        environment.run(&["-m", "pip", "check"]).unwrap();
        environment
    }

    fn venv(&self) -> PathBuf {
        self.0.path().join("venv")
    }

    fn run(&self, args: &[&str]) -> Result<String, String> {
        let python = self.venv().join("bin/python");
        let command = alone(Command::new(python.to_str().unwrap())).env_remove("LD_LIBRARY_PATH");
        command.args(args).cwd(self.0.path()).text().map_err(|error| error.to_string())
    }

    fn import(&self, package: &str) -> Result<String, String> {
        let code =
            format!("import {package}; print({package}.answer, open('/proc/self/maps').read())");
        self.run(&["-W", "error", "-c", &code])
    }

    /// Returns the path of a file in site-packages.
    fn file(&self, path: &str) -> PathBuf {
        let site =
            self.run(&["-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]).unwrap();
        Path::new(&site).join(path)
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn installed_wheels_load_amds_libraries() {
    let stack = Stack::new();
    let module = stack.module("");
    let stale: &[u8] = b"raise SystemExit('the copied module ran')\n";
    let files: &[(&str, &[u8])] = &[
        ("demo/__init__.py", INIT.as_bytes()),
        ("demo/_C.abi3.so", &module),
        ("demo/_rocm_init.py", stale),
    ];
    let demo = stack.wheel(compiled("demo", "", "cp38-abi3-linux_x86_64", files), &[]).unwrap();
    assert!(
        demo.metadata.contains("\nRequires-Dist: rocm[libraries]==7.14.*\n\n"),
        "{}",
        demo.metadata
    );
    let preloads = wheel::preloads(&demo.path).unwrap();
    assert_eq!(preloads, names(&["amdhip64", "hipblas"]));
    // No policy lists ROCm's libraries, regardless of their provider.
    assert_eq!(demo.tags, ["cp38-abi3-linux_x86_64"]);

    // One that relies on another's import, and one that finds the libraries by itself.
    let init = "import demo\nfrom ._C import answer\n";
    let files: &[(&str, &[u8])] =
        &[("addon/__init__.py", init.as_bytes()), ("addon/_C.abi3.so", &module)];
    let addon = compiled("addon", "Requires-Dist: demo", "cp38-abi3-linux_x86_64", files);
    let addon = stack.wheel(addon, &[("demo", &preloads)]).unwrap();
    let linked =
        stack.module("-Wl,-rpath,$ORIGIN/../_rocm_sdk_core/lib:$ORIGIN/../_rocm_sdk_libraries/lib");
    let files: &[(&str, &[u8])] =
        &[("direct/__init__.py", b"from ._C import answer\n"), ("direct/_C.abi3.so", &linked)];
    let direct = stack.wheel(compiled("direct", "", "cp38-abi3-linux_x86_64", files), &[]).unwrap();
    for wheel in [&addon, &direct] {
        assert!(
            wheel.metadata.contains("Requires-Dist: rocm[libraries]==7.14.*\n"),
            "{}",
            wheel.metadata
        );
        assert_eq!(wheel::preloads(&wheel.path).unwrap(), names(&[]));
    }

    let mut wheels = stack.sdk();
    wheels.extend([&demo, &addon, &direct].map(|wheel| wheel.path.clone()));
    let environment = Environment::with(&wheels, &["addon", "direct"]);
    for package in ["demo", "addon", "direct"] {
        let output =
            environment.import(package).unwrap_or_else(|error| panic!("{package}: {error}"));
        assert!(output.starts_with("42 "), "{output}");
        for library in
            ["_rocm_sdk_core/lib/libamdhip64.so.7", "_rocm_sdk_libraries/lib/librocblas.so.5"]
        {
            let path = environment.file(library);
            assert!(output.contains(path.to_str().unwrap()), "{package}: {library}\n{output}");
        }
    }
    std::fs::remove_file(environment.file("demo/_rocm_init.py")).unwrap();
    for package in ["demo", "addon"] {
        let error = environment.import(package).unwrap_err();
        assert!(error.contains("ImportError"), "{package} needs no preloading: {error}");
    }
    assert!(environment.import("direct").is_ok());
}

#[test]
fn rejects_files_built_for_the_other_mode() {
    let stack = Stack::new();
    let plain = stack.module("");
    let package = |init: &str, module: &[u8]| {
        compiled(
            "bad",
            "",
            "cp38-abi3-linux_x86_64",
            &[("bad/__init__.py", init.as_bytes()), ("bad/_C.abi3.so", module)],
        )
    };
    let opt = stack.module("-Wl,-rpath,/opt/rocm/lib");
    let sdk = stack.module("-Wl,-rpath,$ORIGIN/../_rocm_sdk_core/lib");
    let file = format!("{LIB64}/bad/_C.abi3.so");
    let mut errors = Vec::new();
    for (init, module, reason) in [
        ("", &plain, "does not import _rocm_init"),
        (INIT, &opt, "`/opt/rocm/lib` is an absolute path"),
        ("", &sdk, "needs librocblas.so.5: nothing loads it (`hipblas`)"),
    ] {
        errors.push((stack.wheel(package(init, module), &[]).unwrap_err(), reason));
    }
    let rpm = package("", &sdk).write(stack.dir.path());
    errors.push((build(&[rpm], &stack.out()).unwrap_err(), "leads to AMD's rocm-sdk wheels"));
    for (error, reason) in errors {
        let text = error.to_string();
        assert!(
            text.contains(reason) && text.contains(&file) && !text.contains('\n'),
            "{reason}: {text}"
        );
        assert_eq!((error.kind().exit_code(), error.help().len()), (10, 1), "{text}");
        assert_eq!(
            std::fs::read_dir(stack.out()).unwrap().count(),
            0,
            "{reason}: something was written"
        );
    }
    // For the system's ROCm it is an ordinary wheel and needs nothing from AMD.
    let wheel = one(&[package(INIT, &plain).write(stack.dir.path())], &stack.out());
    assert_eq!(wheel.tags, [format!("cp38-abi3-linux_{}", std::env::consts::ARCH)]);
    assert!(!wheel.metadata.contains("rocm["), "{}", wheel.metadata);
}
