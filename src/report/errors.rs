//! Prints errors: what is wrong, where, the causes, and how to fix it.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::{Shell, Style};
use crate::error::{Error, Problem, Reference};

/// The maximum number of problems shown in full; more would only scroll away.
const MAX_PROBLEMS: usize = 20;

/// Writes an error to stderr, and what shows more about it.
pub fn show_error(shell: &Shell, error: &Error) {
    show_failure(shell, error);
    show_references(shell, &error.diagnosis().references);
}

/// Writes files and commands that show more about errors to stderr, each once.
pub fn show_references<'a>(shell: &Shell, references: impl IntoIterator<Item = &'a Reference>) {
    for Reference { label, target } in references {
        shell.line(format!("{} {target}", Style::Note.paint(format!("{label:>12}"))));
    }
}

/// Writes an error of a run to stderr, which shows at its end what shows more.
pub(super) fn show_failure(shell: &Shell, error: &Error) {
    show_problems(shell, error.problems());
    // Skip the message if one of the problems above already shows it.
    let message = error.to_string();
    if !error.problems().iter().any(|problem| problem.message == message) {
        shell.message(Style::Bad, "error:", message);
    }
    for cause in error.causes() {
        shell.line(shell.wrap(&format!("  caused by: {cause}")));
    }
    for line in error.details() {
        shell.line(format!("    {line}"));
    }
    if !error.help().is_empty() {
        shell.line("");
    }
    for help in error.help() {
        shell.message(Style::Note, "help:", help);
    }
}

/// Writes problems in files to stderr, each with its location.
pub fn show_problems(shell: &Shell, problems: &[Problem]) {
    for problem in problems.iter().take(MAX_PROBLEMS) {
        let Problem { message, help, .. } = problem;
        let (message, help) = (shell.wrap(message), help.as_ref().map(|help| shell.wrap(help)));
        shell.line(snippet(&Problem { message, help, ..problem.clone() }));
        shell.line("");
    }
    let hidden = problems.len().saturating_sub(MAX_PROBLEMS);
    if hidden > 0 {
        shell.line(format!("... and {hidden} more"));
    }
}

/// Renders a problem with its file, line, column and source text.
pub(crate) fn snippet(problem: &Problem) -> String {
    let renderer = Renderer::styled();
    let mut group = Level::ERROR
        .primary_title(&problem.message)
        .elements(Vec::<annotate_snippets::Element<'_>>::new());
    group = match &problem.span {
        Some(span) if span.end <= problem.text.len() => {
            // An empty span would be invisible, and parsers can point inside a character.
            let start = problem.text.floor_char_boundary(span.start);
            let end = problem.text.ceil_char_boundary(span.end.max(start + 1));
            let annotation = AnnotationKind::Primary.span(start..end).label(&problem.label);
            group.element(Snippet::source(&problem.text).path(&problem.file).annotation(annotation))
        }
        _ => group.element(annotate_snippets::Origin::path(&problem.file)),
    };
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_spans_inside_characters() {
        for (text, span) in
            [("a =\u{a0}1", 3..4), ("a =\u{a0}1", 4..4), ("a\u{fffd}", 1..2), ("", 0..0)]
        {
            let problem = Problem {
                file: "f".into(),
                text: text.into(),
                span: Some(span),
                message: "m".into(),
                label: String::new(),
                help: None,
            };
            assert!(snippet(&problem).contains(text), "{text}");
        }
    }

    #[test]
    fn renders_the_location_of_a_problem() {
        let problem = Problem {
            file: "rocmrpm.toml".into(),
            text: "[stack]\nnmae = \"x\"\n".into(),
            span: Some(8..12),
            message: "unknown key `nmae`".into(),
            label: "not a key of this table".into(),
            help: Some("did you mean `name`?".into()),
        };
        let plain = anstream::adapter::strip_str(&snippet(&problem)).to_string();
        for part in [
            "error: unknown key `nmae`",
            "rocmrpm.toml:2:1",
            "nmae = \"x\"",
            "help: did you mean `name`?",
        ] {
            assert!(plain.contains(part), "{part}: {plain}");
        }
    }
}
