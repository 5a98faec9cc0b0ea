//! Tests builds against a ROCm that no package has: its Python packages, made by `rocmrpm sdk` and
//! served by an index, and TheRock's artifacts, served as a bucket. The machine's loader does not find
//! any of their libraries.

use std::path::{Path, PathBuf};

use rocmrpm::process;

use crate::sdk::Sdk;
use crate::support::server::{Reply, TestServer};
use crate::support::{Parts, Ran, Transcript, Workspace, names_in, ran, template};
use crate::tools::{alone, environment, new_environment};
use crate::wheel_index::serve::Server;

/// A stable-ABI module that needs two libraries of ROCm, linked by the links of the development
/// files. It needs no header and no other ROCm.
const BUILD: &str = "\
echo 'int f(void); int <{ name }>_answer(void) { return f(); }' > c.c
gcc -shared -fPIC -o _C.abi3.so c.c -L<{ rocm.libdir }> -Wl,--no-as-needed -lamdhip64";

const INSTALL: &str = "\
site=%{buildroot}%{_libdir}/python<{ chroot.python }>/site-packages
info=$site/<{ name }>-<{ version }>.dist-info
install -d $info $site/<{ name }>/lib
install -pm 755 _C.abi3.so $site/<{ name }>/lib/
printf 'Metadata-Version: 2.1\\nName: <{ name }>\\nVersion: <{ version }>\\n' > $info/METADATA
printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: cp38-abi3-linux_x86_64\\n' > $info/WHEEL
cat > $site/<{ name }>/__init__.py <<END
import ctypes, pathlib
from . import _rocm_init
_rocm_init.initialize()
answer = ctypes.CDLL(str(pathlib.Path(__file__).parent / 'lib/_C.abi3.so')).<{ name }>_answer
END
";

/// A workspace with one component, and a provider without packages.
struct Stack(Workspace);

impl Stack {
    fn new(provider: &str, build: &str) -> Self {
        let workspace = Workspace::new();
        let capability = "\n[capabilities.hip]\ndevel = \"rocm-sdk-devel\"\n";
        workspace.write(PROVIDER, format!("version = \"7.2\"\n{provider}{capability}"));
        let manifest = workspace.read("rocmrpm.toml");
        workspace.write("rocmrpm.toml", format!("{manifest}\n[wheels]\nrocm = \"rocm-sdk\"\n"));
        let parts = Parts {
            // The RPM is only the source of the wheel.
            preamble: "# arch\nAutoReq: no\n",
            build,
            install: INSTALL,
            files: "%{_libdir}/python<{ chroot.python }>/site-packages/*",
            ..Parts::default()
        };
        workspace.component("demo", &parts);
        Self(workspace)
    }

    fn run(&self, args: &[&str]) -> Ran {
        let uv = environment("python-tools", include_str!("../support/tools.txt")).join("bin");
        let path = std::env::var("PATH").unwrap();
        let mut command = self.0.command(args);
        command.env("PATH", format!("{}:{path}", uv.display()));
        let provider = self.0.read(PROVIDER);
        let index = provider.split("index = \"").nth(1).and_then(|rest| rest.split('"').next());
        command.env("PIP_INDEX_URL", index.unwrap_or("file:///nonexistent/simple"));
        // The servers are on this machine.
        self.0.outcome(command.envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")]))
    }

    fn wheel(&self) -> PathBuf {
        let dir = self.0.built("wheels/demo");
        let mut wheels = names_in(&dir);
        wheels.retain(|file| file.ends_with(".whl"));
        assert_eq!(wheels.len(), 1, "{wheels:?}");
        dir.join(wheels.remove(0))
    }

    /// Runs a program of a virtual environment.
    fn in_venv(&self, venv: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
        let program = venv.join("bin").join(program);
        let command = alone(process::Command::new(program.to_str().unwrap()));
        let command = command.args(arguments).cwd(self.0.holder());
        let command = command.env("ROCM_SDK_TARGET_FAMILY", "gfx1151");
        command.text().map_err(|error| error.to_string())
    }

    /// Creates a virtual environment with the wheel and ROCm from an index.
    fn installed(&self, name: &str, index: &str, rocm: &[&str]) -> PathBuf {
        let venv = self.0.holder().join(name);
        new_environment(&venv);
        let index = format!("--index-url={index}");
        let wheel = self.wheel();
        let wheel = wheel.to_str().unwrap();
        let install = ["install", "--quiet", &index];
        if rocm.is_empty() {
            self.in_venv(&venv, "pip", &[&install[..], &[wheel]].concat()).unwrap();
        } else {
            self.in_venv(&venv, "pip", &[&install[..], rocm].concat()).unwrap();
            self.in_venv(&venv, "pip", &[&install[..], &["--no-deps", wheel]].concat()).unwrap();
        }
        venv
    }
}

const PROVIDER: &str = "mock-configs/rocm/host.toml";
const LOCK: &str = "mock-configs/rocm/host.lock";
const IMPORT: &str =
    "import warnings; warnings.simplefilter('error'); import demo; print(demo.answer())";

fn python_packages(server: &Server) -> String {
    let index = server.url("testing/simple/");
    format!(
        "[python-packages]\nrequirements = [\"rocm[libraries,devel]==7.2.4\"]\nindex = \"{index}\"\n\
         target = \"gfx115X-all\"\n"
    )
}

#[test]
fn builds_against_locked_python_packages() {
    let sdk = Sdk::new();
    let server = Server::start(&sdk.published("7.2.4"));
    let build = format!(
        "test \"$ROCM_PATH\" = '<{{ rocm.prefix }}>'\n\
         test -f \"$CMAKE_PREFIX_PATH\"/hip/hip-config.cmake || test -f \"$ROCM_PATH\"/lib64/cmake/hip/hip-config.cmake\n\
         test \"$(command -v rocminfo)\" = \"$ROCM_PATH/bin/rocminfo\"\n{BUILD}"
    );
    let stack = Stack::new(&python_packages(&server), &build);
    stack.0.replace(
        &template("demo"),
        "# arch",
        "# arch\nBuildRequires: <{ rocm.hip.devel }> >= 7",
    );
    stack
        .run(&["build"])
        .exits(3)
        .reports(["the ROCm of the provider `host` is not locked", "run `rocmrpm lock`"]);
    let checked = stack.run(&["lock", "--check", "--json"]).exits(1).document("rocmrpm/lock/1");
    assert!(!stack.0.path(LOCK).exists());
    let files = checked["rocm"][0]["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(names[0], "rocm-7.2.4.tar.gz");
    let locked = stack.run(&["lock"]);
    locked.exits(0);
    Transcript::block("docs/guides/build-against-rocm-wheels.md", "rocmrpm lock")
        .assert_prints(&locked.stderr);
    stack.run(&["lock", "--check"]).exits(0);
    stack.run(&["lock", "--offline"]).exits(0).reports(["Unchanged"]);
    stack.run(&["build"]).exits(0);
    let results = stack.0.read("build/host/results/demo/build.json");
    assert!(results.contains("\"lock of ROCm\""), "{results}");
    stack.run(&["build"]).exits(0).never_reports("Building");

    // The search path leads from the folder of the module to ROCm's packages.
    let venv = stack.installed("venv", &server.url("testing/simple/"), &[]);
    assert_eq!(stack.in_venv(&venv, "python", &["-c", IMPORT]).unwrap(), "7");
    let proof = stack.run(&["wheel", "--check", "--json"]).exits(0).stdout.clone();
    assert!(proof.contains("+RUNPATH $ORIGIN/../../_rocm_sdk_core/lib"), "{proof}");
    let frozen = stack.in_venv(&venv, "pip", &["freeze"]).unwrap();
    assert!(frozen.contains("rocm-sdk-core==7.2.4"), "{frozen}");

    // The locked files are in the cache; another digest is refused.
    drop(server);
    std::fs::remove_dir_all(stack.0.built("results")).unwrap();
    stack.run(&["build", "--offline"]).exits(0);
    let lock = stack.0.read(LOCK);
    let digest = lock.split("sha256 = \"").nth(1).unwrap()[..64].to_owned();
    stack.0.write(LOCK, lock.replace(&digest, &"0".repeat(64)));
    let refused = stack.run(&["build", "--offline"]);
    refused.reports(["is not in the cache"]);
    assert_ne!(refused.code, Some(0), "{refused}");
    stack.0.write(LOCK, lock);
    stack.0.replace(PROVIDER, "target = \"gfx115X-all\"", "target = \"gfx1151\"");
    stack.run(&["build", "--offline"]).exits(3).reports(["is locked for other settings"]);
    stack.run(&["lock", "--offline"]).exits(30).reports(["`--offline` forbids resolving it"]);
}

#[test]
fn another_version_of_rocm_warns_or_fails() {
    let sdk = Sdk::new();
    let server = Server::start(&sdk.published("7.2.4"));
    let other = Server::start(&sdk.published("7.2.5"));
    let stack = Stack::new(&python_packages(&server), BUILD);
    stack.run(&["lock"]).exits(0);
    stack.run(&["build"]).exits(0);
    let rocm = ["rocm[libraries]"];
    let import = |venv: &Path| stack.in_venv(venv, "python", &["-W", "error", "-c", "import demo"]);
    let minor = stack.installed("minor", &other.url("testing/simple/"), &rocm);
    import(&minor).unwrap();
    stack.0.replace("rocmrpm.toml", "[wheels]\n", "[wheels]\nrocm-version = \"exact\"\n");
    stack.run(&["wheel"]).exits(0);
    let exact = stack.installed("exact", &other.url("testing/simple/"), &rocm);
    let warning = import(&exact).unwrap_err();
    assert!(warning.contains("UserWarning") && warning.contains("7.2.5"), "{warning}");
    stack.in_venv(&exact, "python", &["-c", "import demo"]).unwrap();
    let more = "[wheels]\non-mismatch = \"error\"\nrtld-global = false\n";
    stack.0.replace("rocmrpm.toml", "[wheels]\n", more);
    stack.run(&["wheel"]).exits(0);
    let wheel = stack.wheel();
    let again = ["install", "--quiet", "--force-reinstall", "--no-deps", wheel.to_str().unwrap()];
    stack.in_venv(&exact, "pip", &again).unwrap();
    let error = stack.in_venv(&exact, "python", &["-c", "import demo"]).unwrap_err();
    assert!(error.contains("RuntimeError"), "{error}");
    let venv = stack.installed("right", &server.url("testing/simple/"), &[]);
    assert_eq!(stack.in_venv(&venv, "python", &["-c", IMPORT]).unwrap(), "7");
    stack.0.replace("rocmrpm.toml", "\"error\"", "\"fail\"");
    stack.run(&["wheel"]).exits(3).reports(["unknown value `fail` of `on-mismatch`"]);
}

#[test]
fn bundled_wheels_need_no_other_rocm() {
    let sdk = Sdk::new();
    let server = Server::start(&sdk.published("7.2.4"));
    let stack = Stack::new(&python_packages(&server), &BUILD.replace("-lamdhip64", "-lrocblas"));
    stack.0.replace("rocmrpm.toml", "\"rocm-sdk\"", "\"bundle\"");
    stack.run(&["plan"]).exits(3).reports(["did you mean `bundled`?"]);
    stack.0.replace("rocmrpm.toml", "\"bundle\"", "\"bundled\"");
    stack.run(&["lock"]).exits(0);
    stack.run(&["build"]).exits(0);

    // pip installs it without an index, and the machine has no other ROCm.
    let venv = stack.installed("venv", "file:///nonexistent/simple", &[]);
    assert_eq!(stack.in_venv(&venv, "python", &["-c", IMPORT]).unwrap(), "7");
    let listed = stack.in_venv(&venv, "pip", &["list", "--format=freeze"]).unwrap();
    assert!(!listed.contains("rocm-sdk") && listed.contains("demo=="), "{listed}");
    let member = |name: &str| {
        let script = format!(
            "import zipfile, sys; print(zipfile.ZipFile(sys.argv[1]).read({name:?}).decode())"
        );
        stack.in_venv(&venv, "python", &["-c", &script, stack.wheel().to_str().unwrap()]).unwrap()
    };
    let libraries = "demo.libs/_rocm_sdk_libraries_gfx115X_all";
    let record = member("demo-1.0+rocm7.2.gfx1151.1.dist-info/RECORD");
    for file in [
        "demo.libs/_rocm_sdk_core/lib/libamdhip64.so.7,",
        "demo.libs/_rocm_sdk_core/lib/libhsa-runtime64.so.1,",
        &format!("{libraries}/lib/librocblas.so.5,"),
        &format!("{libraries}/lib/rocblas/library/TensileManifest.txt,"),
        "LICENSE.md",
    ] {
        assert!(record.contains(file), "{file}\n{record}");
    }
    // No file of the wheel needs it.
    assert!(!record.contains("libhipblas"), "{record}");
    let metadata = member("demo-1.0+rocm7.2.gfx1151.1.dist-info/METADATA");
    assert!(!metadata.contains("Requires-Dist: rocm"), "{metadata}");
    let sbom = member("demo-1.0+rocm7.2.gfx1151.1.dist-info/sboms/rocmrpm.cdx.json");
    assert!(sbom.contains("pkg:pypi/rocm-sdk-core@7.2.4"), "{sbom}");
    let origin = member("demo-1.0+rocm7.2.gfx1151.1.dist-info/rocmrpm.json");
    assert!(origin.contains("rocm_sdk_core-7.2.4"), "{origin}");
    stack.run(&["inspect", stack.wheel().to_str().unwrap()]).exits(0);
    let proof = stack.run(&["wheel", "--check", "--json"]).exits(0).stdout.clone();
    assert!(proof.contains("+from rocm_sdk_core-7.2.4"), "{proof}");

    // The files are in the cache, and the wheel is the same again.
    drop(server);
    let wheel = std::fs::read(stack.wheel()).unwrap();
    std::fs::remove_dir_all(stack.0.built("wheels")).unwrap();
    stack.run(&["wheel"]).exits(0);
    assert!(wheel == std::fs::read(stack.wheel()).unwrap(), "the wheel differs");
    // Packages of a distribution are no Python packages.
    stack.0.write(PROVIDER, stack.0.read(PROVIDER).split("[python-packages]").next().unwrap());
    stack.0.replace(PROVIDER, "version", "prefix = \"/usr\"\nversion");
    stack
        .run(&["build"])
        .exits(3)
        .reports(["the ROCm provider `host` has none", "`[python-packages]`"]);
}

/// A bucket with the artifacts of a run, in which the archive of a file has `artifact_manifest.txt`
/// as its first member.
fn bucket(sdk: &Workspace) -> TestServer {
    let archive = |name: &str, stage: &str, files: &[(&str, Vec<u8>)]| {
        let dir = sdk.holder().join(name);
        for (path, bytes) in files {
            let path = dir.join(stage).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
        std::fs::write(dir.join("artifact_manifest.txt"), format!("{stage}\nempty/stage\n"))
            .unwrap();
        let file = sdk.holder().join(format!("{name}.tar"));
        let mut tar = std::process::Command::new("tar");
        tar.current_dir(&dir).arg("--create").arg("--file").arg(&file);
        ran(tar.args(["artifact_manifest.txt", stage.split('/').next().unwrap()])).exits(0);
        std::fs::read(&file).unwrap()
    };
    let library = sdk.holder().join("libamdhip64.so.7");
    std::fs::write(sdk.holder().join("f.c"), "int f(void) { return 7; }\n").unwrap();
    let mut gcc = std::process::Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-Wl,-soname,libamdhip64.so.7", "-o"]).arg(&library);
    ran(gcc.arg(sdk.holder().join("f.c"))).exits(0);
    let library = std::fs::read(library).unwrap();
    let xz = |bytes: Vec<u8>| {
        let file = sdk.holder().join("packed");
        std::fs::write(&file, bytes).unwrap();
        ran(std::process::Command::new("xz").args(["--force", "--keep"]).arg(&file)).exits(0);
        std::fs::read(file.with_extension("xz")).unwrap()
    };
    let lib = archive(
        "core-hip_lib_generic",
        "core/hip/stage",
        &[("lib/libamdhip64.so.7", library.clone())],
    );
    let dev = archive("core-hip_dev_generic", "core/hip/stage", &[("lib/libamdhip64.so", library)]);
    let blas = archive("blas_lib_gfx115X-all", "math/stage", &[("lib/kernels.dat", b"x".to_vec())]);
    let files = [
        ("core-hip_lib_generic.tar.xz", xz(lib)),
        ("core-hip_dev_generic.tar.xz", xz(dev)),
        ("core-hip_test_generic.tar.xz", b"unused".to_vec()),
        ("blas_lib_gfx115X-all.tar.xz", xz(blas)),
        ("blas_lib_gfx94X-dcgpu.tar.xz", b"unused".to_vec()),
        ("core-hip_lib_generic.tar.xz.sha256sum", b"unused".to_vec()),
    ];
    TestServer::start(move |request| {
        if request.path.starts_with("/?list-type=2&prefix=77-linux%2F") {
            // Two pages, as S3 splits long lists.
            let second = request.path.contains("continuation-token=t%2B1");
            let names = if second { &files[3..] } else { &files[..3] };
            let keys: String = names
                .iter()
                .map(|(name, _)| format!("<Contents><Key>77-linux/{name}</Key></Contents>"))
                .collect();
            let next =
                if second { "" } else { "<NextContinuationToken>t+1</NextContinuationToken>" };
            return Reply::file(format!(
                "<?xml version=\"1.0\"?>\n<ListBucketResult>{keys}{next}</ListBucketResult>"
            ));
        }
        let name = request.path.strip_prefix("/77-linux/").unwrap_or_default();
        let found = files.iter().find(|(file, _)| *file == name);
        found.map_or_else(|| Reply::status(404), |(_, bytes)| Reply::file(bytes.clone()))
    })
}

#[test]
fn builds_against_locked_artifacts() {
    let holder = Workspace::empty();
    let server = bucket(&holder);
    let provider = format!(
        "[artifacts]\nurl = \"{}\"\nrun = \"77-linux\"\ngroups = [\"core-hip\", \"blas\"]\n\
         targets = [\"gfx115X-all\"]\n",
        server.url("")
    );
    let build = format!(
        "test -f \"$ROCM_PATH\"/lib/kernels.dat\ntest \"$HIP_PATH\" = '<{{ rocm.prefix }}>'\n{BUILD}"
    );
    let stack = Stack::new(&provider, &build);
    stack.0.replace(PROVIDER, "version = \"7.2\"", "version = \"7.14\"");
    let lock = || stack.run(&["lock"]);
    stack.0.replace(PROVIDER, "\"blas\"", "\"fft\"");
    lock().exits(3).reports(["has 6 files, but none of fft"]);
    stack.0.replace(PROVIDER, "\"fft\"", "\"blas\"");
    lock().exits(0);
    let locked = stack.0.read(LOCK);
    let names: Vec<&str> = locked.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    let expected = ["blas_lib_gfx115X-all", "core-hip_dev_generic", "core-hip_lib_generic"];
    assert_eq!(names, expected.map(|name| format!("\"{name}.tar.xz\"")));
    stack.0.replace("rocmrpm.toml", "rocm = \"rocm-sdk\"", "rocm = \"rocm-sdk\"\nrelink = true");
    stack.run(&["build"]).exits(0);
    let proof = stack.run(&["wheel", "--check", "--json"]).exits(0).stdout.clone();
    assert!(proof.contains("+RUNPATH $ORIGIN/../../_rocm_sdk_core/lib"), "{proof}");
    drop(server);
    std::fs::remove_dir_all(stack.0.built("results")).unwrap();
    stack.run(&["build", "--offline"]).exits(0);
}

#[test]
fn mistakes_of_a_provider_are_errors_with_their_place() {
    let stack = Stack::new("[python-packages]\nrequirements = [\"rocm[devel]\"]\n", "true");
    let check = |from: &str, to: &str, expected: &str| {
        let text = stack.0.read(PROVIDER);
        stack.0.replace(PROVIDER, from, to);
        stack.run(&["plan"]).exits(3).reports([expected, "host.toml"]);
        stack.0.write(PROVIDER, text);
    };
    check(
        "version",
        "prefix = \"/usr\"\nversion",
        "`prefix` and `[python-packages]` exclude each other",
    );
    check("\"rocm[devel]\"", "\"rocm devel\"", "`rocm devel` is not a requirement");
    check("\"rocm[devel]\"", "", "`requirements` is missing");
    check("[python", "[artifacts]\nurl = \"https://h\"\nrun = \"1\"\n[python", "cannot have both");
    check("requirements", "target = \"gfx1511\"\nrequirements", "did you mean `gfx1151`?");
    check("requirements", "index = \"h\"\nrequirements", "`h` is not a URL of a folder");
}
