//! Renders a spec in the form that Fedora's dist-git expects: rpmautospec's macros, patches instead
//! of edits, and sources by URL. It does not make the patches or write files.

use super::error::SpecError;
use super::escape::escape;
use super::history::Release;
use super::render::{Form, Rendered, render_form, source_url};
use crate::digest::Sha256;
use crate::sources;
use crate::stack::Stack;
use crate::workspace::{Component, Pin, Source};

/// The start of the comment with which `_shared/header.tera` and generated templates begin.
const HEADER: &str = "# Rendered by rocmrpm";

/// A patch, and what the spec states about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchNote {
    /// The file name.
    pub file: String,
    /// The comment above its `Patch:` line, without `#`.
    pub lines: Vec<String>,
}

/// Renders a component's spec for dist-git. `patches` are the component's own patches and those that
/// replace its edits, in the order in which they apply.
pub fn render_dist_git(
    stack: &Stack<'_>,
    component: &Component,
    patches: &[PatchNote],
) -> Result<Rendered, SpecError> {
    let version = &stack.workspace.pin(component).version;
    let is_own = |note: &&PatchNote| {
        component.patches_for(version).any(|patch| patch.file_name == note.file)
    };
    let edits: Vec<&str> =
        patches.iter().filter(|note| !is_own(note)).map(|note| note.file.as_str()).collect();
    // rpmautospec derives both from the history of the dist-git repository.
    let release = Release {
        release: "%autorelease".to_owned(),
        changelog: "%autochangelog".to_owned(),
        dirty: false,
        seconds: 0,
    };
    let form =
        Form { release, edit_patches: Some(&edits), source_url: dist_git_url, source_comment };
    let rendered = render_form(stack, component, form)?;
    let text = with_notes(without_header(&rendered.text), patches);
    Ok(Rendered { digest: Sha256::of_bytes(&text), text, ..rendered })
}

/// Returns the value of a source's line, with Fedora's macro for files on the Python package index.
fn dist_git_url(pin: &Pin) -> String {
    let file = sources::file_name(pin);
    let stem = file.strip_suffix(".tar.gz").and_then(|stem| stem.rsplit_once('-'));
    match (&pin.source, stem) {
        (Source::Sdist { .. }, Some((project, version))) => {
            format!("%{{pypi_source {project} {version}}}")
        }
        _ => source_url(pin),
    }
}

/// Returns the comment of a source without a URL: how to make it.
fn source_comment(pin: &Pin) -> Vec<String> {
    let (file, dir) = (sources::file_name(pin), sources::source_dir(pin));
    match &pin.source {
        Source::Url { .. } | Source::Sdist { .. } => Vec::new(),
        Source::Git { url, commit, submodules, paths } => {
            let commit = commit.as_deref().unwrap_or_default();
            let url = sources::shown_url(url);
            let mut lines = vec![
                format!("Upstream's commit {commit}, packed with:"),
                format!("  git clone {url} {dir} && git -C {dir} checkout {commit}"),
            ];
            if *submodules {
                lines.push(format!("  git -C {dir} submodule update --init --recursive"));
            }
            let of = |path: &String| format!("{dir}/{path}");
            let packed: Vec<String> = paths.iter().map(of).collect();
            let packed = if packed.is_empty() { dir.clone() } else { packed.join(" ") };
            lines.push(format!("  tar --exclude-vcs -czf {file} {packed}"));
            lines
        }
        Source::Crates { lock_file, .. } => {
            vec![format!("The crates that {lock_file} names, packed after `cargo vendor`.")]
        }
        Source::Wheel { .. } => vec!["A wheel from the Python package index.".to_owned()],
        Source::Folder { .. } => vec![format!("The folder {dir}, packed with tar.")],
    }
}

/// Removes the comment that names the template as the place to edit.
fn without_header(text: &str) -> &str {
    if !text.starts_with(HEADER) {
        return text;
    }
    let mut rest = text;
    while let Some((line, below)) = rest.split_once('\n').filter(|(line, _)| line.starts_with('#'))
    {
        rest = below;
        if line.ends_with('.') {
            break;
        }
    }
    rest.trim_start_matches('\n')
}

/// Writes the notes above the lines of their patches.
fn with_notes(text: &str, patches: &[PatchNote]) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let file = line.starts_with("Patch").then(|| line.split_whitespace().last()).flatten();
        let note = patches.iter().find(|note| Some(note.file.as_str()) == file);
        for comment in note.iter().flat_map(|note| &note.lines) {
            out.push_str(&format!("# {}\n", escape(comment)));
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ComponentName;

    fn pin(version: &str, source: Source) -> Pin {
        Pin::new(ComponentName::parse("demo").unwrap(), version, source)
    }

    #[test]
    fn removes_only_the_header() {
        let header = include_str!("../../../../specs-templates/_shared/header.tera");
        assert!(header.starts_with(HEADER));
        for (text, rest) in [
            (format!("{header}# Other\nName: x\n"), "# Other\nName: x\n"),
            ("# Rendered by rocmrpm; do not edit. Make\n# it.\n\nName: x\n".into(), "Name: x\n"),
            ("# Other.\nName: x\n".into(), "# Other.\nName: x\n"),
        ] {
            assert_eq!(without_header(&text), rest);
        }
    }

    #[test]
    fn writes_notes_above_patches() {
        let notes = [PatchNote { file: "2-b.patch".into(), lines: vec!["100% of it".into()] }];
        let text = "Patch: 1-a.patch\nPatch2:   2-b.patch\nPatches 2-b.patch x\n";
        let expected =
            "Patch: 1-a.patch\n# 100%% of it\nPatch2:   2-b.patch\nPatches 2-b.patch x\n";
        assert_eq!(with_notes(text, &notes), expected);
    }

    #[test]
    fn sources_have_a_url_or_a_recipe() {
        let sdist =
            pin("2.8.3.post2", Source::Sdist { project: "Flash-Attn".into(), sha256: None });
        assert_eq!(dist_git_url(&sdist), "%{pypi_source flash_attn 2.8.3.post2}");
        assert_eq!(source_comment(&sdist), Vec::<String>::new());
        let url = pin("1", Source::Url { url: "https://h/v1.tar.gz".into(), sha256: None });
        assert_eq!(dist_git_url(&url), "https://h/v1.tar.gz");
        let git = pin(
            "1",
            Source::Git {
                url: "https://h/demo".into(),
                commit: Some("abc".into()),
                submodules: true,
                paths: vec!["a".into(), "b".into()],
            },
        );
        assert_eq!(dist_git_url(&git), "demo-1.tar.gz");
        assert_eq!(
            source_comment(&git),
            [
                "Upstream's commit abc, packed with:",
                "  git clone https://h/demo demo-1 && git -C demo-1 checkout abc",
                "  git -C demo-1 submodule update --init --recursive",
                "  tar --exclude-vcs -czf demo-1.tar.gz demo-1/a demo-1/b",
            ]
        );
    }
}
