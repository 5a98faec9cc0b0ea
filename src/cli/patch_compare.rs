//! `rocmrpm patch compare`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context, trust};
use crate::document::Document;
use crate::error::{IoError, Kind};
use crate::lint;
use crate::patches::compare::{self, Comparison};
use crate::report::{Shell, comparison_of_patches};
use crate::spec;
use crate::stack::Stack;

/// What `rocmrpm patch compare --json` prints: what two packages change in upstream's files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PatchComparison<'a> {
    schema: &'static str,
    /// The chroot for which both specs were expanded.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// The component.
    component: &'a str,
    /// Its version.
    version: &'a str,
    /// The other package's spec.
    spec: &'a Path,
    /// The other package's version; `null` if its spec does not state it.
    spec_version: Option<&'a str>,
    /// The changes.
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl Document for PatchComparison<'_> {
    const SCHEMA: &'static str = "rocmrpm/patch-compare/1";
}

pub(super) fn run(args: &args::PatchCompare, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let component = workspace.component(&args.component)?;
    let pin = workspace.pin(component);
    let theirs = trust::spec_in(&args.other)?;
    let name = theirs.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes =
        fs_err::read(&theirs).map_err(IoError::doing(format!("read `{}`", theirs.display())))?;
    let text = String::from_utf8_lossy(&bytes);
    let code = trust::folder_of_spec(&theirs, &workspace.root);
    let folder = theirs.parent().unwrap_or(&workspace.root);
    let sections = lint::expand(&text, &name, Some(folder), &workspace.chroot, code)?;
    let other = compare::of_spec(&name, &text, &sections, folder)?;

    let stack = Stack::new(&workspace)?;
    // Without the commands that make the edits, which are compared as such.
    let rendered = spec::render_dist_git(&stack, component, &[])?;
    let own = (rendered.text.as_str(), rendered.file_name.as_str());
    let own = lint::expand(own.0, own.1, None, &workspace.chroot, &workspace.root)?;
    let ours =
        compare::of_component(&workspace, component, pin, (rendered.file_name.as_str(), &own))?;
    let comparison = compare::compare(other, ours);
    let spec_version = sections.value("version");
    if args.json {
        shell.json(&PatchComparison {
            schema: PatchComparison::SCHEMA,
            chroot: &workspace.chroot.name,
            pins: &workspace.pins.name,
            component: component.name.as_str(),
            version: &pin.version,
            spec: &theirs,
            spec_version,
            comparison: &comparison,
        })?;
    } else {
        let ours = format!("{} {}", component.name, pin.version);
        let theirs = format!("{name} {}", spec_version.unwrap_or_default());
        shell.data(comparison_of_patches(&ours, theirs.trim_end(), &comparison, args.verbose))?;
    }
    Ok(if comparison.is_same() { 0 } else { Kind::Findings.exit_code() })
}
