//! Formats `requirements.lock`, `constraints.txt`, `pip.conf` and `uv.toml`. The output is
//! deterministic and contains no credentials in URLs. It does not write files.

use std::path::Path;

use super::{Pinned, Set};
use crate::process::quote;
use crate::text::{file_url, visible};

/// Pairs of file name and text.
pub type Texts = Vec<(&'static str, String)>;

/// Returns the files for an absolute folder, ordered so that files come before those that refer to
/// them. `constraints_only` omits the lock.
pub fn texts(set: &Set<'_>, folder: &Path, constraints_only: bool) -> Texts {
    let mut texts = vec![("constraints.txt", constraints(set, folder))];
    if !constraints_only {
        texts.push(("requirements.lock", lock(set, folder)));
    }
    texts.push(("pip.conf", pip_conf(set, folder)));
    texts.push(("uv.toml", uv_toml(set, folder)));
    texts
}

fn path(folder: &Path, name: &str) -> String {
    quote(&folder.join(name).to_string_lossy())
}

fn head(set: &Set<'_>, what: &str) -> String {
    let Set { stack, chroot, environment, .. } = set;
    format!(
        "# {what} of the stack {}, built for {}: Python {} on {}.\n\
         # Written by `rocmrpm requirements`; changes are lost at its next run.\n#\n",
        visible(stack),
        visible(chroot),
        environment.python(),
        environment.arch()
    )
}

fn lock(set: &Set<'_>, folder: &Path) -> String {
    let mut text = head(set, "All distributions");
    let (pip_conf, uv_toml, lock) =
        (path(folder, "pip.conf"), path(folder, "uv.toml"), path(folder, "requirements.lock"));
    // Installers also require digests for dependencies, which the lock does not contain.
    let no_deps = if set.open.is_empty() { "" } else { " --no-deps" };
    text += &format!(
        "# Install exactly this, nothing else:\n\
         #   PIP_CONFIG_FILE={pip_conf} pip install --require-hashes{no_deps} -r {lock}\n\
         #   uv --config-file {uv_toml} pip install --require-hashes{no_deps} -r {lock}\n\
         # Install this and remove everything else:\n\
         #   uv --config-file {uv_toml} pip sync --require-hashes {lock}\n"
    );
    text += &open(set);
    for Pinned { name, version, hashes, .. } in &set.pins {
        text += &format!("{name}=={version}");
        for hash in hashes {
            text += &format!(" \\\n    --hash={hash}");
        }
        text.push('\n');
    }
    text
}

fn constraints(set: &Set<'_>, folder: &Path) -> String {
    let mut text = head(set, "The versions");
    let constraints = path(folder, "constraints.txt");
    text += &format!(
        "# With these, whatever is installed has these versions and no others:\n\
         #   pip install --index-url {url} -c {constraints} NAME\n\
         #   uv pip install --default-index {url} -c {constraints} NAME\n\
         # pip.conf and uv.toml beside this file have the same in them.\n",
        url = quote(set.index_url)
    );
    text += &open(set);
    for Pinned { name, version, .. } in &set.pins {
        text += &format!("{name}=={version}\n");
    }
    text
}

/// Lists the requirements that are not pinned.
fn open(set: &Set<'_>) -> String {
    if set.open.is_empty() {
        return String::new();
    }
    let mut text =
        "#\n# Required from outside, and not pinned here (`rocmrpm requirements --resolve` does):\n"
            .to_owned();
    for open in &set.open {
        text += &format!("#   {}  for {}\n", visible(&open.requirement), open.wheels.join(", "));
    }
    text
}

fn pip_conf(set: &Set<'_>, folder: &Path) -> String {
    let mut text = head(set, "Settings for pip");
    text += &format!(
        "# Use it once, or copy it to a virtual environment's folder:\n\
         #   PIP_CONFIG_FILE={} pip install NAME\n#\n\
         # pip takes all indexes for one and the highest version of all. What keeps it from builds for other\n\
         # GPUs are the constraints: each names a version with this stack's label, which is nowhere else.\n\
         [global]\nindex-url = {}\n",
        path(folder, "pip.conf"),
        set.index_url
    );
    if !set.outside.is_empty() {
        text += &note_on_credentials(set);
        text += "extra-index-url =\n";
        for index in set.outside {
            text += &format!("    {}\n", index.shown);
        }
    }
    text + &format!("constraint = {}\n", constraint_value(folder))
}

/// Formats a path for pip's configuration: lists are separated by spaces, so a path that contains
/// one is written as a URL.
fn constraint_value(folder: &Path) -> String {
    let path = folder.join("constraints.txt");
    match path.to_str() {
        Some(text) if !text.contains(char::is_whitespace) => text.to_owned(),
        _ => file_url(&path),
    }
}

fn note_on_credentials(set: &Set<'_>) -> String {
    match set.outside.iter().any(|index| index.shown != index.url) {
        true => "# An index below wants a user and a password; they are looked up in ~/.netrc.\n".into(),
        false => String::new(),
    }
}

fn uv_toml(set: &Set<'_>, folder: &Path) -> String {
    let mut text = head(set, "Settings for uv");
    text += &format!(
        "# Use it once, or copy it beside a project's pyproject.toml:\n\
         #   uv --config-file {} pip install NAME\n#\n\
         # uv takes a distribution from the first index that has it, so that the stack's own come from its\n\
         # index alone; the constraints keep to its versions.\n\
         index-strategy = \"first-index\"\nconstraint-dependencies = [\n",
        path(folder, "uv.toml")
    );
    for Pinned { name, version, .. } in &set.pins {
        text += &format!("    {},\n", toml(&format!("{name}=={version}")));
    }
    text += &format!("]\n\n[[index]]\nname = \"stack\"\nurl = {}\n", toml(set.index_url));
    if set.outside.is_empty() {
        return text + "default = true\n";
    }
    for (at, index) in set.outside.iter().enumerate() {
        text.push('\n');
        if at == 0 {
            text += &note_on_credentials(set);
        }
        text += &format!("[[index]]\nname = \"outside-{}\"\nurl = {}\n", at + 1, toml(&index.shown));
    }
    // uv uses the default index last regardless of its position; without one it adds its own.
    text + "default = true\n"
}

fn toml(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}
