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
mod tests {
    use super::*;
    use std::time::Instant;

    fn pins(list: &[(&str, &str)]) -> Pins {
        let version = |text| Version::from_str(text).unwrap();
        list.iter().map(|(name, text)| ((*name).to_owned(), version(text))).collect()
    }

    fn stack() -> Pins {
        pins(&[
            ("torch", "2.11.0+rocm7.14.gfx1151.3"),
            ("flash-attn", "2.8.3+rocm7.14.gfx1151.1"),
            ("epoch", "1!2.0+rocm7.14.gfx1151.1"),
        ])
    }

    /// Rewrites one requirement; returns the result, and upstream's requirement if it is unmet.
    fn one(requirement: &str) -> (String, Option<String>) {
        let text =
            format!("Name: x\nRequires-Dist: {requirement}\nVersion: 1\n\nRequires-Dist: torch\n");
        let Rewritten { text, unmet } = rewrite(&text, &stack(), &[], None).unwrap();
        let rest = text.strip_prefix("Name: x\nRequires-Dist: ").unwrap();
        let value = rest.strip_suffix("\nVersion: 1\n\nRequires-Dist: torch\n").unwrap();
        assert!(unmet.len() < 2, "{unmet:?}");
        (
            value.to_owned(),
            unmet.into_iter().next().map(|(wanted, version)| format!("{wanted} | {version}")),
        )
    }

    #[test]
    fn pins_stack_requirements_and_keeps_name_extras_marker() {
        let torch = "==2.11.0+rocm7.14.gfx1151.3";
        for (before, after) in [
            ("torch", format!("torch{torch}")),
            ("torch>=2.11", format!("torch{torch}")),
            ("torch >= 2.9 , < 3", format!("torch{torch}")),
            ("torch (>=2.9)", format!("torch{torch}")),
            ("torch==2.11.0", format!("torch{torch}")),
            ("torch<=2.11.0", format!("torch{torch}")),
            ("torch~=2.11.0", format!("torch{torch}")),
            ("torch==2.*", format!("torch{torch}")),
            (
                "TORCH[Opt_A, opt.b]>=2; extra=='x'",
                format!("TORCH[Opt_A, opt.b]{torch}; extra=='x'"),
            ),
            ("torch [a] (>=2) ;extra == 'x;y'", format!("torch [a]{torch} ;extra == 'x;y'")),
            (
                "torch ; sys_platform == \"linux\"",
                format!("torch{torch} ; sys_platform == \"linux\""),
            ),
            ("torch[]", format!("torch[]{torch}")),
            ("torch @ https://example.org/a;b.whl#sha256=0", format!("torch{torch}")),
            (
                "torch[a]@https://example.org/a.whl ; python_version > '3'",
                format!("torch[a]{torch} ; python_version > '3'"),
            ),
            ("Flash__Attn", "Flash__Attn==2.8.3+rocm7.14.gfx1151.1".to_owned()),
            ("epoch", "epoch==1!2.0+rocm7.14.gfx1151.1".to_owned()),
        ] {
            assert_eq!(one(before), (after, None), "{before}");
        }
        for other in
            ["torchvision>=0.2", "numpy", "torch-x[torch]; extra == 'torch'", "a @ https://torch/x"]
        {
            assert_eq!(one(other), (other.to_owned(), None));
        }
    }

    #[test]
    fn reports_requirements_that_the_stack_does_not_satisfy() {
        for wanted in
            ["torch==2.9.0", "torch<2.11 ; extra == 'x'", "torch>2.11.0", "torch==2.11.0+cpu"]
        {
            let (after, unmet) = one(wanted);
            assert!(after.starts_with("torch==2.11.0+rocm7.14.gfx1151.3"), "{after}");
            assert_eq!(unmet, Some(format!("{wanted} | 2.11.0")));
        }
    }

    #[test]
    fn ignores_requirements_for_other_environments() {
        let here = markers((3, 14), "x86_64").unwrap();
        for (marker, reported) in [
            ("sys_platform == 'win32'", false),
            ("platform_machine == 'aarch64' and extra == 'x'", false),
            ("python_version < '3.10'", false),
            ("sys_platform == 'linux' and extra == 'x'", true),
            ("extra == 'x' or extra == 'y'", true),
            ("platform_system == 'Linux' and python_version >= '3.14'", true),
            ("sys_platform == 'win32' or extra == 'x'", true),
        ] {
            let text = format!("Requires-Dist: torch==2.9 ; {marker}\n");
            let rewritten = rewrite(&text, &stack(), &[], Some(&here)).unwrap();
            assert_eq!(rewritten.unmet.len(), usize::from(reported), "{marker}");
            assert_eq!(rewritten.text, text.replace("==2.9", "==2.11.0+rocm7.14.gfx1151.3"));
        }
    }

    #[test]
    fn joins_requirements_into_one_line() {
        let text =
            "Requires-Dist: numpy\n >=1\r\n\t;  extra == 'x'\nRequires-Dist:\n a\nSummary: b\n c\n";
        let expected =
            "Requires-Dist: numpy >=1 ; extra == 'x'\nRequires-Dist:\n a\nSummary: b\n c\n";
        assert_eq!(rewrite(text, &Pins::new(), &[], None).unwrap().text, expected);
    }

    #[test]
    fn leaves_other_text_unchanged() {
        let text = "Metadata-Version: 2.4\r\nName: x\r\nrequires-dist:torch>=2,\r\n\t<3\r\n ; extra == 'a'\r\n\
            Provides-Extra: a\r\nRequires-Dist: torch ==2.1; python_version<'3.9'\r\n\
            Requires-Dist:torch==2.2; python_version >= '3.9'\r\nLicense: torch>=1\r\n Requires-Dist: torch\r\n\
            Requires-External: torch\r\n\r\nRequires-Dist: torch\r\n\u{fffd}";
        let pinned = rewrite(text, &stack(), &[], None).unwrap();
        let version = "==2.11.0+rocm7.14.gfx1151.3";
        let expected = text
            .replace("torch>=2,\r\n\t<3\r\n ;", &format!("torch{version} ;"))
            .replace("torch ==2.1;", &format!("torch{version};"))
            .replace("torch==2.2;", &format!("torch{version};"));
        assert_eq!(pinned.text, expected);
        assert_eq!(pinned.unmet.len(), 2);
        let on_one_line = text.replace("2,\r\n\t<3\r\n ;", "2, <3 ;");
        assert_eq!(rewrite(text, &Pins::new(), &[], None).unwrap().text, on_one_line);
        let again = rewrite(&pinned.text, &stack(), &[], None).unwrap();
        assert_eq!((again.text, again.unmet), (expected, Vec::new()));
    }

    #[test]
    fn rejects_invalid_requirements_with_their_line() {
        for (requirement, reason) in [
            ("", "does not begin with a name"),
            ("-x", "does not begin with a name"),
            ("a-", "does not begin with a name"),
            ("a- >= 1", "does not begin with a name"),
            ("a.[x]", "does not begin with a name"),
            ("a[x-]", "an extra is not a name"),
            ("a[x,,y]", "an extra is not a name"),
            ("a[x", "is not closed"),
            ("a b", "Expected one of"),
            ("a >=", ""),
            ("a >= x", ""),
            ("a >= 1 2", ""),
            ("a; bogus == '1'", ""),
            ("a; extra ==", ""),
            ("a @ ", "Expected URL"),
            ("a @ https://example.org/a b", "a space"),
            ("a @ https://example.org/a; extra == 'x'", ""),
            ("a.tar.gz", ""),
            ("\u{1b}[2Jä", "`\\u{1b}[2Jä` is not a requirement"),
        ] {
            let text = format!("Name: x\nSummary: y\n z\nRequires-Dist: {requirement}\n\n");
            for error in [
                rewrite(&text, &Pins::new(), &[], None).unwrap_err(),
                requirements(&text).unwrap_err().clone(),
            ] {
                assert!(
                    error.starts_with("line 4: `") && error.contains(reason),
                    "{requirement}: {error}"
                );
                assert!(!error.contains(['\n', '\u{1b}']), "{error:?}");
            }
        }
        assert!(rewrite("Name: x\n", &Pins::new(), &["?".to_owned()], None).is_err());
    }

    #[test]
    fn added_requirements_replace_upstreams() {
        let extra = ["rocm[libraries]==7.14.*".to_owned(), "torch==1".to_owned()];
        let added = |text: &str| rewrite(text, &stack(), &extra, None).unwrap().text;
        let lines = "Requires-Dist: rocm[libraries]==7.14.*\nRequires-Dist: torch==1\n";
        assert_eq!(added("Name: x\n\nbody\n"), format!("Name: x\n{lines}\nbody\n"));
        assert_eq!(added("Name: x"), format!("Name: x\n{lines}"));
        assert_eq!(
            added("Name: x\r\n\r\n"),
            format!("Name: x\r\n{lines}\r\n").replace(['\r'], "").replace('\n', "\r\n")
        );
        let text = "A: b\nRequires-Dist: ROCm[devel]==6\n ; extra=='x'\nC: d\nRequires-Dist: rocm\n\
            Requires-Dist: Rocm [Libraries] (==7.1)\nRequires-Dist: rocm[profiler]>=7\nRequires-Dist: a";
        let expected = "A: b\nRequires-Dist: rocm[libraries]==7.14.*\n\
            Requires-Dist: ROCm[devel]==7.14.* ; extra=='x'\nC: d\n\
            Requires-Dist: rocm[profiler]==7.14.*\nRequires-Dist: a\nRequires-Dist: torch==1\n";
        assert_eq!(added(text), expected);
        assert_eq!(added(expected), expected);
        assert_eq!(
            added("Requires-Dist: torch"),
            lines.lines().rev().map(|l| format!("{l}\n")).collect::<String>()
        );
    }

    #[test]
    fn collects_required_names() {
        let names = required_names(
            "Requires-Dist: A_b>1\nRequires-Dist: a.B; extra=='x'\nRequires-Dist: c\n",
        );
        assert_eq!(names.unwrap().into_iter().collect::<Vec<_>>(), ["a-b", "c"]);
    }

    #[test]
    fn handles_truncated_and_changed_texts() {
        let text = "Name: x\r\nRequires-Dist: torch[a, b-c] (>=2.9,!=2.10.*) ; (python_version > '3' and \
            extra == \"x\") or os_name in 'a b'\r\nRequires-Dist: ä @ https://x/y ; extra=='z'\n\
            Requires-Dist: torch@git+https://u:p@h/r@v#egg=x ; extra == 'k'\n and 'linux' in sys_platform\n\n";
        let text = text.replace("ä", "torch");
        let extra = ["rocm[libraries]==7.14.*".to_owned()];
        let mut good = 0;
        let mut attempt = |bytes: &[u8]| {
            if let Ok(text) = std::str::from_utf8(bytes)
                && let Ok(rewritten) = rewrite(text, &stack(), &extra, None)
            {
                good += 1;
                let found = requirements(&rewritten.text)
                    .unwrap_or_else(|error| panic!("{text:?}: {error}"));
                assert_eq!(found.len(), requirements(text).unwrap().len() + 1, "{text:?}");
                assert!(fields(&rewritten.text).all(|field| !field.is_folded()), "{text:?}");
            }
        };
        for end in 0..text.len() {
            attempt(&text.as_bytes()[..end]);
        }
        let mut bytes = text.clone().into_bytes();
        for at in 0..bytes.len() {
            let before = bytes[at];
            for byte in [
                0,
                0x7f,
                0xff,
                before ^ 1,
                before ^ 32,
                b' ',
                b'\n',
                b'\r',
                b';',
                b'[',
                b']',
                b'-',
                b'@',
                b'(',
                b'\'',
            ] {
                bytes[at] = byte;
                attempt(&bytes);
            }
            bytes[at] = before;
        }
        assert!(good > 1000, "only {good} were read");
    }

    #[test]
    fn hostile_texts_take_linear_time() {
        let started = Instant::now();
        let many: String = (0..10_000)
            .map(|n| format!("Requires-Dist: torch>={n}; extra == 'e{}'\n", n % 7))
            .collect();
        let rewritten = rewrite(&many, &stack(), &["rocm".to_owned()], None).unwrap();
        assert_eq!(rewritten.text.lines().count(), 10_001);
        assert_eq!(rewritten.unmet.len(), 10_000 - 3);
        let long = |head: &str, unit: &str| {
            format!("Requires-Dist: {head}{}", unit.repeat((1 << 20) / unit.len()))
        };
        for (text, good) in [
            (long("torch>=", "1"), false),
            (long("torch @ https://x/", " "), true),
            (long("torch ;", "("), false),
            (long("torch[", "a,"), false),
            (long("torch", "\n "), true),
            (long("", " "), false),
            (long("torch\n", " ;\n"), false),
        ] {
            assert_eq!(rewrite(&text, &stack(), &[], None).is_ok(), good, "{}", &text[..40]);
        }
        assert!(
            rewrite(&format!("Name: x\nSummary: {}\n\n", "y".repeat(1 << 20)), &stack(), &[], None)
                .is_ok()
        );
        // Quadratic time would take an hour.
        assert!(started.elapsed().as_secs() < 300, "{:?}", started.elapsed());
    }

    #[test]
    fn removes_requirements_and_keeps_all_other_bytes() {
        let text = "Name: x\nRequires-Dist: Amd_Quark>=1;\n os_name == 'posix'\nrequires-dist: b\n\
                    Requires-Dist: amd.quark[y]\n\nRequires-Dist: amd-quark\n";
        let kept = without(text, &["amd-quark".to_owned()]).unwrap();
        assert_eq!(kept, "Name: x\nrequires-dist: b\n\nRequires-Dist: amd-quark\n");
        assert_eq!(without(text, &[]).unwrap(), text);
        assert!(without("Requires-Dist: ?\n", &["a".to_owned()]).is_err());
    }

    #[test]
    fn accepts_requirements_up_to_the_longest() {
        let of_length = |length| requirements(&format!("Requires-Dist: {}\n", "x".repeat(length)));
        assert!(of_length(MAX_LENGTH).is_ok());
        let error = of_length(MAX_LENGTH + 1).unwrap_err();
        assert!(error.contains("it has 4097 bytes, more than 4096"), "{error}");
    }

    #[test]
    fn rejects_non_ascii() {
        for text in
            ["torch ; python_version >= \"3.9\" an\u{e4} extra == 'x'", "torch ; extra == '\u{e4}'"]
        {
            let error = requirement(text).unwrap_err();
            assert!(error.ends_with("it contains non-ASCII characters"), "{error}");
        }
    }

    #[test]
    fn rejects_exponential_markers() {
        let pairs = |count| {
            let pairs: Vec<String> =
                (0..count).map(|n| format!("(extra == 'a{n}' and extra == 'b{n}')")).collect();
            format!("Requires-Dist: x; {}\n", pairs.join(" or "))
        };
        assert!(requirements(&pairs(MAX_MIXED + 1)).is_ok());
        let nested =
            format!("Requires-Dist: x; {}os_name == 'a'{}\n", "(".repeat(40), ")".repeat(40));
        let list = vec!["extra == 'a'"; 200].join(" or ");
        for text in [pairs(MAX_MIXED + 2), nested, format!("Requires-Dist: x; {list}\n")] {
            assert!(requirements(&text).unwrap_err().contains("marker is too large"), "{text}");
        }
        let words = "Requires-Dist: x; extra == 'and or and or and or and or and or and or and or and or'\n";
        assert!(requirements(words).is_ok());
    }
}
