//! A component whose GPU code is in kpack archives, with a package for each target: a real library
//! with the section and the wrapper that TheRock's splitter leaves, and archives in its format.

use rocmrpm::inspect::testing::{Kpack, kernels_object, kpack_reference};

use super::{Parts, Workspace};

/// The targets of the workspace.
pub const TARGETS: [&str; 2] = ["gfx1100", "gfx1201"];

const LIBRARY: &str = "\
static const char nothing[8];
__attribute__((used, section(\".hipFatBinSegment\")))
static struct { unsigned magic, version; const void *code; unsigned long index; } wrapper = {
    0x4b504948, 1, nothing, 0
};
__asm__(\".pushsection .rocm_kpack_ref,\\\"a\\\"\\n.incbin \\\"reference\\\"\\n.popsection\");
int twice(int value) { return value * 2; }
";

const INSTALL: &str = "\
site=%{buildroot}%{python3_sitearch}
install -d $site/k/.kpack $site/k-1.0.dist-info
install -m 755 libk.so $site/k/libk.so
install -m 644 k_*.kpack $site/k/.kpack/
echo 'value = 1' > $site/k/__init__.py
printf 'Metadata-Version: 2.1\\nName: k\\nVersion: 1.0\\nLicense: MIT\\n\\nA test.\\n' > $site/k-1.0.dist-info/METADATA
printf 'Wheel-Version: 1.0\\nTag: py3-none-linux_x86_64\\n' > $site/k-1.0.dist-info/WHEEL";

/// Adds the component `k` to a workspace, which gets these targets.
pub fn add(workspace: &Workspace) {
    workspace.component(
        "k",
        &Parts {
            toml: "[inspect]\ndevice-code = true\n",
            // No test's repository has the Python of the host.
            preamble: "# arch\n%global __requires_exclude ^python.abi\n<@ set host_package = name @>\
                       <@ set kpack_folder = \"%{python3_sitearch}/k/.kpack\" @>\
                       <@ include \"_shared/device-packages.tera\" @>",
            build: "gcc -shared -fPIC -O1 -nostdlib -Wl,--build-id -Wl,--hash-style=both -o libk.so k.c",
            install: INSTALL,
            files: "%{python3_sitearch}/k\n%{python3_sitearch}/k-1.0.dist-info\n%exclude_device_archives",
            ..Parts::default()
        },
    );
    workspace.write("src/k/k.c", LIBRARY);
    let reference = kpack_reference("k/libk.so", &[".kpack/k_@GFXARCH@.kpack"]);
    workspace.write("src/k/reference", reference);
    TARGETS.iter().for_each(|target| add_archive(workspace, target));
    set_targets(workspace, &TARGETS);
}

/// Adds the archive for a target to the source.
pub fn add_archive(workspace: &Workspace, target: &str) {
    let archive = Kpack::new("k", &[target]);
    let archive = archive.kernel("k/libk.so#0", target, &kernels_object(target, 3));
    workspace.write(archive_of(target), archive.build());
}

/// Returns the path of a target's archive in the source.
pub fn archive_of(target: &str) -> String {
    format!("src/k/k_{target}.kpack")
}

/// Sets the GPU targets of the workspace.
pub fn set_targets(workspace: &Workspace, targets: &[&str]) {
    let mut manifest: toml::Table = workspace.read("rocmrpm.toml").parse().unwrap();
    let targets = targets.iter().map(|&target| toml::Value::from(target)).collect::<Vec<_>>();
    manifest["stack"].as_table_mut().unwrap().insert("gpu-targets".into(), targets.into());
    workspace.write("rocmrpm.toml", manifest.to_string());
}
