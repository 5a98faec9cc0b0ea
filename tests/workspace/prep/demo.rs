//! A workspace with the component `demo`, whose source is a generated archive.

use rocmrpm::digest::Sha256;

use crate::support::Workspace;
use crate::support::archive::tar_gz;

/// The `%prep` of most components.
pub const PREP: &str = "%autosetup -p1 -n <{ source_dir }>\n<@ include \"_shared/edits.tera\" @>";

/// Returns a workspace with `demo` 1.0 and a source with these files.
pub fn demo(files: &[(&str, &str)]) -> Workspace {
    let workspace = Workspace::init();
    workspace.write("specs-templates/demo/component.toml", "");
    spec(&workspace, PREP, "true");
    pin(&workspace, "stable", "1.0", files);
    workspace
}

/// Writes the template of `demo` with this `%prep` and `%build`.
pub fn spec(workspace: &Workspace, prep: &str, build: &str) {
    let text = format!(
        "Name: demo\nVersion: <{{ version }}>\nRelease: <{{ release }}>\nSummary: Demo\nLicense: MIT\n\
         <{{ source_lines }}>\n<@ for patch in patches @>Patch: <{{ patch }}>\n<@ endfor @>\
         BuildArch: noarch\nBuildRequires: no-such-package\n\n%description\nDemo.\n\n%prep\n{prep}\n\n\
         %build\n{build}\n\n%files\n\n%changelog\n<{{ changelog }}>\n"
    );
    workspace.write("specs-templates/demo/demo.spec.tera", &text);
}

/// Creates an archive of `demo` with these files and pins it in a set.
pub fn pin(workspace: &Workspace, set: &str, version: &str, files: &[(&str, &str)]) {
    let table = source(workspace, &format!("demo-{version}"), files);
    workspace
        .write(format!("pins/{set}.toml"), format!("[demo]\nversion = \"{version}\"\n{table}"));
}

/// Creates an archive with this top folder; returns the keys of its pin.
pub fn source(workspace: &Workspace, folder: &str, files: &[(&str, &str)]) -> String {
    let bytes = tar_gz(folder, files);
    let path = workspace.holder().join(format!("{folder}.tar.gz"));
    fs_err::write(&path, &bytes).unwrap();
    let digest = Sha256::of_bytes(&bytes);
    format!("url = \"file://{}\"\nsha256 = \"{digest}\"\n", path.display())
}

/// Writes a patch of `demo` in the form of `git format-patch`.
pub fn patch(workspace: &Workspace, name: &str, versions: &str, diff: &str) {
    let versions =
        if versions.is_empty() { String::new() } else { format!("Versions: {versions}\n") };
    let text = format!(
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n\
         From: rocmrpm <rocmrpm@users.noreply.github.com>\nDate: Sat, 21 Nov 2026 12:00:00 +0000\n\
         Subject: [PATCH] Change it\n\nBecause.\n\nOrigin: own\nDrop-When: never\n{versions}---\n{diff}"
    );
    workspace.write(format!("specs-templates/demo/{name}"), &text);
}

/// Returns lines `a 1` to `a N`, some of them replaced.
pub fn lines(count: usize, changed: &[(usize, &str)]) -> String {
    let line = |n: usize| {
        changed
            .iter()
            .find(|(at, _)| *at == n)
            .map_or(format!("a {n}\n"), |(_, to)| (*to).to_owned())
    };
    (1..=count).map(line).collect()
}
