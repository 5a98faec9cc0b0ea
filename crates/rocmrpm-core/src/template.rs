//! Renders templates with tera, using delimiters that do not occur in specs. It does not define
//! templates or variables.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use tera::{ErrorKind, Tera};

use crate::error::{Diagnose, Diagnosis, Kind, Problem};
use crate::range::compare;

/// Parsed templates by name.
pub struct Templates {
    tera: Tera,
    texts: BTreeMap<String, String>,
}

/// A template that fails to parse or render: the problem and its location.
#[derive(Debug, thiserror::Error)]
#[error("cannot render the template `{file}`")]
pub struct TemplateError {
    file: String,
    problem: Vec<Problem>,
}

impl Diagnose for TemplateError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::from(Kind::Config).with_problems(&self.problem)
    }
}

/// Maximum size of a rendered text, in bytes. Specs have several kilobytes; nested loops could
/// exhaust memory.
const MAX_OUTPUT: usize = 16 << 20;

/// The rendered text, limited to [`MAX_OUTPUT`].
struct Output(Vec<u8>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Templates {
    /// Parses templates, given as pairs of workspace path and text. Templates can include each
    /// other by this path without the leading `specs-templates/`.
    pub fn parse(files: impl IntoIterator<Item = (String, String)>) -> Result<Self, TemplateError> {
        let mut tera = Tera::default();
        let delimiters = tera::Delimiters {
            block_start: "<@".into(),
            block_end: "@>".into(),
            variable_start: "<{".into(),
            variable_end: "}>".into(),
            comment_start: "<#".into(),
            comment_end: "#>".into(),
        };
        let texts: BTreeMap<String, String> =
            files.into_iter().map(|(name, text)| (short(&name), text)).collect();
        let fail = |error| to_error(&error, &texts, "");
        tera.set_delimiters(delimiters).map_err(fail)?;
        tera.autoescape_on(Vec::<&str>::new());
        tera.register_filter("pystr", |text: &str, _: tera::Kwargs, _: &tera::State| {
            python_literal(text)
        });
        tera.register_test(
            "at_least",
            |version: &str, arguments: tera::Kwargs, _: &tera::State| {
                Ok(compare(version, arguments.must_get::<&str>("v")?) != Ordering::Less)
            },
        );
        tera.add_raw_templates(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())))
            .map_err(fail)?;
        Ok(Self { tera, texts })
    }

    /// Renders a template with the fields of `values` as its variables.
    pub fn render(&self, name: &str, values: &impl Serialize) -> Result<String, TemplateError> {
        let name = short(name);
        let context =
            tera::Context::from_serialize(values).map_err(|e| to_error(&e, &self.texts, &name))?;
        let mut output = Output(Vec::new());
        match self.tera.render_to(&name, &context, &mut output) {
            Ok(()) => Ok(String::from_utf8_lossy(&output.0).into_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::Io(_)) => Err(self.too_large(&name)),
            Err(error) => Err(to_error(&error, &self.texts, &name)),
        }
    }

    fn too_large(&self, name: &str) -> TemplateError {
        let file = shown(name);
        let problem = Problem {
            file: file.clone(),
            text: self.texts.get(name).cloned().unwrap_or_default(),
            span: None,
            message: format!("the rendered text is larger than {} MiB", MAX_OUTPUT >> 20),
            label: String::new(),
            help: Some("shorten its loops".into()),
        };
        TemplateError { file, problem: vec![problem] }
    }
}

/// The folder that template names omit.
const TEMPLATES_DIR: &str = "specs-templates/";

fn short(name: &str) -> String {
    name.strip_prefix(TEMPLATES_DIR).unwrap_or(name).to_owned()
}

fn shown(name: &str) -> String {
    // Other templates (`mock-configs/...`) use the whole path as their name.
    if name.ends_with(".spec.tera") || name.starts_with("_shared/") {
        format!("{TEMPLATES_DIR}{name}")
    } else {
        name.to_owned()
    }
}

/// The names of tags. Source: tera's documentation, "Manual".
const TAGS: &[&str] = &[
    "block",
    "break",
    "continue",
    "elif",
    "else",
    "endblock",
    "endfilter",
    "endfor",
    "endif",
    "endset",
    "extends",
    "filter",
    "for",
    "if",
    "include",
    "set",
    "set_global",
];

/// Returns the place where a template includes the template that a message says is unknown. tera
/// does not report it.
fn including<'t>(
    message: &str,
    texts: &'t BTreeMap<String, String>,
) -> Option<(&'t str, std::ops::Range<usize>)> {
    let name = message.to_lowercase().contains("template").then(|| message.split('`').nth(1))??;
    let quoted = format!("\"{name}\"");
    texts.iter().find_map(|(file, text)| {
        let start = text.find(&quoted)?;
        Some((file.as_str(), start..start + quoted.len()))
    })
}

/// Returns the line that opens a tag or an expression and does not close it, and its delimiters, if
/// tera noticed that only below: `before` is the text before the place that it reports.
fn unclosed(before: &str) -> Option<(std::ops::Range<usize>, &'static str, &'static str)> {
    let delimiters = [("<{", "}>"), ("<@", "@>"), ("<#", "#>")];
    let opened = delimiters.iter().filter_map(|(opened, end)| {
        let start = before.rfind(opened)?;
        Some((start, *opened, *end))
    });
    let (start, opened, end) = opened.max()?;
    let (line, _) = before[start..].split_once('\n')?;
    let span = start..start + line.trim_end().len();
    (!before[start..].contains(end)).then_some((span, opened, end))
}

fn to_error(
    error: &tera::Error,
    texts: &BTreeMap<String, String>,
    template: &str,
) -> TemplateError {
    let (file, span, message) = match error.kind() {
        ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report) => {
            (report.filename(), Some(report.span().range.clone()), report.message().to_owned())
        }
        // tera adds its own snippet below the first line.
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            let message = line.trim_start_matches("error: ").to_owned();
            match including(&message, texts) {
                Some((file, span)) => (file, Some(span), message),
                None => (template, None, message),
            }
        }
    };
    // tera's messages mention its default delimiters, regardless of settings.
    let message = [("}}", "}>"), ("{{", "<{"), ("%}", "@>"), ("{%", "<@"), ("#}", "#>")]
        .into_iter()
        .fold(message, |text, (theirs, ours)| text.replace(theirs, ours));
    let file = if file.is_empty() { texts.keys().next().map_or("", String::as_str) } else { file };
    // tera appends a list of all variables, which is longer than the message.
    let known = [". Available variables: ", ". Available fields: "];
    let (message, help) = match known.iter().find_map(|before| message.split_once(before)) {
        Some((what, known)) => {
            let wrong = what.split('`').nth(1).unwrap_or_default();
            let near = crate::names::nearest(wrong, known.split(", "));
            (
                what.to_owned(),
                near.map_or(format!("expected one of: {known}"), |n| {
                    format!("did you mean `{n}`?")
                }),
            )
        }
        None => {
            let word = span.clone().and_then(|span| texts.get(file)?.get(span));
            let word = word.filter(|_| message.eq_ignore_ascii_case("unknown tag"));
            let near = word.and_then(|word| crate::names::nearest(word, TAGS.iter().copied()));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            (message, help.unwrap_or_default())
        }
    };
    let mut letters = message.trim_end_matches('.').chars();
    let message =
        letters.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(letters).collect();
    let text = texts.get(file).cloned().unwrap_or_default();
    let unclosed = span.as_ref().and_then(|span| unclosed(text.get(..span.start)?));
    let (span, message, help) = match unclosed {
        Some((span, opened, end)) => {
            (Some(span), format!("`{opened}` is not closed"), format!("end it with `{end}`"))
        }
        None => (span, message, help),
    };
    let problem = Problem {
        file: shown(file),
        span: span.filter(|s| s.end <= text.len()),
        text,
        message,
        label: String::new(),
        help: (!help.is_empty()).then_some(help),
    };
    TemplateError {
        file: shown(if template.is_empty() { file } else { template }),
        problem: vec![problem],
    }
}

/// Returns `text` as a Python string literal.
pub(crate) fn python_literal(text: &str) -> String {
    let mut literal = String::from("'");
    for c in text.chars() {
        match c {
            '\\' | '\'' => literal.extend(['\\', c]),
            '\n' => literal.push_str("\\n"),
            c if c.is_control() => literal.push_str(&format!("\\x{:02x}", c as u32)),
            c => literal.push(c),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Values {
        version: String,
    }

    fn render(text: &str) -> Result<String, TemplateError> {
        let values = Values { version: "1<2'\\".into() };
        Templates::parse([("specs-templates/a/a.spec.tera".into(), text.into())])?
            .render("specs-templates/a/a.spec.tera", &values)
    }

    #[test]
    fn spec_text_passes_untouched() {
        let spec = "%{lua:print({{1,2}})} ${#a[@]} %{?x:%{y}} {% {{ }} [[ -n $x ]] <{ version }>\n";
        assert_eq!(render(spec).unwrap(), spec.replace("<{ version }>", "1<2'\\"));
        assert_eq!(render("<{ version | pystr }>").unwrap(), r"'1<2\'\\'");
    }

    #[test]
    fn reports_the_place_of_an_undefined_variable() {
        let error = render("Name: a\nVersion: <{ verison }>\n").unwrap_err();
        let problem = &error.problems()[0];
        assert_eq!(problem.file, "specs-templates/a/a.spec.tera");
        assert_eq!(&problem.text[problem.span.clone().unwrap()], "verison");
        assert_eq!(problem.help.as_deref(), Some("did you mean `version`?"));
        assert!(!problem.message.contains("Available"), "{}", problem.message);
    }

    #[test]
    fn reports_the_place_of_a_syntax_error() {
        let error = render("<@ if x @>\n").unwrap_err();
        assert!(error.problems()[0].span.is_some(), "{error:?}");
    }

    #[test]
    fn reports_the_line_that_is_not_closed() {
        let error = render("Version: <{ version >\nRelease: <{ version }>\n").unwrap_err();
        let problem = &error.problems()[0];
        assert_eq!(&problem.text[problem.span.clone().unwrap()], "<{ version >");
        assert_eq!(problem.message, "`<{` is not closed");
        assert_eq!(problem.help.as_deref(), Some("end it with `}>`"));
    }

    #[test]
    fn reports_the_template_that_includes_an_unknown_one() {
        let texts = [
            (
                "a/a.spec.tera".to_owned(),
                "Name: a\n<@ include \"_shared/heder.tera\" @>\n".to_owned(),
            ),
            ("_shared/build-env.tera".to_owned(), String::new()),
        ];
        let Err(error) = Templates::parse(texts) else { panic!("it is accepted") };
        let problem = &error.problems()[0];
        assert_eq!(problem.file, "specs-templates/a/a.spec.tera");
        assert_eq!(&problem.text[problem.span.clone().unwrap()], "\"_shared/heder.tera\"");
    }

    #[test]
    fn suggests_the_nearest_tag() {
        let error = render("<@ for x in [1] @>\n<@ endfr @>\n").unwrap_err();
        assert_eq!(error.problems()[0].help.as_deref(), Some("did you mean `endfor`?"));
    }

    #[test]
    fn rejects_a_template_that_renders_endlessly() {
        let loops = "<@ for a in range(end=100000) @>".repeat(3);
        let error =
            render(&format!("{loops}xxxxxxxxxxxxxxxx{}", "<@ endfor @>".repeat(3))).unwrap_err();
        assert_eq!(error.problems()[0].message, "the rendered text is larger than 16 MiB");
        assert_eq!(error.problems()[0].file, "specs-templates/a/a.spec.tera");
    }
}
