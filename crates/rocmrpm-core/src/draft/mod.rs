//! Drafts the component of an upstream project: its spec template, its component.toml, and what its
//! pin needs in addition, from what the source states. Does not write files.

mod addition;
mod autotools;
mod calls;
mod cargo;
mod cmake;
mod compiled;
mod installed;
mod license;
mod makefile;
mod meson;
mod native;
mod project;
mod python;
mod summary;
mod wheel;

use std::path::Path;

use crate::audit::{self, Point};
use crate::closure::generate::rust;
use crate::closure::generate::text::{summary, wrapped};
use crate::error::Error;
use crate::lint_rules::PLACEHOLDER;
use crate::sources::{CargoProject, Fetcher, Tree, source_dir};
use crate::text::visible;
use crate::workspace::pin::{Pin, Source};
pub use addition::{DraftedComponent, NewComponent, NewSource};
use license::License;

/// The drafted files of a component.
#[derive(Debug, Default)]
pub struct Draft {
    /// The file name of the spec template.
    pub file_name: String,
    /// The spec template.
    pub template: String,
    /// The text of component.toml.
    pub component: String,
    /// The top folder of the archive, if it does not follow from its file name.
    pub top_folder: Option<String>,
    /// The path of the `Cargo.lock` whose crates the build needs.
    pub cargo_lock: Option<String>,
    /// What the packager must decide or review.
    pub warnings: Vec<String>,
}

/// Drafts the component of a resolved pin for an architecture in rpm's spelling.
pub fn draft(pin: &Pin, arch: &str, fetcher: &Fetcher<'_>) -> Result<Draft, Error> {
    if let Source::Wheel { .. } = pin.source {
        return wheel::draft(pin, arch, fetcher);
    }
    let tree = fetcher.tree(pin)?;
    let is_python = matches!(pin.source, Source::Sdist { .. })
        || ["PKG-INFO", "pyproject.toml", "setup.py"].iter().any(|f| tree.dir.join(f).is_file());
    let mut draft = match is_python {
        true => python::draft(pin, &tree, arch, fetcher)?,
        false => compiled::draft(pin, &tree, arch, fetcher)?,
    };
    draft.top_folder = tree.fetched.top_folder.clone().filter(|name| *name != source_dir(pin));
    let open = open_points(&tree, pin, draft.cargo_lock.as_deref())?;
    draft.component += &downloads(pin, &open);
    if !open.is_empty() {
        let count = open.len();
        draft.warnings.push(format!(
            "the build would download something in {count} place{}; component.toml lists {}",
            if count == 1 { "" } else { "s" },
            if count == 1 { "it" } else { "them" },
        ));
    }
    Ok(draft)
}

/// Returns the downloads in build scripts that neither the source nor the vendored crates satisfy.
fn open_points(tree: &Tree, pin: &Pin, cargo_lock: Option<&str>) -> Result<Vec<Point>, Error> {
    let mut points = audit::of_upstream(&tree.dir, pin)?;
    points.retain(|point| point.satisfied.is_none() && Some(point.file.as_str()) != cargo_lock);
    Ok(points)
}

/// Returns the comment in component.toml about downloads.
fn downloads(pin: &Pin, open: &[Point]) -> String {
    if open.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n# Builds have no network, but the build scripts download something here. Satisfy each, or\n\
         # declare in an `[[offline]]` why the build does not reach it; `rocmrpm audit\n\
         # {}` checks that.\n",
        pin.component
    );
    for point in open.iter().take(LISTED) {
        let what = point.fetches.as_deref().unwrap_or(&point.text);
        let what: String = visible(what.trim()).chars().take(80).collect();
        out +=
            &format!("# - {}:{}: {what}\n#   {}\n", visible(&point.file), point.line, point.help);
    }
    if let Some(more) = open.len().checked_sub(LISTED).filter(|more| *more > 0) {
        out += &format!("# - and {more} more, which the audit lists\n");
    }
    out
}

/// The maximum number of downloads that component.toml lists.
const LISTED: usize = 10;

/// Returns the start of component.toml.
fn component_toml(compiled: bool) -> String {
    let memory = if compiled { "memory-per-job = \"2 GB\"\n" } else { "" };
    format!("# All keys: see docs/reference/files.md.\n{memory}")
}

/// Returns a tag line of a spec.
fn tag(tag: &str, value: &str) -> String {
    format!("{:<15} {value}\n", format!("{tag}:"))
}

/// Returns lines of a comment.
fn comment(text: &str) -> String {
    wrapped(&visible(text).replace("<@", "< @").replace("<{", "< {").replace("<#", "< #"))
        .lines()
        .map(|line| format!("# {}\n", line.replace('%', "%%")))
        .collect()
}

/// Returns the line `License:` with its comment, and adds what is uncertain to the warnings.
fn license_lines(license: &License, warnings: &mut Vec<String>) -> String {
    let License { expression, problem } = license;
    let mut out = String::new();
    if let Some(problem) = problem {
        out += &comment(&format!("{}{}.", problem[..1].to_uppercase(), &problem[1..]));
        warnings.push(format!("check `License:`: {problem}"));
    }
    let missing = format!("{PLACEHOLDER}: an SPDX expression");
    out + &tag("License", expression.as_deref().unwrap_or(&missing))
}

/// Adds the licenses of the crates that a cargo project links.
fn with_linked(
    license: &mut License,
    project: &CargoProject,
    pin: &Pin,
    arch: &str,
    fetcher: &Fetcher<'_>,
) {
    let Some(stated) = license.expression.clone() else { return };
    let crates = fetcher.linked_crates(pin, project, arch).map_err(|error| error.to_string());
    match crates.and_then(|crates| rust::with_crates(&stated, &crates)) {
        Ok(all) => license.expression = Some(all),
        Err(reason) => {
            let why = format!("it does not cover the linked crates: {reason}");
            let both = license.problem.take().into_iter().chain([why]);
            license.problem = Some(both.collect::<Vec<_>>().join("; "));
        }
    }
}

/// Returns the license files of a source with their texts.
fn license_texts(root: &Path, files: &[String]) -> Vec<(String, String)> {
    let text = |file: &String| {
        let bytes = crate::sources::read_inside(root, file).ok().flatten()?;
        Some((file.clone(), String::from_utf8_lossy(&bytes).into_owned()))
    };
    files.iter().filter_map(text).collect()
}

/// Returns the head of a template: everything that does not depend on the language.
fn head(name: &str, stated: &str, license: &str, url: Option<&str>, missing: &str) -> String {
    let mut out = "<@ include \"_shared/header.tera\" @>\n".to_owned();
    out += &tag("Name", name);
    out += &tag("Version", "<{ version }>");
    out += &tag("Release", "<{ release }>");
    let stated = if stated.is_empty() { missing.to_owned() } else { summary(stated, name) };
    out += &tag("Summary", &stated);
    out += license;
    url.into_iter().for_each(|url| out += &tag("URL", url));
    out += "<{ source_lines }>\n\
            <@ for patch in patches @>Patch:          <{ patch }>\n<@ endfor @>\n";
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_safe_in_templates() {
        assert_eq!(comment("100% <{ x }>"), "# 100%% < { x }>\n");
    }

    #[test]
    fn unknown_license_is_a_placeholder_with_a_warning() {
        let mut warnings = Vec::new();
        let license = License { expression: None, problem: Some("nothing states it".into()) };
        let lines = license_lines(&license, &mut warnings);
        assert_eq!(lines, "# Nothing states it.\nLicense:        TODO: an SPDX expression\n");
        assert_eq!(warnings, ["check `License:`: nothing states it"]);
    }
}
