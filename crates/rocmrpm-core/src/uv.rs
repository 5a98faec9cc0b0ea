//! Runs `uv pip compile` isolated from the user's settings, and interprets its exit. It does not
//! interpret the resolution.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::digest::Sha256;
use crate::error::{Diagnose as _, Diagnosis, IoError};
use crate::files;
use crate::machine;
use crate::process::{self, Command, ProcessError};
use crate::sources;
use crate::text::{SEGMENT, escaped, file_url, percent_encode};
use python_packaging::environment::Environment;

/// The glibc versions for which uv has a platform, such as `x86_64-manylinux_2_28` (uv 0.11 to
/// 0.13, `uv pip compile --help`).
const PLATFORMS: [(u32, u32); 11] = [
    (2, 28),
    (2, 31),
    (2, 32),
    (2, 33),
    (2, 34),
    (2, 35),
    (2, 36),
    (2, 37),
    (2, 38),
    (2, 39),
    (2, 40),
];

/// The variable that names the GPU target or family for ROCm's Python packages.
pub(crate) const TARGET: &str = "ROCM_SDK_TARGET_FAMILY";

/// The file name of uv's settings.
const CONFIG: &str = "uv.toml";

/// Number of uv's last lines that an error shows.
const SHOWN_LINES: usize = 20;
/// Number of lines to search: a derivation names every distribution involved.
const SEARCHED_LINES: usize = 400;

/// A failed resolution.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no solution, or an index was unavailable.
    Refused {
        /// uv's output, without passwords; [`last`] selects the lines to show.
        reported: Vec<String>,
        /// The reason, as far as it can be determined.
        why: FailureReason,
    },
    /// uv was not found or could not run.
    Process(ProcessError),
    /// uv's settings could not be written.
    Io(IoError),
}

/// The reason why uv failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// An index was unreachable.
    Network,
    /// No set of versions satisfies all requirements.
    Unsatisfiable,
    /// Anything else.
    Other,
}

/// Runs `uv pip compile` in a folder and returns its stdout. The first index that has a
/// distribution takes precedence; the last index is the default. uv runs the build scripts of
/// source distributions, which the workspace in `root` selects.
pub(crate) fn compile(
    root: &Path,
    environment: &Environment,
    folder: &Path,
    requirements: String,
    indexes: &[String],
    args: &[&str],
) -> Result<String, Failure> {
    compile_for(root, environment, folder, requirements, (indexes, ""), args)
}

/// Like [`compile`], with the GPU target or family for which source distributions choose their
/// requirements.
pub(crate) fn compile_for(
    root: &Path,
    environment: &Environment,
    folder: &Path,
    requirements: String,
    (indexes, target): (&[String], &str),
    args: &[&str],
) -> Result<String, Failure> {
    // URLs can contain passwords. Only this user can read the file, but anyone can read arguments.
    let config = folder.join(CONFIG);
    fs::write(&config, settings(indexes))
        .map_err(|error| Failure::Io(IoError::doing("write settings for uv")(error)))?;
    let mut uv = Command::new("uv")
        .runs_code_of(root)
        .args(["--config-file", CONFIG, "--color", "never", "pip", "compile", "-", "--quiet"])
        .args(["--no-header", "--index-strategy", "first-index"])
        .args([
            "--python-version",
            &environment.python(),
            "--python-platform",
            &platform(environment),
        ])
        .args(args)
        .cwd(folder)
        .env("UV_PYTHON_DOWNLOADS", "never")
        .stdin(requirements);
    if !target.is_empty() {
        // uv caches what a source distribution chose for another target.
        uv = uv.env(TARGET, target).arg("--no-cache");
    }
    // Remove everything else that could add indexes or versions. UV_TORCH_BACKEND selects CUDA
    // builds.
    for name in [
        "UV_INDEX",
        "UV_DEFAULT_INDEX",
        "UV_INDEX_URL",
        "UV_EXTRA_INDEX_URL",
        "UV_FIND_LINKS",
        "UV_NO_INDEX",
        "UV_CONSTRAINT",
        "UV_OVERRIDE",
        "UV_EXCLUDE",
        "UV_EXCLUDE_NEWER",
        "UV_PRERELEASE",
        "UV_RESOLUTION",
        "UV_TORCH_BACKEND",
    ] {
        uv = uv.env_remove(name);
    }
    let finished = uv.run().map_err(Failure::Process)?;
    if finished.success() {
        return Ok(String::from_utf8_lossy(&finished.stdout).into_owned());
    }
    let mut reported = process::last_lines(&finished.stderr, SEARCHED_LINES);
    for password in indexes.iter().flat_map(|index| sources::password(index)) {
        for line in &mut reported {
            *line = line.replace(&password, "***");
        }
    }
    let output = String::from_utf8_lossy(&finished.stderr);
    let mentions = |words: &[&str]| words.iter().any(|words| output.contains(words));
    let why = match () {
        () if mentions(&[
            "Failed to fetch",
            "error sending request",
            "Could not connect",
            "Request failed",
        ]) =>
        {
            FailureReason::Network
        }
        () if mentions(&["No solution found"]) => FailureReason::Unsatisfiable,
        () => FailureReason::Other,
    };
    Err(Failure::Refused { reported, why })
}

/// A virtual environment with the distribution's Python.
pub(crate) struct Install<'a> {
    /// Its folder.
    pub venv: &'a Path,
    /// The folder with the files to install from.
    pub files: &'a Path,
    /// The file that gets uv's output.
    pub log: &'a Path,
    /// The GPU target or family for which source distributions choose their requirements.
    pub target: &'a str,
}

impl Install<'_> {
    /// Installs requirements with exact versions and digests, without the network. Creates the
    /// environment if it is missing. `root` is the workspace, which selects the build scripts that
    /// source distributions run.
    pub fn add(&self, root: &Path, requirements: String) -> Result<(), ProcessError> {
        let uv = |args: &[&str]| {
            let uv = Command::new("uv").args(["--no-config", "--offline", "--no-cache"]).args(args);
            let home = self.files;
            uv.isolated(home).cwd(home).env(TARGET, self.target).log_to(self.log).runs_code_of(root)
        };
        if !self.venv.is_dir() {
            succeed(uv(&["venv", "--no-project", "--python", machine::PYTHON]).arg(self.venv))?;
        }
        if requirements.is_empty() {
            return Ok(());
        }
        let install = uv(&["pip", "install", "--no-deps", "--require-hashes", "--no-index"])
            .args(["--no-build-isolation", "--find-links", ".", "--requirements", "-", "--python"])
            .arg(self.venv);
        succeed(install.stdin(requirements))
    }
}

fn succeed(command: Command) -> Result<(), ProcessError> {
    command.output().map(drop)
}

/// Returns the index settings (uv's settings, "index"). uv caches pages of the default index for
/// ten minutes and its files indefinitely, as PyPI's own headers request. Mirrors often omit these
/// headers, and resolving a closure can take a second run of uv, which would then fetch every page
/// and file again.
fn settings(indexes: &[String]) -> String {
    let mut text = String::new();
    for (at, index) in indexes.iter().enumerate() {
        let url = toml::Value::from(index.as_str());
        text += &format!("[[index]]\nurl = {url}\n");
        if at + 1 == indexes.len() {
            text += "default = true\n";
            text += "cache-control = { api = \"max-age=600\", files = \"max-age=365000000, immutable\" }\n";
        }
    }
    text
}

/// Returns the last lines of uv's output to show in an error.
pub(crate) fn last(mut reported: Vec<String>) -> Vec<String> {
    reported.split_off(reported.len().saturating_sub(SHOWN_LINES))
}

/// Returns the diagnosis of an error from running uv, with an additional way to install it.
pub(crate) fn diagnosis(error: &ProcessError) -> Diagnosis {
    match error {
        ProcessError::Missing { .. } => {
            error.diagnosis().with_help("or install it with pip: `pip install uv`")
        }
        error => error.diagnosis(),
    }
}

/// Returns uv's platform for the newest known glibc that is not newer than the environment's.
fn platform(environment: &Environment) -> String {
    let glibc = environment.glibc().unwrap_or((2, 28));
    let known = PLATFORMS.iter().rev().find(|known| **known <= glibc).unwrap_or(&PLATFORMS[0]);
    format!("{}-manylinux_{}_{}", environment.arch(), known.0, known.1)
}

/// A local index for uv that represents the stack's own distributions.
pub(crate) struct StandIn {
    simple: PathBuf,
}

impl StandIn {
    /// Returns an empty index below a folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { simple: folder.join("simple") }
    }

    pub fn url(&self) -> String {
        file_url(&self.simple)
    }

    /// Creates and returns the folder for a project's files.
    pub fn folder(&self, project: &str) -> std::io::Result<PathBuf> {
        let folder = self.simple.join(project);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Writes a project's page with the names and digests of files in its folder.
    pub fn page(&self, project: &str, files: &[(String, Sha256)]) -> std::io::Result<()> {
        let mut page = "<!DOCTYPE html>\n".to_owned();
        for (name, digest) in files {
            let url = percent_encode(name, SEGMENT);
            page += &format!("<a href=\"{url}#sha256={digest}\">{}</a>\n", escaped(name));
        }
        files::write_atomically(&self.folder(project)?.join("index.html"), page)
    }
}

/// Returns the name of a wheel with the platform tag plain `linux`: uv does not know every version
/// of the C library.
pub(crate) fn plain_platform(file: &str, environment: &Environment) -> String {
    match file.trim_end_matches(".whl").rsplit_once('-') {
        Some((rest, platform)) if platform != "any" => {
            format!("{rest}-linux_{}.whl", environment.arch())
        }
        _ => file.to_owned(),
    }
}

/// Returns a wheel that contains only METADATA. `stem` is the name and version in its file name.
pub(crate) fn metadata_wheel(stem: &str, metadata: &str) -> std::io::Result<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (file, text) in [
        ("METADATA", metadata),
        (
            "WHEEL",
            "Wheel-Version: 1.0\nGenerator: rocmrpm\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        ("RECORD", ""),
    ] {
        archive
            .start_file(format!("{stem}.dist-info/{file}"), options)
            .map_err(std::io::Error::other)?;
        archive.write_all(text.as_bytes())?;
    }
    Ok(archive.finish().map_err(std::io::Error::other)?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_platforms_known_to_uv() {
        let named = |glibc| platform(&Environment::new("3.14", "x86_64", glibc).unwrap());
        assert_eq!(named(Some((2, 42))), "x86_64-manylinux_2_40");
        assert_eq!(named(Some((2, 30))), "x86_64-manylinux_2_28");
    }

    #[test]
    fn stack_wheels_use_plain_linux_tag() {
        let here = Environment::new("3.14", "x86_64", None).unwrap();
        assert_eq!(
            plain_platform("a-1-cp314-cp314-manylinux_2_42_x86_64.whl", &here),
            "a-1-cp314-cp314-linux_x86_64.whl"
        );
        assert_eq!(plain_platform("a-1-py3-none-any.whl", &here), "a-1-py3-none-any.whl");
    }
}
