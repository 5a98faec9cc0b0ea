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
    let text = text.trim_end_matches('.').trim();
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
    let short = short.trim_end_matches([',', ';', ':', '-', ' ']);
    let mut chars = short.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
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
