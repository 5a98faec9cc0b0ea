//! Tests ROCm's Python packages with pip and uv: what they install, run and uninstall. The RPMs
//! contain small libraries and programs.

use std::path::{Path, PathBuf};

use rocmrpm::process::Command;

use crate::support::{Workspace, ran};
use crate::tools::{alone, new_environment, tool};
use crate::wheel_index::serve::Server;

/// A folder with RPMs of a small ROCm.
pub(crate) struct Sdk(Workspace);

impl Sdk {
    pub(crate) fn new() -> Self {
        let sdk = Self(Workspace::empty());
        let hsa = sdk.library("libhsa-runtime64.so.1", &[]);
        let hip = sdk.library("libamdhip64.so.7", &["libhsa-runtime64.so.1"]);
        let blas = sdk.library("libhipblas.so.3", &["libamdhip64.so.7"]);
        let main = "#include <stdio.h>\nint f(void);\n\
            int main(int n, char **a) { printf(\"%s %d\\n\", a[n - 1], f()); return 0; }\n";
        let tool = sdk.link("rocminfo", main, &["-l:libamdhip64.so.7", "-Wl,-rpath-link,."]);
        let data: &[(&str, &Path)] = &[
            ("/usr/lib64/libhsa-runtime64.so.1", &hsa),
            ("/usr/lib64/libamdhip64.so.7", &hip),
            ("/usr/bin/rocminfo", &tool),
        ];
        sdk.rpm("rocm-hip", data, &[("/usr/bin/rocm_agent_enumerator", "rocminfo")]);
        let header = sdk.0.holder().join("hip_runtime.h");
        std::fs::write(&header, "#pragma once\n").unwrap();
        let config = "/usr/lib64/cmake/hip/hip-config.cmake";
        let links = [("/usr/lib64/libamdhip64.so", "libamdhip64.so.7")];
        sdk.rpm("rocm-hip-devel", &[(config, &header)], &links);
        let kernels = "/usr/lib64/rocblas/library/TensileLibrary_gfx";
        let kpack = "/usr/lib64/.kpack/blas_lib_gfx";
        for target in ["1151", "90a"] {
            let name = format!("hipblas-gfx{target}");
            let data: &[(&str, &Path)] = &[
                // RECORD quotes it.
                (&format!("{kernels}{target}_a,b.dat"), &header),
                (&format!("{kernels}{target}.dat"), &header),
                (&format!("{kpack}{target}.kpack"), &header),
            ];
            sdk.rpm(&name, data, &[]);
        }
        sdk.rpm("hipblas", &[("/usr/lib64/libhipblas.so.3", &blas)], &[]);
        let rocblas = sdk.library("librocblas.so.5", &["libamdhip64.so.7"]);
        let data: &[(&str, &Path)] = &[
            ("/usr/lib64/librocblas.so.5", &rocblas),
            ("/usr/lib64/rocblas/library/TensileManifest.txt", &header),
            ("/usr/share/licenses/rocblas/LICENSE.md", &header),
        ];
        sdk.rpm("rocblas", data, &[("/usr/lib64/librocblas.so", "librocblas.so.5")]);
        sdk
    }

    fn link(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let file = self.0.holder().join(name);
        std::fs::write(file.with_extension("c"), source).unwrap();
        let mut gcc = std::process::Command::new("gcc");
        gcc.current_dir(self.0.holder()).args(["-L.", "-Wl,--no-as-needed", "-o"]);
        ran(gcc.arg(&file).arg(file.with_extension("c")).args(options)).exits(0);
        file
    }

    fn library(&self, soname: &str, needs: &[&str]) -> PathBuf {
        let mut options =
            vec!["-shared".to_owned(), "-fPIC".into(), format!("-Wl,-soname,{soname}")];
        options.extend(needs.iter().map(|name| format!("-l:{name}")));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.link(soname, "int f(void) { return 7; }\n", &options)
    }

    fn rpm(&self, name: &str, files: &[(&str, &Path)], links: &[(&str, &str)]) {
        let mut builder = rpm::PackageBuilder::new(name, "7.2.4", "MIT", "x86_64", "a test");
        for (path, file) in files {
            let mode = if path.contains("/bin/") { 0o755 } else { 0o644 };
            let options = rpm::FileOptions::new(*path).permissions(mode);
            builder.with_file_contents(std::fs::read(file).unwrap(), options).unwrap();
        }
        for (path, to) in links {
            builder.with_symlink(rpm::FileOptions::symlink(*path, *to)).unwrap();
        }
        let path = self.0.path(format!("{name}-7.2.4-1.x86_64.rpm"));
        builder.build().unwrap().write_file(path).unwrap();
    }

    /// Makes the packages of this version from the RPMs without GPU code in files of its own, and
    /// publishes them to a new index, whose folder it returns.
    pub(crate) fn published(&self, version: &str) -> PathBuf {
        let rpms = ["rocm-hip", "rocm-hip-devel", "hipblas", "rocblas"];
        let rpms = rpms.map(|name| format!("{name}-7.2.4-1.x86_64.rpm"));
        let out = format!("dist-{version}");
        let mut make = vec!["sdk", "--gpu-target", "gfx115X-all", "--version", version];
        make.extend(["--out", &out]);
        make.extend(rpms.iter().map(String::as_str));
        self.0.run(&make).exits(0);
        let files = crate::support::names_in(&self.0.path(&out)).into_iter();
        let files: Vec<String> = files.map(|name| format!("{out}/{name}")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let index = format!("index-{version}");
        self.0.run(&[&["publish", "index", &index], &files[..]].concat()).exits(0);
        self.0.path(index)
    }

    /// Makes the packages and installs some into a new environment.
    fn installed(&self, rpms: &[&str], targets: &[&str], wanted: &str) -> PathBuf {
        let rpms: Vec<String> =
            rpms.iter().map(|name| format!("{name}-7.2.4-1.x86_64.rpm")).collect();
        let mut arguments = vec!["sdk", "--out", "dist"];
        arguments.extend(targets.iter().flat_map(|target| ["--gpu-target", *target]));
        arguments.extend(rpms.iter().map(String::as_str));
        arguments.push("--json");
        let made = self.0.run(&arguments).document("rocmrpm/sdk/1");
        assert_eq!(made["packages"][0]["name"], "rocm");
        let venv = self.0.holder().join("venv");
        new_environment(&venv);
        let dist = self.0.path("dist");
        let install =
            ["install", "--quiet", "--no-index", "--find-links", dist.to_str().unwrap(), wanted];
        self.in_venv("pip", &install);
        venv
    }

    fn in_venv(&self, program: &str, arguments: &[&str]) -> String {
        let program = self.0.holder().join("venv/bin").join(program);
        let command = alone(Command::new(program.to_str().unwrap()));
        let command = command.args(arguments).cwd(self.0.holder());
        let command = command.env("ROCM_SDK_TARGET_FAMILY", "gfx1151");
        let line = command.line();
        command.text().unwrap_or_else(|error| panic!("{line}: {error}"))
    }
}

/// Returns the paths below site-packages with `rocm` in the name.
fn left_over(venv: &Path) -> Vec<String> {
    let all = walkdir::WalkDir::new(venv).into_iter().map(|entry| entry.unwrap().into_path());
    let named =
        all.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().contains("rocm")));
    named.map(|path| path.display().to_string()).collect()
}

#[test]
fn pip_installs_runs_and_uninstalls_rocm() {
    let sdk = Sdk::new();
    let rpms = ["rocm-hip", "rocm-hip-devel", "hipblas"];
    let venv = sdk.installed(&rpms, &["gfx115X-all"], "rocm[libraries,devel]");
    assert_eq!(sdk.in_venv("rocm-sdk", &["version"]).trim(), "7.2.4");
    assert_eq!(sdk.in_venv("rocm-sdk", &["targets"]).trim(), "gfx1150;gfx1151;gfx1152;gfx1153");
    assert_eq!(sdk.in_venv("rocminfo", &["x"]).trim(), "x 7");
    // No library of ROCm is on this machine's search path.
    let script = "import rocm_sdk; rocm_sdk.initialize_process(preload_shortnames=['hipblas']); \
        import ctypes; print(ctypes.CDLL(str(rocm_sdk.find_libraries('hipblas')[0])).f())";
    assert_eq!(sdk.in_venv("python", &["-c", script]).trim(), "7");
    let root = PathBuf::from(sdk.in_venv("rocm-sdk", &["path", "--root"]).trim());
    assert!(root.join("lib64/cmake/hip/hip-config.cmake").is_file());
    let library = root.join("lib/libamdhip64.so");
    assert!(!library.is_symlink() && library.is_file());
    let stub = root.join("bin/rocm_agent_enumerator");
    ran(std::process::Command::new(&stub).arg("y")).exits(0).prints(["y 7"]);
    let tested = sdk.in_venv("rocm-sdk", &["test"]);
    assert!(tested.trim_end().ends_with("OK"), "{tested}");
    let names = ["rocm", "rocm-sdk-core", "rocm-sdk-devel", "rocm-sdk-libraries-gfx115X-all"];
    sdk.in_venv("pip", &[&["uninstall", "--quiet", "--yes"][..], &names].concat());
    assert_eq!(left_over(&venv), [""; 0]);
}

#[test]
fn device_packages_come_and_go() {
    let sdk = Sdk::new();
    let rpms = ["rocm-hip", "rocm-hip-devel", "hipblas", "hipblas-gfx1151", "hipblas-gfx90a"];
    let venv = sdk.installed(&rpms, &["gfx1151", "gfx90a"], "rocm[libraries,devel,device]");
    let kernels = |target: &str| {
        let root = PathBuf::from(sdk.in_venv("rocm-sdk", &["path", "--root"]).trim());
        root.join(format!("lib/.kpack/blas_lib_gfx{target}.kpack")).is_file()
    };
    // The variable names the target on any machine.
    assert!(kernels("1151") && !kernels("90a"));
    let dist = sdk.0.path("dist");
    let find = ["--no-index", "--find-links", dist.to_str().unwrap()];
    let all = [&["install", "--quiet"][..], &find, &["rocm[device-gfx90a]"]].concat();
    sdk.in_venv("pip", &all);
    assert!(kernels("1151") && kernels("90a"));
    sdk.in_venv("pip", &["uninstall", "--quiet", "--yes", "rocm-sdk-device-gfx90a"]);
    assert!(kernels("1151") && !kernels("90a"));
    for name in ["rocm_sdk_device_gfx1151", "rocm_sdk_devel"] {
        let record =
            walkdir::WalkDir::new(&venv).into_iter().map(|entry| entry.unwrap().into_path());
        let record = record.filter(|path| path.ends_with(format!("{name}-7.2.4.dist-info/RECORD")));
        let text = std::fs::read_to_string(record.last().unwrap()).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().any(|line| line.ends_with("gfx1151_a,b.dat\",,")), "{text}");
        let number = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), number, "{text}");
    }
    // Files of the device package are in the folder.
    sdk.in_venv("pip", &["uninstall", "--quiet", "--yes", "rocm-sdk-devel"]);
    let left = left_over(&venv);
    assert!(!left.iter().any(|path| path.contains("rocm_sdk_devel")), "{left:?}");
    // uv resolves the sdist to the same packages.
    let python = venv.join("bin/python");
    let base = ["--no-config", "pip", "install", "--quiet", "--offline", "--reinstall", "--python"];
    let uv = alone(tool("uv")).args(base).arg(&python).args(find).arg("rocm[libraries,device-all]");
    uv.text().unwrap();
    let listed = sdk.in_venv("pip", &["list"]);
    for name in ["rocm-sdk-device-gfx1151", "rocm-sdk-device-gfx90a", "rocm-sdk-libraries"] {
        assert!(listed.contains(name), "{listed}");
    }
}

/// Presents GPUs to a command, by the numbers of the driver, in place of those of this machine.
const PRESENT: &str = "mount -t tmpfs tmpfs /sys/class\n\
    for gpu in $GPUS; do\n\
        node=/sys/class/kfd/kfd/topology/nodes/$gpu\n\
        mkdir -p $node\n\
        printf 'cpu_cores_count 0\\ngfx_target_version %s\\n' $gpu > $node/properties\n\
    done\n\
    exec \"$@\"";

#[test]
fn chooses_targets_by_the_variable_then_the_gpus_then_the_default() {
    let sdk = Sdk::new();
    let rpms = ["rocm-hip", "rocm-hip-devel", "hipblas", "hipblas-gfx1151", "hipblas-gfx90a"];
    let venv = sdk.installed(&rpms, &["gfx1151", "gfx90a"], "rocm");
    let devices = |gpus: &str, variable: Option<&str>| {
        let folder = tempfile::tempdir_in(sdk.0.holder()).unwrap();
        let mut pip = std::process::Command::new("unshare");
        pip.args(["--user", "--map-root-user", "--mount", "bash", "-ec", PRESENT, "bash"])
            .arg(venv.join("bin/pip"))
            .args(["install", "--quiet", "--no-cache-dir", "--no-index", "--find-links"])
            .arg(sdk.0.path("dist"))
            .args(["rocm[device]", "--target"])
            .arg(folder.path())
            .env_remove("ROCM_SDK_TARGET_FAMILY")
            .envs(variable.map(|name| ("ROCM_SDK_TARGET_FAMILY", name)))
            .env("GPUS", gpus);
        ran(&mut pip).exits(0);
        let names = std::fs::read_dir(folder.path()).unwrap();
        let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
        let device = |name: String| {
            Some(name.strip_prefix("rocm_sdk_device_")?.split('-').next()?.to_owned())
        };
        let mut found: Vec<String> = names.filter_map(device).collect();
        found.sort();
        found.join(" ")
    };
    // 0 is a processor; gfx1100 has no package.
    assert_eq!(devices("0 90010", None), "gfx90a");
    assert_eq!(devices("0 90010 110501", None), "gfx1151 gfx90a");
    assert_eq!(devices("0 90010 110501", Some("gfx1151")), "gfx1151");
    assert_eq!(devices("0 110000", None), "gfx1151");
    assert_eq!(devices("", None), "gfx1151");
}

#[test]
fn a_published_index_serves_rocm() {
    let sdk = Sdk::new();
    sdk.installed(&["rocm-hip", "rocm-hip-devel", "hipblas"], &["gfx1151"], "rocm[libraries]");
    let names = ["rocm", "rocm-sdk-core", "rocm-sdk-libraries-gfx1151"];
    let uninstall =
        || sdk.in_venv("pip", &[&["uninstall", "--quiet", "--yes"][..], &names].concat());
    let files = std::fs::read_dir(sdk.0.path("dist")).unwrap();
    let files: Vec<String> =
        files.map(|entry| format!("dist/{}", entry.unwrap().file_name().display())).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let publish = [&["publish", "index", "index"][..], &files].concat();
    sdk.0.run(&publish).exits(0).reports(["Add rocm-7.2.4.tar.gz to testing", "Published"]);
    let server = Server::start(&sdk.0.path("index"));
    let find = format!("--find-links={}", server.url("testing/links.html"));
    let index = format!("--index-url={}", server.url("testing/simple/"));
    for from in [&["--no-index", &find][..], &[&index]] {
        uninstall();
        sdk.in_venv("pip", &[&["install", "--quiet"][..], from, &["rocm[libraries]"]].concat());
        assert_eq!(sdk.in_venv("rocm-sdk", &["version"]).trim(), "7.2.4");
        uninstall();
        let python = sdk.0.holder().join("venv/bin/python");
        let install = ["--no-config", "--no-cache", "pip", "install", "--quiet", "--python"];
        let uv = alone(tool("uv")).args(install).arg(&python).args(from).arg("rocm[libraries]");
        uv.env("ROCM_SDK_TARGET_FAMILY", "gfx1151").text().unwrap();
        assert_eq!(sdk.in_venv("rocm-sdk", &["version"]).trim(), "7.2.4");
    }
    sdk.0
        .run(&["publish", "index", "index", "rocm-hip-7.2.4-1.x86_64.rpm"])
        .exits(2)
        .reports(["`rocm-hip-7.2.4-1.x86_64.rpm` is not a wheel or an sdist"]);
}

#[test]
fn programs_find_what_they_need_or_name_what_is_missing() {
    let sdk = Sdk::new();
    let script = |name: &str, text: &str| {
        let file = sdk.0.holder().join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        file
    };
    let run = script("run", "echo $LD_LIBRARY_PATH; echo $PYTHONPATH");
    let library = sdk.library("librocprof-sys.so.1", &["libamdhip64.so.7"]);
    let profilers: &[(&str, &Path)] = &[
        ("/usr/bin/rocprof-sys-run", &run),
        ("/usr/lib64/librocprof-sys.so.1", &library),
        ("/usr/libexec/rocprofiler-compute/x.py", &run),
    ];
    sdk.rpm("rocprofiler-systems", profilers, &[]);
    sdk.rpm("hipcc", &[("/usr/bin/hipcc", &script("hipcc", "echo $0"))], &[]);
    let rpms = ["rocm-hip", "rocprofiler-systems", "hipcc"];
    let venv = sdk.installed(&rpms, &["gfx1151"], "rocm[profiler]");
    let paths = sdk.in_venv("rocprof-sys-run", &[]);
    let paths: Vec<&str> = paths.lines().collect();
    let first = paths[0].split(':').next().unwrap();
    assert!(first.ends_with("site-packages/_rocm_profiler/lib"), "{paths:?}");
    assert!(
        paths[1].ends_with("site-packages/_rocm_profiler/libexec/rocprofiler-compute"),
        "{paths:?}"
    );
    let hipcc = venv.join("bin/hipcc");
    let warning = "hipcc: warning: headers and libraries to link with are missing; \
        run `pip install 'rocm[devel]==7.2.4'`";
    ran(&mut std::process::Command::new(&hipcc))
        .exits(0)
        .prints(["_rocm_sdk_core/bin/hipcc"])
        .reports([warning]);
    let dist = sdk.0.path("dist");
    let devel =
        ["install", "--quiet", "--no-index", "--find-links", dist.to_str().unwrap(), "rocm[devel]"];
    sdk.in_venv("pip", &devel);
    ran(&mut std::process::Command::new(&hipcc))
        .exits(0)
        .prints(["_rocm_sdk_devel/bin/hipcc"])
        .never_reports("warning");
}

#[test]
fn packages_are_compared_with_their_rpms() {
    let sdk = Sdk::new();
    let rpms = ["rocm-hip-7.2.4-1.x86_64.rpm", "hipblas-7.2.4-1.x86_64.rpm"];
    let run = |more: &[&str]| {
        let options = ["--out", "dist", "--gpu-target", "gfx1151"];
        sdk.0.run(&[&["sdk"], &rpms[..], &options, more].concat())
    };
    run(&["--check"]).exits(1).reports(["Differs", "4 differences"]);
    assert!(!sdk.0.path("dist").exists());
    run(&[]).exits(0);
    let check = run(&["--check"]);
    check.exits(0).reports(["Verified 4 wheels", "no differences"]);
    assert!(check.stdout.contains("        +RUNPATH $ORIGIN/../lib\n"), "{}", check.stdout);
    let wheel = sdk.0.path("dist/rocm_sdk_core-7.2.4-py3-none-linux_x86_64.whl");
    let member = "rocm_sdk_core-7.2.4.dist-info/rocmrpm.json";
    let show =
        "import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]).decode())";
    let mut python = std::process::Command::new("/usr/bin/python3");
    let provenance = ran(python.args(["-c", show]).arg(&wheel).arg(member));
    provenance.exits(0).document("rocmrpm/sdk-provenance/1");
    std::fs::write(&wheel, "x").unwrap();
    let check = run(&["--check", "--json"]).exits(1).document("rocmrpm/sdk-check/1");
    let wheels: Vec<&serde_json::Value> = check["packages"].as_array().unwrap().iter().collect();
    let differ = wheels.iter().filter(|of| !of["differences"].as_array().unwrap().is_empty());
    let names: Vec<&str> = differ.map(|of| of["wheel"].as_str().unwrap()).collect();
    assert_eq!(names, ["rocm_sdk_core-7.2.4-py3-none-linux_x86_64.whl"]);
    assert_eq!(std::fs::read(&wheel).unwrap(), b"x");
}

#[test]
fn mistakes_are_errors_before_anything_is_written() {
    let sdk = Sdk::new();
    let rpm = "rocm-hip-7.2.4-1.x86_64.rpm";
    let run = |more: &[&str]| sdk.0.run(&[&["sdk", rpm, "--out", "dist"], more].concat());
    run(&["--gpu-target", "gfx1511"]).exits(2).reports(["did you mean `gfx1151`?"]);
    run(&["--gpu-target", "gfx1151", "--version", "7.3.0"])
        .exits(2)
        .reports(["version 7.3.0 is not one of ROCm 7.2"]);
    run(&["--gpu-target", "gfx1151", "hipblas-gfx90a-7.2.4-1.x86_64.rpm"])
        .exits(2)
        .reports(["no RPM has GPU code for gfx1151; found: gfx90a"]);
    assert!(!sdk.0.path("dist").exists());
    let current = ["sdk", rpm, "--out", ".", "--gpu-target", "gfx1151"];
    sdk.0
        .run(&current)
        .exits(2)
        .reports(["not one of ROCm's Python packages, which `--out` replaces"]);
    let empty = sdk.0.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let rpm = format!("../{rpm}");
    let current = ["sdk", &rpm, "--out", ".", "--gpu-target", "gfx1151"];
    sdk.0
        .outcome(sdk.0.command(&current).current_dir(&empty))
        .exits(2)
        .reports(["`--out` is the current folder"]);
}
