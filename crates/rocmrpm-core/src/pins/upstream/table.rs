//! Which files of which versions of which component are read, and by what. Upstream moves
//! its files: a version for which a row holds must have the file.
//!
//! Sources: the vLLM sdists 0.10.0 to 0.33.0; the trees of pytorch/pytorch, ROCm/pytorch and
//! triton-lang/triton at their release tags.

use super::files::{self, Reader};
use crate::workspace::VersionRange;

/// A file of upstream's that is read.
pub struct UpstreamFile {
    /// The component whose source has it.
    pub component: &'static str,
    /// The path below the source's top folder.
    pub path: &'static str,
    /// The versions that have it.
    pub versions: &'static str,
    /// Whether each of these versions has it; some files are in forks alone.
    pub always: bool,
    /// The components that it names.
    pub about: &'static [&'static str],
    /// Reads it.
    pub(super) read: Reader,
}

impl UpstreamFile {
    /// Returns whether a version has this file.
    pub fn holds(&self, version: &str) -> bool {
        VersionRange::parse(self.versions).is_some_and(|range| range.holds(version))
    }
}

const FAMILY: &[&str] = &["torch", "torchvision", "torchaudio", "triton", "amdsmi"];

const fn file(
    component: &'static str,
    path: &'static str,
    versions: &'static str,
    about: &'static [&'static str],
    read: Reader,
) -> UpstreamFile {
    UpstreamFile { component, path, versions, always: true, about, read }
}

const fn maybe(row: UpstreamFile) -> UpstreamFile {
    UpstreamFile { always: false, ..row }
}

/// The table.
#[rustfmt::skip]
static FILES: &[UpstreamFile] = &[
    file("vllm", "pyproject.toml", ">=0.10", &["torch", "python"], files::pyproject),
    file("vllm", "requirements/rocm-build.txt", ">=0.10, <0.20", FAMILY, files::requirements),
    file("vllm", "requirements/build/rocm.txt", ">=0.20", FAMILY, files::requirements),
    maybe(file("vllm", "requirements/build/rock.txt", ">=0.33", FAMILY, files::requirements)),
    file("vllm", "requirements/common.txt", ">=0.10", &[], files::mentions),
    file("vllm", "requirements/rocm.txt", ">=0.10", &[], files::mentions),
    file("vllm", "CMakeLists.txt", ">=0.10", &["torch"], files::vllm_cmake),
    file("vllm", "cmake/external_projects/triton_kernels.cmake", ">=0.12", &["triton-kernels"], files::triton_kernels),
    maybe(file("vllm", "docker/Dockerfile.rocm_base", ">=0.10", &[], files::dockerfile)),
    file("vllm", "rust/Cargo.lock", ">=0.22", &[], files::cargo_lock),
    file("vllm", "rust-toolchain.toml", ">=0.22", &[], files::rust_toolchain),
    file("torch", "version.txt", ">=2.0", &[], files::torch_version),
    file("torch", "pyproject.toml", ">=2.9", &["python"], files::pyproject),
    file("torch", ".ci/docker/triton_version.txt", ">=2.4", &["triton"], files::triton_version),
    file("torch", ".ci/docker/ci_commit_pins/triton.txt", ">=2.4", &[], files::triton_commit),
    maybe(file("torch", ".github/ci_commit_pins/vision.txt", ">=2.0", &[], files::vision_commit)),
    maybe(file("torch", ".github/ci_commit_pins/audio.txt", ">=2.0", &[], files::audio_commit)),
    file("torch", "cmake/External/aotriton.cmake", ">=2.7", &["aotriton"], files::aotriton),
    maybe(file("torch", "related_commits", ">=2.0", &["torchvision", "torchaudio"], files::related_commits)),
    file("triton", "setup.py", ">=3.4", &["python"], files::triton_setup),
    maybe(file("triton", "cmake/llvm-hash.txt", ">=3.0", &["llvm"], files::llvm_hash)),
    maybe(file("triton", "cmake/llvm-info.json", ">=3.0", &["llvm"], files::llvm_info)),
];

/// Returns the files of a component's version.
pub fn files_of<'a>(
    component: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'static UpstreamFile> + 'a {
    FILES.iter().filter(move |file| file.component == component && file.holds(version))
}

/// Returns the components of which files are read.
pub fn readable() -> Vec<&'static str> {
    let mut names: Vec<&str> = FILES.iter().map(|file| file.component).collect();
    names.dedup();
    names
}

#[cfg(any(test, fuzzing, feature = "testing"))]
pub(super) fn all() -> &'static [UpstreamFile] {
    FILES
}
