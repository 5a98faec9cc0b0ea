//! Pure Python components, built from the source distributions on the pip index: amdsmi, and
//! flash-attn with its Triton kernels, whose setup.py imports the PyTorch of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::repository;
use super::support::{Ran, Workspace, ran, text_of};

/// A component built in the version of the pin set `stable`.
struct Built {
    workspace: Workspace,
    rpm: PathBuf,
}

impl Built {
    #[track_caller]
    fn new(component: &str) -> Self {
        let workspace = repository(component, "stable");
        workspace.run(&["build", component, "--until", "rpm"]).exits(0);
        let record = workspace.assert_whole(component);
        let outputs = record["outputs"].as_array().unwrap();
        let noarch: Vec<String> = outputs
            .iter()
            .map(|output| text_of(&output["file"]))
            .filter(|file| file.ends_with(".noarch.rpm"))
            .collect();
        assert_eq!(noarch.len(), 1, "{outputs:?}");
        let rpm = workspace.built("results").join(component).join(&noarch[0]);
        Self { workspace, rpm }
    }

    fn query(&self, what: &str) -> String {
        let mut command = Command::new("rpm");
        command.args(["-qp", what]).arg(&self.rpm);
        self.workspace.settle(&mut command);
        ran(&mut command).exits(0).stdout.clone()
    }

    /// Unpacks the package; returns the folder of its Python modules.
    fn modules(&self) -> PathBuf {
        let root = self.workspace.path("installed");
        std::fs::create_dir_all(&root).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "rpm2cpio \"$1\" | cpio --quiet -id", "sh"]).arg(&self.rpm);
        self.workspace.settle(&mut command);
        ran(command.current_dir(&root)).exits(0);
        let mut found = walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap);
        found.find(|entry| entry.file_name() == "site-packages").expect("site-packages").into_path()
    }
}

/// Runs a line of Python with these modules first in its search path.
fn python(workspace: &Workspace, modules: &Path, line: &str) -> Ran {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-B", "-c", line]);
    workspace.settle(&mut command);
    ran(command.env("PYTHONPATH", modules).env_remove("FLASH_ATTENTION_TRITON_AMD_ENABLE"))
}

#[test]
fn amdsmi_searches_the_library_of_the_provider() {
    let built = Built::new("amdsmi");
    assert!(built.query("--provides").contains("python3dist(amdsmi) = 7.0.2\n"));
    assert_eq!(built.query("--conflicts"), "amdsmi\n");
    assert!(!built.query("--list").contains(".so"), "the provider has the library");
    let provider: toml::Table =
        built.workspace.read("mock-configs/rocm/host.toml").parse().unwrap();
    let libdir = provider.get("libdir").and_then(toml::Value::as_str).unwrap_or("/usr/lib");
    let wrapper =
        std::fs::read_to_string(built.modules().join("amdsmi/amdsmi_wrapper.py")).unwrap();
    let places = format!("possible_locations += [\"{libdir}/libamd_smi.so\", \"libamd_smi.so\"]");
    assert_eq!(wrapper.matches(&places).count(), 1, "{places}");
}

#[test]
fn flash_attn_uses_its_triton_kernels_by_default() {
    let built = Built::new("flash-attn");
    let requires = built.query("--requires");
    for name in ["dist(torch)\n", "dist(einops)\n", "python3dist(triton)\n"] {
        assert!(requires.contains(name), "{name}: {requires}");
    }
    assert!(!requires.contains("ninja") && !requires.contains("psutil"), "{requires}");
    let files = built.query("--list");
    for absent in ["/hopper/", "/csrc/", ".so\n", "/tests/"] {
        assert!(!files.contains(absent), "{absent}: {files}");
    }
    // Without Triton, the import fails at Triton and not at the CUDA module, which upstream imports
    // unless a variable is set.
    let import = python(
        &built.workspace,
        &built.modules(),
        "import sys; sys.modules['triton'] = None; import flash_attn",
    );
    assert_ne!(import.code, Some(0));
    import.reports(["import of triton halted"]).never_reports("flash_attn_2_cuda");
    let utils = built.modules().join("flash_attn/flash_attn_triton_amd/utils.py");
    let utils = std::fs::read_to_string(utils).unwrap();
    let rdna = utils.lines().skip_while(|line| !line.contains("def is_rdna")).nth(1).unwrap();
    assert!(rdna.contains("\"gfx1151\"") && rdna.contains("\"gfx1201\""), "{rdna}");
}
