//! Parts that several generated files share: headers, quoting, wrapped text. Does not decide what
//! is generated.

use crate::workspace::WrittenClosure;

/// The header of the generated pins.
pub(super) const PINS_HEADER: &str = "\
# Written by `rocmrpm closure --write`: the pins of the members of a Python closure. Review
# its changes; do not edit it.";

/// Returns the header of a generated component.toml.
pub(super) fn component_header(component: &str) -> String {
    format!(
        "# Written by `rocmrpm closure --write`; do not edit it. Make decisions in the\n\
         # table `[closure]` of specs-templates/{component}/component.toml.\n"
    )
}

/// Returns the header of a generated spec.
pub(super) fn spec_header(component: &str) -> String {
    format!(
        "# Rendered by rocmrpm; do not edit. `rocmrpm closure --write` generates it. Make\n\
         # decisions in the table `[closure]` of specs-templates/{component}/component.toml.\n"
    )
}

/// Returns the file with the values for rendering the spec of the component itself.
pub(super) fn closure_file(closure: &WrittenClosure) -> String {
    let list = |key: &str, values: &[String]| {
        let lines: String =
            values.iter().map(|value| format!("    {},\n", quoted(value))).collect();
        if values.is_empty() { format!("{key} = []\n") } else { format!("{key} = [\n{lines}]\n") }
    };
    let WrittenClosure { private, not_required, no_extras, requires, obsoletes } = closure;
    [
        "# Written by `rocmrpm closure --write`; do not edit it. The values for\n\
         # rendering the spec of the closure's component.\n"
            .to_owned(),
        "# In the private prefix.\n".to_owned() + &list("private", private),
        "# Required by the metadata, but not by the package.\n".to_owned()
            + &list("not-required", not_required),
        "# Members of which the metadata requires extras; packages do not provide extras.\n"
            .to_owned()
            + &list("no-extras", no_extras),
        "# What the package requires instead.\n".to_owned() + &list("requires", requires),
        "# RPMs of an earlier release that an upgrade removes.\n".to_owned()
            + &list("obsoletes", obsoletes),
    ]
    .join("\n")
}

/// Quotes a value for a TOML file.
pub(super) fn quoted(value: &str) -> String {
    toml_edit::Value::from(value).to_string()
}

/// Returns an upstream text that is safe to use in a template: on one line, without rpm macros and
/// without delimiters of the template engine.
pub(crate) fn literal(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ").replace('%', "%%");
    ["<@", "<{", "<#", "@>", "}>", "#>"].iter().fold(line, |line, delimiter| {
        line.replace(delimiter, &delimiter.chars().map(String::from).collect::<Vec<_>>().join(" "))
    })
}

/// Returns a summary in the form that rpmlint expects: no dot at the end, at most 79 characters,
/// and an initial capital letter.
pub(crate) fn summary(text: &str, name: &str) -> String {
    let text = literal(text);
    let text = without_name(text.trim_end_matches('.').trim(), name);
    let text = if text.is_empty() { format!("Python module {name}") } else { text.to_owned() };
    let mut short = String::new();
    for word in text.split(' ') {
        if short.chars().count() + word.chars().count() + 1 > 79 {
            break;
        }
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    if short.is_empty() {
        short = text.chars().take(79).collect();
    }
    let short = if short.len() < text.len() { without_started_phrase(&short) } else { &short };
    let short = short.trim_end_matches([',', ';', ':', '-', ' ']);
    let mut chars = short.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Returns what a text says that the project is: without `NAME is a`.
fn without_name<'t>(text: &'t str, name: &str) -> &'t str {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let rest = text.split_at_checked(name.len());
    let rest = rest.filter(|(start, _)| plain(start) == plain(name)).map_or(text, |(_, rest)| rest);
    [" is a ", " is an ", " is the "].iter().find_map(|is| rest.strip_prefix(is)).unwrap_or(text)
}

/// Returns a shortened text without the phrase that it ends in, which lost its end. Keeps the text
/// if less than half of it would be left.
fn without_started_phrase(text: &str) -> &str {
    const STARTS: &[&str] = &[
        " and ", " as ", " at ", " by ", " for ", " from ", " in ", " into ", " of ", " on ",
        " or ", " such ", " that ", " to ", " used ", " using ", " via ", " which ", " with ",
        " within ",
    ];
    let padded = format!("{text} ");
    let starts = STARTS.iter().filter_map(|word| padded.rfind(word));
    let Some(at) = starts.max().filter(|at| *at >= text.len() / 2) else { return text };
    let mut whole = &text[..at];
    while let Some(shorter) = STARTS.iter().find_map(|word| whole.strip_suffix(word.trim_end())) {
        whole = shorter;
    }
    whole
}

/// Wraps a text into lines of at most 79 characters.
pub(crate) fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 79 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

/// Returns a URL that is safe to use in a spec.
pub(crate) fn url(home: Option<&str>) -> Option<String> {
    let home = home?.trim();
    let plain = home.starts_with("https://") || home.starts_with("http://");
    let safe = home.bytes().all(|b| b.is_ascii_graphic() && !b"%<>{}\"\\".contains(&b));
    (plain && safe && !home.contains('@')).then(|| home.to_owned())
}

/// Escapes a text for a regular expression in a spec.
pub(super) fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| if ".+".contains(c) { format!("\\\\{c}") } else { c.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_foreign_text() {
        assert_eq!(
            literal("100 % <{ name }>\n<@ set @> %{x}"),
            "100 %% < { name } > < @ set @ > %%{x}"
        );
        assert_eq!(summary("a fast thing.\n", "x"), "A fast thing");
        assert_eq!(summary("", "x"), "Python module x");
        assert!(summary(&"word ".repeat(40), "x").len() < 80);
        for (stated, short) in [
            (
                "Document parameters, class attributes, return types, and variables inline, with Annotated.",
                "Document parameters, class attributes, return types, and variables inline",
            ),
            (&format!("Of {}", "word ".repeat(20)), &format!("Of{}", " word".repeat(15))),
        ] {
            assert_eq!(summary(stated, "x"), short);
        }
        for (stated, name, short) in [
            ("Mistral-common is a library of utilities.", "mistral-common", "Library of utilities"),
            (
                "Ml_dtypes is a stand-alone implementation of several NumPy dtype extensions used in machine learning.",
                "ml-dtypes",
                "Stand-alone implementation of several NumPy dtype extensions",
            ),
            ("A is not b", "a", "A is not b"),
            ("É is a letter", "e", "É is a letter"),
        ] {
            assert_eq!(summary(stated, name), short);
        }
        // Nothing is lost, so nothing is shortened.
        assert_eq!(summary("What it is made for", "x"), "What it is made for");
        assert_eq!(url(Some("https://h/a?b#c")).as_deref(), Some("https://h/a?b#c"));
        for bad in ["ftp://x", "https://h/%{x}", "https://h/ x", "https://u:p@h/"] {
            assert_eq!(url(Some(bad)), None, "{bad}");
        }
    }

    #[test]
    fn wraps_text_at_spaces() {
        assert_eq!(wrapped("a  b\nc"), "a b c");
        let (forty, thirty_eight) = ("x".repeat(40), "y".repeat(38));
        assert_eq!(
            wrapped(&format!("{forty} {thirty_eight} z")),
            format!("{forty} {thirty_eight}\nz")
        );
        assert_eq!(
            wrapped(&format!("{forty} {thirty_eight}z")),
            format!("{forty}\n{thirty_eight}z")
        );
    }
}
