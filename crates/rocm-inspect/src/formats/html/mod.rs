//! Formats an inspection as one self-contained HTML page: no script, no other files, light and
//! dark. `graph` draws the library graph, and `details` shows findings and files.

mod details;
mod graph;

use super::{TargetSum, is_wanted, number, severity_count, sums, tally, total_size};
use crate::{Depth, Report, Served, Severity, Subject};
use rocmrpm_base::html::{PAGE_STYLE, escape};
use rocmrpm_base::style::{count, human_size};

/// How many subjects get their own table of targets.
const MAX_TABLES: usize = 30;

/// Returns a report as a self-contained HTML page.
pub fn to_html(report: &Report) -> String {
    let title = match report.subjects.as_slice() {
        [] => "Nothing was inspected".to_owned(),
        [one] => one.name.clone(),
        [first, rest @ ..] => format!("{} and {}", first.name, count(rest.len(), "more subject")),
    };
    let title = escape(&title);
    let parts = [
        head(report, &title),
        device(report),
        graph::section(report),
        details::findings(report),
        details::waived(report),
        details::files(report),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title} - rocmrpm inspect</title>\n<style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n{}\
         <footer>Written by rocmrpm {}. <code>rocmrpm explain RULE</code> has more on each rule.</footer>\n\
         </main>\n</body>\n</html>\n",
        parts.concat(),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Returns the header: what was inspected, what it was compared with, and the result.
fn head(report: &Report, title: &str) -> String {
    let errors = severity_count(report, Severity::Error);
    let warnings = severity_count(report, Severity::Warning);
    let (class, shape, verdict) = match (errors, warnings) {
        (0, 0) => ("good", mark(None), "Nothing speaks against using this"),
        (0, _) => ("warning", mark(Some(Severity::Warning)), "Usable, with warnings"),
        _ => ("error", mark(Some(Severity::Error)), "Not to be used as it is"),
    };
    let targets = report.verdicts().into_iter().map(|verdict| {
        let class = match verdict.served {
            Served::Exactly | Served::Covered => "good",
            Served::No | Served::Partly => "error",
            Served::Unknown => "warning",
            Served::NoCode => "quiet",
        };
        let (target, verdict) = (escape(verdict.target.as_str()), escape(&verdict.to_string()));
        format!("<li><span class=\"mono\">{target}</span> <span class=\"{class}\">{verdict}</span></li>")
    });
    let targets: String = targets.collect();
    let targets =
        if targets.is_empty() { "none were asked for".to_owned() } else { format!("<ul>{targets}</ul>") };
    let system = if report.system.is_empty() { "not stated".to_owned() } else { escape(&report.system) };
    let depth = match report.depth {
        Depth::Quick => "quick: targets and linkage",
        Depth::Deep => "deep: every bundle decoded",
    };
    let files: usize = report.subjects.iter().map(|s| s.files.len()).sum();
    let mut about = format!("{} with ELF code or GPU code", count(files, "file"));
    if let Some(size) = total_size(&report.subjects).filter(|_| !report.subjects.is_empty()) {
        about = format!("{}, {about}", human_size(size));
    }
    format!(
        "<p class=\"kicker\">Inspection</p>\n<h1>{title}</h1>\n\
         <div class=\"verdict {class}\">{shape}<p><strong>{verdict}</strong><span>{}</span></p></div>\n\
         <dl class=\"facts\">\n<div><dt>GPU targets</dt><dd>{targets}</dd></div>\n\
         <div><dt>System to load on</dt><dd>{system}</dd></div>\n<div><dt>Depth</dt><dd>{depth}</dd></div>\n\
         <div><dt>Content</dt><dd>{about}</dd></div>\n</dl>\n",
        escape(&tally(report)),
    )
}

/// Returns the sizes of GPU code: for the set, then for each subject that has any.
fn device(report: &Report) -> String {
    let device = |subjects: &[&Subject], serving, whole| {
        let code = subjects.iter().flat_map(|s| &s.files).flat_map(|f| &f.device);
        tables(report, &sums(code, serving, &report.gpu_targets), serving, whole)
    };
    let with: Vec<&Subject> =
        report.subjects.iter().filter(|s| s.files.iter().any(|f| !f.device.is_empty())).collect();
    let mut text = String::from("<section>\n<h2>GPU code</h2>\n");
    if with.is_empty() {
        text.push_str("<p class=\"lead\">None of the files has GPU code.</p>\n</section>\n");
        return text;
    }
    text.push_str("<p class=\"lead\">Size of the code objects for each target, decompressed. ");
    text.push_str("What runs on a target that was asked for is marked.</p>\n");
    if with.len() > 1 {
        text.push_str("<h3>The whole set</h3>\n");
    }
    text.push_str(&device(&with, true, true));
    text.push_str(&device(&with, false, true));
    for subject in with.iter().filter(|_| with.len() > 1).take(MAX_TABLES) {
        text.push_str(&format!("<h3>{}</h3>\n", escape(&subject.name)));
        text.push_str(&device(&[subject], true, false));
        text.push_str(&device(&[subject], false, false));
    }
    if with.len() > MAX_TABLES {
        text.push_str(&format!("<p class=\"quiet\">and {} more</p>\n", with.len() - MAX_TABLES));
    }
    text + "</section>\n"
}

/// Returns a table of the code with bars; for the whole set it also lists missing targets. A table
/// of code that does not serve its target is collapsed.
fn tables(report: &Report, sums: &[TargetSum<'_>], serving: bool, whole: bool) -> String {
    if sums.is_empty() {
        return String::new();
    }
    let most = sums.iter().map(|sum| sum.bytes).max().unwrap_or(0).max(1);
    let kernels = sums.iter().any(|sum| sum.kernels().is_some());
    let mut rows = String::new();
    if whole && serving {
        report.verdicts().iter().filter(|v| v.served == Served::No).for_each(|v| {
            let empty = if kernels { "<td class=\"num\">-</td>" } else { "" };
            rows.push_str(&format!(
                "<tr class=\"wanted\"><th scope=\"row\" class=\"target\"><span class=\"mono\">{}</span>\
                 <span class=\"tag error\">asked for, missing</span></th><td class=\"track\"></td>\
                 <td class=\"num\">-</td>{empty}<td class=\"num\">-</td><td class=\"place\"></td></tr>\n",
                escape(v.target.as_str()),
            ));
        });
    }
    for sum in sums {
        let wanted = serving && is_wanted(sum.target, &report.gpu_targets);
        let (class, tag) =
            if wanted { (" class=\"wanted\"", "<span class=\"tag\">asked for</span>") } else { ("", "") };
        let width = sum.bytes as f64 * 100.0 / most as f64;
        let kernels = match (kernels, sum.kernels()) {
            (false, _) => String::new(),
            (true, n) => format!("<td class=\"num\">{}</td>", n.unwrap_or_else(|| "-".to_owned())),
        };
        let version = match sum.version() {
            version if version.is_empty() => String::new(),
            version => format!(", version {version}"),
        };
        rows.push_str(&format!(
            "<tr{class}><th scope=\"row\" class=\"target\"><span class=\"mono\">{}</span>{tag}</th>\
             <td class=\"track\"><span class=\"bar\" style=\"width:{width:.1}%\"></span></td>\
             <td class=\"num\">{}</td>{kernels}<td class=\"num\">{}</td><td class=\"quiet place\">{}</td></tr>\n",
            escape(&sum.target.to_string()),
            human_size(sum.bytes),
            number(sum.count),
            escape(&format!("{}{version}", sum.place())),
        ));
    }
    let kernels = if kernels { "<th scope=\"col\" class=\"num\">Kernels</th>" } else { "" };
    let table = format!(
        "<div class=\"scroll\"><table class=\"bars\"><thead><tr><th scope=\"col\">Target</th>\
         <th scope=\"col\" class=\"track\"><span aria-hidden=\"true\"></span></th>\
         <th scope=\"col\" class=\"num\">Size</th>{kernels}<th scope=\"col\" class=\"num\">Code objects</th>\
         <th scope=\"col\" class=\"place\">Where</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    );
    if serving {
        return table;
    }
    let what = format!(
        "Tuning data and embedded code that is not offload code <span class=\"quiet\">{}</span>",
        count(sums.len(), "row")
    );
    format!("<details><summary>{what}</summary>{table}</details>\n")
}

/// Returns a symbol for a severity that works without color: a circle with a cross, a triangle, a
/// square, and a circle with a check mark if there are no findings.
fn mark(severity: Option<Severity>) -> String {
    let (title, shape) = match severity {
        Some(Severity::Error) => {
            ("error", "<circle cx=\"9\" cy=\"9\" r=\"8\"/><path d=\"M6 6l6 6M12 6l-6 6\"/>")
        }
        Some(Severity::Warning) => ("warning", "<path d=\"M9 1.5L17 16H1z\"/><path d=\"M9 7v4.5M9 13v1\"/>"),
        Some(Severity::Info) => {
            ("note", "<rect x=\"1.5\" y=\"1.5\" width=\"15\" height=\"15\"/><path d=\"M9 8v5M9 5v1\"/>")
        }
        None => ("good", "<circle cx=\"9\" cy=\"9\" r=\"8\"/><path d=\"M5.5 9.5l2.5 2.5l4.5-5\"/>"),
    };
    format!(
        "<svg width=\"18\" height=\"18\" viewBox=\"0 0 18 18\" fill=\"none\" stroke=\"currentColor\" \
         stroke-width=\"1.6\" role=\"img\"><title>{title}</title>{shape}</svg>"
    )
}

/// Formats our own text as HTML: text in backticks becomes code.
fn prose(text: &str) -> String {
    let escaped = escape(text);
    let mut out = String::with_capacity(escaped.len());
    let mut pieces = escaped.split('`').peekable();
    let mut code = false;
    while let Some(piece) = pieces.next() {
        // The last backtick may be unpaired.
        match (code, pieces.peek().is_some()) {
            (true, true) => out.push_str(&format!("<code>{piece}</code>")),
            (true, false) => out.push_str(&format!("`{piece}")),
            (false, _) => out.push_str(piece),
        }
        code = !code;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_become_code_in_pairs() {
        assert_eq!(prose("a `b<` c `d"), "a <code>b&lt;</code> c `d");
        assert_eq!(prose("plain"), "plain");
    }
}
