//! Parses the requirements of a distribution, METADATA's `Requires-Dist`, and pins those on
//! distributions of the same stack to the stack's versions. It does not determine those versions,
//! or check whether an index has them.
//!
//! Sources: "Core metadata specifications" (field `Requires-Dist`) and "Dependency specifiers"
//! (PEP 508) of the Python packaging user guide.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use pep440_rs::Version;
use pep508_rs::{MarkerEnvironment, MarkerEnvironmentBuilder, Requirement, VersionOrUrl};

use super::Pins;
use super::header::{self, Field, one_line};
use super::label::public_and_label;
use super::name::normalized;
use rocmrpm_base::text::visible;

/// Upper bound on the length of a requirement in bytes: the longest in use, with a marker for each
/// of many extras, have a few hundred.
const MAX_LENGTH: usize = 4096;
/// Upper bound on the comparisons of one marker.
const MAX_COMPARISONS: usize = 128;
/// Upper bound on the alternations of `and` and `or` in a marker: `pep508_rs` builds a decision
/// diagram, whose size can double with each.
const MAX_MIXED: usize = 6;
/// Upper bound on nested parentheses, for each of which the parser of `pep508_rs` recurses.
const MAX_DEPTH: usize = 32;

/// METADATA with pinned requirements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub text: String,
    /// Upstream's requirements that apply but that the stack's version does not satisfy, each with
    /// that version.
    pub unmet: Vec<(String, Version)>,
}

/// Returns all requirements in METADATA, in order; the error names the line.
pub fn requirements(metadata: &str) -> Result<Vec<Requirement>, String> {
    fields(metadata).map(|field| Ok(parsed(&field, &text_of(&field))?.0)).collect()
}

/// Parses one requirement, which may be untrusted.
pub fn requirement(text: &str) -> Result<Requirement, String> {
    Ok(parse(text)?.0)
}

/// Returns the normalized names of all distributions that METADATA requires.
pub fn required_names(metadata: &str) -> Result<BTreeSet<String>, String> {
    Ok(requirements(metadata)?
        .into_iter()
        .map(|requirement| requirement.name.to_string())
        .collect())
}

/// Returns the values for evaluating markers, for a CPython on Linux (dependency specifiers,
/// "Environment markers"). The patch release of the Python is unknown, so it is 0.
/// `platform.release()` and `platform.version()` describe the kernel, which is unknown.
pub fn markers((major, minor): (u32, u32), arch: &str) -> Option<MarkerEnvironment> {
    let (short, full) = (format!("{major}.{minor}"), format!("{major}.{minor}.0"));
    let markers = MarkerEnvironmentBuilder {
        implementation_name: "cpython",
        implementation_version: &full,
        os_name: "posix",
        platform_machine: arch,
        platform_python_implementation: "CPython",
        platform_release: "",
        platform_system: "Linux",
        platform_version: "",
        python_full_version: &full,
        python_version: &short,
        sys_platform: "linux",
    };
    markers.try_into().ok()
}

/// Pins every requirement on a distribution in `pins` to its version, and keeps the spelling of the
/// name, the extras and the marker. The requirements in `extra` replace upstream's requirements on
/// the same names; an upstream requirement with more extras, or with a marker, stays and gets their
/// versions. A requirement on several lines is joined into one, because pip refuses such a wheel
/// from version 24.1 on. All other bytes are unchanged.
///
/// Requirements that do not apply in `environment`, with any extras, may be unmet.
pub(super) fn rewrite(
    text: &str,
    pins: &Pins,
    extra: &[String],
    environment: Option<&MarkerEnvironment>,
) -> Result<Rewritten, String> {
    let mut added = BTreeMap::new();
    for line in extra {
        let (requirement, parts) = parse(line)?;
        added.insert(
            requirement.name.to_string(),
            Added { line, requirement, parts, missing: true },
        );
    }
    let mut rewritten = Rewritten { text: String::with_capacity(text.len()), unmet: Vec::new() };
    // The end of the text that has already been copied.
    let mut done = 0;
    for field in fields(text) {
        let value = text_of(&field);
        let (requirement, parts) = parsed(&field, &value)?;
        let name = requirement.name.to_string();
        if let (Some(version), Some(VersionOrUrl::VersionSpecifier(wanted))) =
            (pins.get(&name), &requirement.version_or_url)
            && !wanted.contains(version)
            && may_hold(&requirement, environment)
        {
            rewritten.unmet.push((one_line(&value), public_and_label(version).0));
        }
        let changed = if let Some(added) = added.get_mut(&name) {
            rewritten.text.push_str(&text[done..field.lines.start]);
            done = field.lines.start;
            if std::mem::take(&mut added.missing) {
                rewritten.add(added.line, &text[field.lines.clone()]);
            }
            if added.covers(&requirement) {
                done = field.lines.end;
                continue;
            }
            with_condition(&value, &parts, &added.line[added.parts.subject..added.parts.condition])
        } else if let Some(version) = pins.get(&name) {
            with_condition(&value, &parts, &format!("=={version}"))
        } else {
            match value {
                Cow::Borrowed(_) => continue,
                Cow::Owned(line) => line,
            }
        };
        rewritten.text.push_str(&text[done..field.at.start]);
        rewritten.text.push_str(&changed);
        done = field.at.end;
    }
    let missing: Vec<&str> =
        added.values().filter(|added| added.missing).map(|added| added.line).collect();
    if !missing.is_empty() {
        let end = header::end(text).max(done);
        rewritten.text.push_str(&text[done..end]);
        done = end;
        if !rewritten.text.is_empty() && !rewritten.text.ends_with('\n') {
            rewritten.text.push('\n');
        }
        let line = text[..end].split_inclusive('\n').next_back().unwrap_or_default();
        missing.into_iter().for_each(|requirement| rewritten.add(requirement, line));
    }
    rewritten.text.push_str(&text[done..]);
    Ok(rewritten)
}

/// Returns METADATA without its requirements on these distributions.
pub(super) fn without(text: &str, names: &[String]) -> Result<String, String> {
    let mut kept = String::with_capacity(text.len());
    let mut done = 0;
    for field in fields(text).filter(|_| !names.is_empty()) {
        let (requirement, _) = parsed(&field, &text_of(&field))?;
        if names.contains(&requirement.name.to_string()) {
            kept.push_str(&text[done..field.lines.start]);
            done = field.lines.end;
        }
    }
    kept.push_str(&text[done..]);
    Ok(kept)
}

/// A requirement to add to METADATA.
struct Added<'a> {
    line: &'a str,
    requirement: Requirement,
    parts: Parts,
    missing: bool,
}

impl Added<'_> {
    /// Returns whether this requirement includes everything that upstream's asks for.
    fn covers(&self, upstreams: &Requirement) -> bool {
        let extras = &self.requirement.extras;
        upstreams.marker.is_true() && upstreams.extras.iter().all(|extra| extras.contains(extra))
    }
}

fn with_condition(requirement: &str, parts: &Parts, condition: &str) -> String {
    format!("{}{condition}{}", &requirement[..parts.subject], &requirement[parts.condition..])
}

/// Returns the lines that METADATA lacks for these distributions of the stack: those that it does
/// not require, or only with an extra or in another environment.
pub(super) fn lacking<'n>(
    metadata: &str,
    required: impl IntoIterator<Item = &'n String>,
    pins: &Pins,
    environment: Option<&MarkerEnvironment>,
) -> Result<Vec<String>, String> {
    let stated: BTreeSet<String> = requirements(metadata)?
        .into_iter()
        .filter(|requirement| match environment {
            Some(environment) => requirement.marker.evaluate(environment, &[]),
            None => requirement.marker.is_true(),
        })
        .map(|requirement| requirement.name.to_string())
        .collect();
    let missing = required.into_iter().filter(|name| !stated.contains(*name));
    Ok(missing.filter_map(|name| Some(format!("{name}=={}", pins.get(name)?))).collect())
}

/// Returns whether a requirement can apply with some extras. Without an environment, any can.
fn may_hold(requirement: &Requirement, environment: Option<&MarkerEnvironment>) -> bool {
    let marker = requirement.marker.clone().simplify_extras_with(|_| true);
    environment.is_none_or(|environment| marker.evaluate(environment, &[]))
}

impl Rewritten {
    /// Adds a requirement as a line with the same line end as `like`.
    fn add(&mut self, requirement: &str, like: &str) {
        let end = if like.ends_with("\r\n") { "\r\n" } else { "\n" };
        self.text.push_str(&format!("Requires-Dist: {requirement}{end}"));
    }
}

/// The byte positions of a requirement's parts.
struct Parts {
    /// The end of the name and extras.
    subject: usize,
    /// The end of the specifier or URL.
    condition: usize,
}

/// Returns the `Requires-Dist` fields of METADATA.
fn fields(text: &str) -> impl Iterator<Item = Field<'_>> {
    header::fields(text).filter(|field| field.is("Requires-Dist"))
}

/// Returns the value of a field on one line.
fn text_of<'a>(field: &Field<'a>) -> Cow<'a, str> {
    if field.is_folded() { field.one_line().into() } else { field.value.into() }
}

fn parsed(field: &Field<'_>, value: &str) -> Result<(Requirement, Parts), String> {
    parse(value).map_err(|reason| format!("line {}: {reason}", field.number))
}

/// Parses one requirement.
fn parse(requirement: &str) -> Result<(Requirement, Parts), String> {
    let refuse = |reason: &str| {
        let shown: String = one_line(requirement).chars().take(200).collect();
        Err(format!("`{}` is not a requirement: {reason}", visible(&shown)))
    };
    if requirement.len() > MAX_LENGTH {
        return refuse(&format!("it has {} bytes, more than {MAX_LENGTH}", requirement.len()));
    }
    // The grammar of PEP 508 is ASCII, and `pep508_rs` can panic on other text by slicing within a
    // character.
    if !requirement.is_ascii() {
        return refuse("it contains non-ASCII characters");
    }
    let parts = match split(requirement) {
        Ok(parts) => parts,
        Err(reason) => return refuse(reason),
    };
    match Requirement::from_str(requirement) {
        Ok(requirement) => Ok((requirement, parts)),
        Err(error) => refuse(&visible(&error.message.to_string())),
    }
}

/// Finds the parts of a requirement, and refuses input that `pep508_rs` cannot handle: it assumes
/// that names end with a letter or digit and that markers are small.
fn split(text: &str) -> Result<Parts, &'static str> {
    let name_end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    if normalized(&text[..name_end]).is_none() {
        return Err("it does not begin with a name");
    }
    let mut subject = name_end;
    let rest = text[name_end..].trim_start();
    if let Some(list) = rest.strip_prefix('[') {
        let end = list.find(']').ok_or("the list of extras is not closed")?;
        let names = list[..end].trim();
        if !names.is_empty() && !names.split(',').all(|name| normalized(name.trim()).is_some()) {
            return Err("an extra is not a name");
        }
        subject = text.len() - list.len() + end + 1;
    }
    let rest = &text[subject..];
    let marker = match rest.trim_start().strip_prefix('@') {
        // A `;` without a space before it belongs to the URL.
        Some(url) => {
            let mut ends = rest.match_indices(';').map(|(at, _)| at);
            let marker =
                ends.find(|at| rest[..*at].ends_with(char::is_whitespace)).unwrap_or(rest.len());
            let url = &url[..url.len() - (rest.len() - marker)];
            if url.trim().contains(char::is_whitespace) {
                return Err("its URL contains a space");
            }
            marker
        }
        None => rest.find(';').unwrap_or(rest.len()),
    };
    bounded(&rest[marker..])?;
    Ok(Parts { subject, condition: subject + rest[..marker].trim_end().len() })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Refuses a marker that is too large to evaluate.
fn bounded(marker: &str) -> Result<(), &'static str> {
    let (mut all, mut any, mut depth) = (0, 0, 0_usize);
    let mut rest = marker;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' | '\'' => rest[1..].find(c).map_or(rest.len(), |end| end + 2),
            _ if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ => c.len_utf8(),
        };
        match &rest[..length] {
            "and" => all += 1,
            "or" => any += 1,
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH || all + any >= MAX_COMPARISONS || all.min(any) > MAX_MIXED {
            return Err("its marker is too large");
        }
        rest = &rest[length..];
    }
    Ok(())
}

#[cfg(test)]
#[path = "requirements_tests.rs"]
mod tests;
