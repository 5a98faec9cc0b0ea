//! Writes the schemas that editors use to complete the keys of a workspace's TOML files.

use std::path::Path;

use crate::files;

/// The folder of the schemas in a workspace. Editors can read them without network access, and they
/// match the version of rocmrpm that wrote the files.
const FOLDER: &str = ".schemas";

/// The schemas by name.
const SCHEMAS: &[(&str, &str)] = &[
    ("chroot", include_str!("../../docs/schemas/toml/chroot.schema.json")),
    ("component", include_str!("../../docs/schemas/toml/component.schema.json")),
    ("copr-project", include_str!("../../docs/schemas/toml/copr-project.schema.json")),
    ("pins", include_str!("../../docs/schemas/toml/pins.schema.json")),
    ("pipeline", include_str!("../../docs/schemas/toml/pipeline.schema.json")),
    ("provider", include_str!("../../docs/schemas/toml/provider.schema.json")),
    ("rocmrpm", include_str!("../../docs/schemas/toml/rocmrpm.schema.json")),
    ("upstreams", include_str!("../../docs/schemas/toml/upstreams.schema.json")),
    ("watch", include_str!("../../docs/schemas/toml/watch.schema.json")),
];

/// Writes the schemas into a workspace.
pub(super) fn write(root: &Path) -> std::io::Result<()> {
    for (name, text) in SCHEMAS {
        files::write_if_changed(&root.join(FOLDER).join(format!("{name}.schema.json")), text)?;
    }
    Ok(())
}

/// Returns the text of a workspace file with the line that points editors to its schema. `path` is
/// relative to the root of the workspace.
pub(super) fn with_line(path: &str, text: &str) -> String {
    match schema(path) {
        Some(name) => {
            let up = "../".repeat(path.matches('/').count());
            format!("#:schema {up}{FOLDER}/{name}.schema.json\n\n{text}")
        }
        None => text.to_owned(),
    }
}

/// Returns the name of the schema of a file.
pub(super) fn schema(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.strip_suffix(".toml")?.split('/').collect();
    Some(match parts.as_slice() {
        ["rocmrpm"] => "rocmrpm",
        ["pipeline"] => "pipeline",
        ["upstreams"] => "upstreams",
        ["watch"] => "watch",
        ["copr", "project"] => "copr-project",
        ["pins", _] => "pins",
        ["mock-configs", _] => "chroot",
        ["mock-configs", "rocm", _] => "provider",
        ["specs-templates", .., "component"] => "component",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_get_every_schema() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/toml");
        let names = files::names_in(Path::new(folder)).unwrap();
        let given: Vec<String> =
            SCHEMAS.iter().map(|(name, _)| format!("{name}.schema.json")).collect();
        assert_eq!(given, names);
    }
}
