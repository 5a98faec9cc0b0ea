//! Errors forward the diagnosis of the errors that they wrap. The compiler requires an arm of
//! `Diagnose::diagnosis` for every variant; this test checks what the arm does.

use std::collections::BTreeMap;

use crate::mechanisms::sources;

/// A variant of an error that wraps another one, and whether the enum's diagnosis forwards to it.
#[derive(Debug, PartialEq, Eq)]
struct Wrapper {
    name: String,
    is_forwarded: bool,
}

/// Returns the variants that wrap an error with a diagnosis, of each enum with a diagnosis: those
/// that forward its message, are made from it by `?`, or have it as their source.
fn wrappers(sources: &BTreeMap<String, String>) -> Vec<Wrapper> {
    let code: String = sources.values().map(|code| format!("{code}\n")).collect();
    let items = |start: &str| -> BTreeMap<String, String> {
        let start = format!("\n{start} ");
        code.split(&start)
            .skip(1)
            .filter_map(|part| {
                let (name, rest) = part.split_once(" {\n")?;
                Some((name.to_owned(), rest.split("\n}").next()?.to_owned()))
            })
            .collect()
    };
    let mut enums = items("pub enum");
    enums.extend(items("pub(crate) enum"));
    let diagnoses = items("impl Diagnose for");
    let mut found = Vec::new();
    for (name, diagnosis) in &diagnoses {
        for variant in wrapping(enums.get(name).map_or("", String::as_str), |kind| {
            diagnoses.contains_key(kind)
        }) {
            let start = format!("Self::{variant}");
            let arms = diagnosis
                .split(&start)
                .skip(1)
                .filter(|arm| !arm.starts_with(char::is_alphanumeric));
            let mut arms = arms.filter_map(|arm| arm.split("\n            Self::").next());
            // An arm for a special case may be more specific than the error that it wraps.
            let is_forwarded = arms.any(|arm| {
                ["diagnosis()", "diagnosis(error)", "of_io("].iter().any(|call| arm.contains(call))
            });
            found.push(Wrapper { name: format!("{name}::{variant}"), is_forwarded });
        }
    }
    found
}

/// Returns the variants of an enum that wrap an error.
fn wrapping(body: &str, has_diagnosis: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut variants: Vec<(&str, bool)> = Vec::new();
    let mut is_transparent = false;
    for line in body.lines() {
        let variant = line.strip_prefix("    ").filter(|line| line.starts_with(char::is_uppercase));
        if line == "    #[error(transparent)]" {
            is_transparent = true;
        } else if let Some(variant) = variant {
            let name = variant.split(['(', ',', ' ']).next().unwrap_or_default();
            variants
                .push((name, std::mem::take(&mut is_transparent) || variant.contains("#[from]")));
        } else if let Some(kind) = line.trim().strip_prefix("source: ")
            && has_diagnosis(kind.trim_start_matches("Box<").trim_end_matches([',', '>']))
            && let Some(last) = variants.last_mut()
        {
            last.1 = true;
        }
    }
    variants.into_iter().filter(|(_, wraps)| *wraps).map(|(name, _)| name).collect()
}

#[test]
fn errors_forward_the_diagnosis_of_the_error_they_wrap() {
    let sources = sources();
    let wrappers = wrappers(&sources);
    assert!(wrappers.len() > 70, "only {} found", wrappers.len());
    let missing: Vec<_> = wrappers.iter().filter(|wrapper| !wrapper.is_forwarded).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    for (file, code) in &sources {
        for diagnosis in code.split("fn diagnosis(&self) -> Diagnosis {").skip(1) {
            let body = diagnosis.split("\n    }\n").next().unwrap_or_default();
            assert!(
                !body.contains("\n            _ =>"),
                "{file}: a diagnosis names every variant"
            );
        }
    }
}

#[test]
fn detects_missing_diagnoses() {
    let code = "
pub enum OneError {
    #[error(transparent)]
    Asked(#[from] TwoError),
    #[error(transparent)]
    Forgotten(Box<TwoError>),
    #[error(\"`{text}`\")]
    Plain {
        text: String,
    },
    #[error(\"x\")]
    Below {
        source: Box<OneError>,
    },
    #[error(\"x\")]
    Other {
        source: io::Error,
    },
    #[error(\"x\")]
    Io(#[from] io::Error),
}
impl Diagnose for OneError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Asked(TwoError::Special) => Kind::Usage.into(),
            Self::Asked(error) => error.diagnosis(),
            Self::Forgotten(_) | Self::Plain { .. } | Self::Below { .. } => Kind::Usage.into(),
            Self::Other { .. } => Kind::Usage.into(),
            Self::Io(error) => Diagnosis::of_io(error),
        }
    }
}
";
    let found = wrappers(&[("a.rs".to_owned(), code.to_owned())].into());
    let found: Vec<_> =
        found.iter().map(|wrapper| (wrapper.name.as_str(), wrapper.is_forwarded)).collect();
    assert_eq!(
        found,
        [
            ("OneError::Asked", true),
            ("OneError::Forgotten", false),
            ("OneError::Below", false),
            ("OneError::Io", true)
        ]
    );
}
