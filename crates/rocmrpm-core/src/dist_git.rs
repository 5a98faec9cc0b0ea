//! Writes a component as a package of Fedora's dist-git: spec, patches, sources and their checksums in
//! one folder. It does not submit anything.

use std::path::PathBuf;

use serde::Serialize;

use crate::digest::sha512_of_file;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::patches::{self, EditPatch};
use crate::process::check_stop;
use crate::sources::{self, Fetcher};
use crate::spec::{PatchNote, render_dist_git};
use crate::stack::Stack;
use crate::workspace::{Component, Patch, Source, Workspace};

/// The folder of Fedora's own ROCm. A provider with another one is not Fedora's.
const FEDORA_PREFIX: &str = "/usr";

/// A package in the form of dist-git.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistGitPackage {
    /// The component.
    pub component: String,
    /// The version.
    pub version: String,
    /// The folder with all files.
    pub folder: PathBuf,
    /// The file name of the spec.
    pub spec: String,
    /// The file names of the patches, in the order in which they apply.
    pub patches: Vec<String>,
    /// The sources, in the order of the spec.
    pub sources: Vec<SourceFile>,
    /// What a reviewer would object to.
    pub remarks: Vec<String>,
}

/// A source file, which dist-git stores in its lookaside cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceFile {
    /// The file name.
    pub file: String,
    /// The SHA-512 digest, as 128 hexadecimal digits.
    pub sha512: String,
}

/// Refuses a workspace whose chosen chroot is not a release of Fedora with Fedora's own ROCm.
pub fn check_chroot(workspace: &Workspace) -> Result<(), Error> {
    let (chroot, provider) = (&workspace.chroot, &workspace.provider);
    let refused = |problem: String, help: &str| {
        Err(Error::new(Kind::Config, problem).with_help(help.to_owned()))
    };
    if chroot.is_host() || !chroot.dist.starts_with(".fc") {
        let problem = format!("the chroot `{}` is not a release of Fedora", chroot.name);
        return refused(problem, "select a release of Fedora with `--chroot`");
    }
    if provider.prefix != FEDORA_PREFIX {
        let (name, provider) = (&chroot.name, &provider.name);
        let problem =
            format!("the chroot `{name}` uses ROCm of `{provider}`, which is not in Fedora");
        let help = format!("describe Fedora's own ROCm in mock-configs/rocm/{name}.toml");
        return refused(problem, &help);
    }
    Ok(())
}

/// Writes a component to `build/CHROOT/dist-git/PACKAGE/`, and replaces an earlier result.
pub fn write(
    stack: &Stack<'_>,
    component: &Component,
    fetcher: &Fetcher<'_>,
) -> Result<DistGitPackage, Error> {
    let workspace = stack.workspace;
    if let Some(reason) = stack.left_out.get(&component.name) {
        let message = format!("cannot render `{}`: {reason}", component.name);
        return Err(Error::new(Kind::Config, message));
    }
    let pin = workspace.pin(component);
    let edits = patches::from_edits(workspace, component, pin, fetcher)?;
    let own: Vec<&Patch> = component.patches_for(&pin.version).collect();
    let notes: Vec<PatchNote> =
        own.iter().copied().map(note_of).chain(edits.iter().map(note_of_edit)).collect();
    let rendered = render_dist_git(stack, component, &notes)?;
    if !edits.is_empty() && !applies_patches(&rendered.text) {
        let message = format!("the spec of `{}` does not apply patches", component.name);
        return Err(Error::new(Kind::Config, message)
            .with_help("use `%autosetup -p1` in the template's %prep"));
    }
    let package = rendered.file_name.trim_end_matches(".spec");
    let folder = workspace.build_dir().join("dist-git").join(package);
    let action = || IoError::doing(format!("write `{}`", folder.display()));
    files::remove_dir_if_there(&folder).map_err(action())?;
    fs_err::create_dir_all(&folder).map_err(action())?;
    let mut sources = Vec::new();
    for (name, source) in pin.all_sources() {
        check_stop()?;
        let fetched = fetcher.obtain(source);
        // The main source has the component's own name, whose progress line is still needed.
        if !name.is_empty() {
            fetcher.leave(&source.component);
        }
        let path = fetcher.copy_to(&fetched?, &folder)?;
        let sha512 = sha512_of_file(&path).map_err(action())?;
        sources.push(SourceFile { file: sources::file_name(source), sha512 });
    }
    for patch in own {
        let to = folder.join(&patch.file_name);
        fs_err::copy(component.dir.join(&patch.file_name), to).map_err(action())?;
    }
    for patch in &edits {
        fs_err::write(folder.join(&patch.file_name), &patch.bytes).map_err(action())?;
    }
    for (file, text) in [
        (rendered.file_name.as_str(), rendered.text.clone()),
        ("sources", checksums(&sources)),
        (".gitignore", sources.iter().map(|source| format!("/{}\n", source.file)).collect()),
    ] {
        files::write_atomically(&folder.join(file), text).map_err(action())?;
    }
    Ok(DistGitPackage {
        component: component.name.to_string(),
        version: pin.version.clone(),
        remarks: remarks(stack, component, &rendered.text),
        folder,
        spec: rendered.file_name,
        patches: notes.into_iter().map(|note| note.file).collect(),
        sources,
    })
}

/// Returns the text of dist-git's file `sources`. Source: Fedora's pyrpkg, `SourcesFile`; the digests
/// are those of `sha512sum --tag`.
fn checksums(sources: &[SourceFile]) -> String {
    let line = |source: &SourceFile| format!("SHA512 ({}) = {}\n", source.file, source.sha512);
    sources.iter().map(line).collect()
}

/// Returns whether `%prep` applies all patches as [`patches::from_edits`] made them.
fn applies_patches(spec: &str) -> bool {
    spec.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|word| ["%autosetup", "%autopatch"].contains(&word))
            && line.contains("-p1")
            && !words.any(|word| word == "-N")
    })
}

/// Returns what the spec states about a patch of the component.
fn note_of(patch: &Patch) -> PatchNote {
    let origin = if patch.origin.contains("://") { patch.origin.as_str() } else { "" };
    let lines = [patch.subject.as_str(), origin];
    let lines = lines.into_iter().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    PatchNote { file: patch.file_name.clone(), lines }
}

fn note_of_edit(patch: &EditPatch) -> PatchNote {
    let reason = patch.reason.split_whitespace().collect::<Vec<_>>().join(" ");
    PatchNote { file: patch.file_name.clone(), lines: vec![reason] }
}

/// Returns what a reviewer at Fedora would object to.
fn remarks(stack: &Stack<'_>, component: &Component, spec: &str) -> Vec<String> {
    let workspace = stack.workspace;
    let mut remarks = Vec::new();
    for (_, pin) in workspace.pin(component).all_sources() {
        let file = sources::file_name(pin);
        remarks.extend(match &pin.source {
            Source::Url { .. } | Source::Sdist { .. } => None,
            Source::Wheel { .. } => Some(format!("`{file}` is a wheel; Fedora builds from source")),
            Source::Git { .. } | Source::Folder { .. } | Source::Crates { .. } => Some(format!(
                "`{file}` has no URL, because rocmrpm packed it; use an archive that upstream publishes"
            )),
        });
    }
    if !component.requires.is_empty() {
        let names: Vec<&str> = component.requires.iter().map(|at| at.value.as_str()).collect();
        remarks.push(format!("Fedora must have its requirements first: {}", names.join(", ")));
    }
    let targets = stack.gpu_targets(component);
    let named = |target: &&crate::gpu::GpuTarget| spec.contains(target.as_str());
    if component.device_code == Some(true) && targets.iter().any(|target| named(&target)) {
        let list: Vec<&str> = targets.iter().map(|target| target.as_str()).collect();
        let theirs = match workspace.provider.gpu_macros.first() {
            Some(name) => format!("; Fedora's packages use %{{{name}}}"),
            None => String::new(),
        };
        remarks.push(format!("the spec compiles for {}{theirs}", list.join(", ")));
    }
    let is_path = |c: char| c.is_alphanumeric() || "-_/".contains(c);
    let is_named = |line: &str| line.split(|c| !is_path(c)).any(|word| word == "rocmrpm");
    let ours = spec.lines().zip(1..).filter(|(line, _)| is_named(line));
    let ours: Vec<String> = ours.map(|(_, number): (_, usize)| number.to_string()).collect();
    if !ours.is_empty() {
        remarks.push(format!("the spec names rocmrpm in line {}", ours.join(", ")));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_setups_that_apply_patches() {
        for (spec, applies) in [
            ("%prep\n%autosetup -p1 -n x", true),
            ("%prep\n%setup -q\n%autopatch -p1", true),
            ("%prep\n%autosetup -N -p1", false),
            ("%prep\n%autosetup -n x", false),
            ("%prep\n%setup -q\n# %autosetup -p1", false),
        ] {
            assert_eq!(applies_patches(spec), applies, "{spec}");
        }
    }

    #[test]
    fn writes_checksums_like_sha512sum() {
        let file = |name: &str| SourceFile { file: name.into(), sha512: "ab".into() };
        assert_eq!(checksums(&[file("a"), file("b")]), "SHA512 (a) = ab\nSHA512 (b) = ab\n");
    }
}
