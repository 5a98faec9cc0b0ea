//! The page of a pin set and chroot: what is proved about each component, and every record.

use std::fmt::Write;
use std::time::Duration;

use super::bundle::Imported;
use super::chain::{Chain, Link};
use super::charts::day;
use super::record::{EvidenceRecord, Outcome};
use super::standing::{Standing, standings};
use crate::duration;
use crate::html::{PAGE_STYLE, capital, escape};
use crate::style::{count, human_size};

/// Returns the self-contained page of a pin set and chroot.
pub fn evidence_page(
    chain: &Chain,
    imported: &[Imported],
    stack: &str,
    pins: &str,
    chroot: &str,
) -> String {
    let name = escape(&format!("{pins} for {chroot}"));
    let mut text = head(&format!("{pins} for {chroot} - evidence of {stack}"));
    let _ = writeln!(
        text,
        "<p class=\"kicker\">Evidence of {}</p>\n<h1>{name}</h1>\n\
         <p class=\"lead\">What is proved about the packages of each component, and the records that \
         prove it. A record names the digest of the one before it.</p>",
        escape(stack)
    );
    let standings = standings(chain, imported, chroot);
    text += "<h2>Components</h2>\n";
    text += &components(standings.iter().map(|(name, standing)| (name.as_str(), standing)));
    text += "<h2>Records</h2>\n";
    let of = |link: &&Link| link.record.chroot.as_deref().is_none_or(|other| other == chroot);
    for link in chain.links().iter().rev().filter(of) {
        record(&mut text, link);
    }
    if let Some(last) = chain.links().last() {
        let _ = writeln!(
            text,
            "<footer>{}, the last one with the digest <code>{}</code>.</footer>",
            count(chain.links().len(), "record"),
            last.sha256
        );
    }
    text + "</main>\n</body>\n</html>\n"
}

/// Returns the start of a page up to its main part.
pub(super) fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{PAGE_STYLE}.place {{ white-space: nowrap; }} .lead {{ margin-top: 8px; }}</style>\n</head>\n<body>\n<main>\n",
        escape(title)
    )
}

/// Returns the table of components with their tiers.
pub(super) fn components<'a>(all: impl Iterator<Item = (&'a str, &'a Standing)>) -> String {
    let mut rows = String::new();
    for (name, standing) in all {
        let version = match standing.release.is_empty() {
            true => standing.version.clone(),
            false => format!("{}-{}", standing.version, standing.release),
        };
        let tier = match (standing.tier, &standing.failure) {
            (Some(tier), None) => format!("<span class=\"good\">{tier}</span>"),
            (Some(tier), Some(_)) => format!("<span class=\"error\">{tier}, then failed</span>"),
            (None, Some(_)) => "<span class=\"error\">failed</span>".to_owned(),
            (None, None) => "<span class=\"quiet\">nothing</span>".to_owned(),
        };
        let by = match (&standing.device, &standing.key) {
            (Some(device), _) => format!(" <span class=\"quiet\">on {}</span>", escape(device)),
            (None, Some(key)) => format!(
                " <span class=\"quiet\">by key {}</span>",
                escape(key.get(key.len().saturating_sub(16)..).unwrap_or(key))
            ),
            (None, None) => String::new(),
        };
        let size: u64 = standing.packages.iter().map(|package| package.size).sum();
        let size = if size == 0 { String::new() } else { human_size(size) };
        let took = standing.seconds.map(shown).unwrap_or_default();
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\" class=\"mono\">{}</th><td class=\"mono\">{}</td><td>{tier}{by}</td>\
             <td class=\"place\">{}</td><td class=\"num\">{took}</td><td class=\"num\">{size}</td></tr>",
            escape(name),
            escape(&version),
            escape(day(&standing.since)),
        );
        if let Some(failure) = &standing.failure {
            let _ = writeln!(
                rows,
                "<tr class=\"cause\"><td></td><td colspan=\"5\" class=\"error\">{}</td></tr>",
                escape(&capital(failure))
            );
        }
    }
    if rows.is_empty() {
        return "<p class=\"quiet\">No component has a record.</p>\n".to_owned();
    }
    format!(
        "<div class=\"scroll\"><table class=\"tiers\">\n<thead><tr><th>Component</th><th>Version</th>\
         <th>Proved</th><th class=\"place\">Since</th><th class=\"num\">Build</th><th class=\"num\">Size</th>\
         </tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// Returns a number of seconds for people.
pub(super) fn shown(seconds: f64) -> String {
    let rounded = Duration::try_from_secs_f64(seconds.round()).unwrap_or_default();
    if rounded.is_zero() { format!("{seconds:.1} s") } else { duration::shown(rounded) }
}

/// Returns the class of an outcome.
pub(super) fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed | Outcome::Accepted => "good",
        Outcome::Question => "warning",
        Outcome::Failed => "error",
    }
}

fn record(text: &mut String, Link { record, sha256, .. }: &Link) {
    let EvidenceRecord { number, stage, outcome, summary, finished, .. } = record;
    let _ = writeln!(
        text,
        "<details>\n<summary><span class=\"mono\">{number} {}</span> <span class=\"{}\">{}</span> {}\
         <span class=\"quiet\">{}</span></summary>\n<dl class=\"pairs\">",
        escape(stage),
        class(*outcome),
        outcome.name(),
        escape(summary),
        escape(finished),
    );
    let mut pair = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "<dt>{name}</dt><dd>{value}</dd>");
        }
    };
    let list = |items: Vec<String>| match items.is_empty() {
        true => String::new(),
        false => format!("<ul>{}</ul>", items.concat()),
    };
    if let Some(question) = &record.question {
        pair("Decide", format!("{}<br>{}", escape(&question.what), escape(&question.help)));
    }
    let items = record.details.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
    pair("Details", list(items));
    let packages = record.components.iter().flat_map(|one| &one.packages);
    let items = packages.map(|package| {
        format!(
            "<li><code>{}</code> {} <code class=\"quiet\">{}</code></li>",
            escape(&package.file),
            human_size(package.size),
            escape(&package.header)
        )
    });
    pair("Packages", list(items.collect()));
    let logs = record.logs.iter();
    let items = logs.map(|log| {
        format!(
            "<li><code>{}</code> <code class=\"quiet\">{}</code></li>",
            escape(&log.file),
            log.sha256
        )
    });
    pair("Logs", list(items.collect()));
    let items = record.inputs.iter().map(|(name, value)| {
        format!(
            "<li><code>{}</code> <code class=\"quiet\">{}</code></li>",
            escape(name),
            escape(value)
        )
    });
    pair("Inputs", list(items.collect()));
    let machine = &record.machine;
    pair(
        "Machine",
        escape(&format!(
            "{}, {}, {} of memory, {}",
            machine.processor,
            count(machine.cores, "core"),
            human_size(machine.memory),
            machine.system
        )),
    );
    let tools = record.tools.iter().map(|(name, version)| format!("{name}: {version}"));
    pair("Tools", escape(&tools.collect::<Vec<_>>().join("; ")));
    pair("Time", escape(&format!("{} from {}", shown(record.seconds), record.started)));
    pair("Digest", format!("<code>{sha256}</code>"));
    if let Some(previous) = record.previous {
        pair("Before", format!("<code>{previous}</code>"));
    }
    *text += "</dl>\n</details>\n";
}
