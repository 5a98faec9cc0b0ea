//! The status of all pin sets and chroots, and its page, which needs no server.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::bundle::Imported;
use super::chain::Chain;
use super::charts::{Point, chart, day};
use super::page::{class, components, head, shown};
use super::record::{EvidenceRecord, Outcome};
use super::standing::{Standing, standings};
use crate::html::{capital, escape};
use crate::style::{count, human_size};

/// The most failures that a set shows.
const FAILURES: usize = 5;

/// The status of a pin set.
#[derive(Debug, Clone)]
pub struct SetStatus {
    /// The pin set.
    pub pins: String,
    /// When the newest record was written: RFC 3339 in UTC; empty if there is none.
    pub updated: String,
    /// Newer releases, and other results of the last search.
    pub newer: Vec<String>,
    /// What stopped the last run, if anything did.
    pub blocked: Option<Blocked>,
    /// The chroots.
    pub chroots: Vec<ChrootStatus>,
    /// The last failures, newest first.
    pub failures: Vec<EvidenceRecord>,
    /// The number of records.
    pub records: usize,
}

/// What stopped a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocked {
    /// The stage.
    pub stage: String,
    /// The chroot, if the stage is about one.
    pub chroot: Option<String>,
    /// What is to be decided, or what failed.
    pub what: String,
    /// What to do.
    pub help: Option<String>,
    /// Since when: RFC 3339 in UTC.
    pub since: String,
}

/// The status of a pin set in a chroot.
#[derive(Debug, Clone)]
pub struct ChrootStatus {
    /// The chroot.
    pub chroot: String,
    /// What is proved about each component.
    pub standings: BTreeMap<String, Standing>,
    /// When something was last published, and what.
    pub published: Option<(String, String)>,
    /// The total build time and size after each build.
    builds: (Vec<Point>, Vec<Point>),
}

impl SetStatus {
    /// Reads the status from a chain.
    pub fn of(chain: &Chain, imported: &[Imported], pins: &str) -> Self {
        let mut chroots: Vec<&str> = chain.records().filter_map(|r| r.chroot.as_deref()).collect();
        chroots.sort_unstable();
        chroots.dedup();
        let newer = chain.last("newer", None);
        let failed = chain.records().rev().filter(|r| r.outcome == Outcome::Failed);
        Self {
            pins: pins.to_owned(),
            updated: chain.records().last().map(|r| r.finished.clone()).unwrap_or_default(),
            newer: newer.map(|record| record.details.clone()).unwrap_or_default(),
            blocked: blocked(chain),
            chroots: chroots.iter().map(|of| ChrootStatus::of(chain, imported, of)).collect(),
            failures: failed.take(FAILURES).cloned().collect(),
            records: chain.links().len(),
        }
    }
}

/// Returns what stopped the last run: the newest record, unless it passed.
fn blocked(chain: &Chain) -> Option<Blocked> {
    let record = chain.records().last().filter(|record| !record.is_done())?;
    let question = record.question.as_ref();
    let help = record.details.iter().find_map(|line| line.strip_prefix("help: "));
    Some(Blocked {
        stage: record.stage.clone(),
        chroot: record.chroot.clone(),
        what: question.map_or(&record.summary, |question| &question.what).clone(),
        help: question.map(|question| question.help.clone()).or(help.map(str::to_owned)),
        since: record.finished.clone(),
    })
}

impl ChrootStatus {
    fn of(chain: &Chain, imported: &[Imported], chroot: &str) -> Self {
        let passed = |stage: &'static str| {
            chain.records().filter(move |record| {
                record.stage == stage
                    && record.chroot.as_deref() == Some(chroot)
                    && record.outcome == Outcome::Passed
            })
        };
        let (mut times, mut sizes) = (Vec::new(), Vec::new());
        for record in passed("build") {
            let seconds: f64 = record.components.iter().filter_map(|one| one.seconds).sum();
            let packages = record.components.iter().flat_map(|one| &one.packages);
            let size: u64 = packages.map(|package| package.size).sum();
            let point = |value: f64, shown: String| Point {
                time: record.finished.clone(),
                value,
                shown,
                label: record.summary.clone(),
            };
            times.push(point(seconds, shown(seconds)));
            sizes.push(point(size as f64, human_size(size)));
        }
        let published = passed("publish").next_back();
        Self {
            chroot: chroot.to_owned(),
            standings: standings(chain, imported, chroot),
            published: published.map(|record| (record.finished.clone(), record.summary.clone())),
            builds: (times, sizes),
        }
    }
}

/// Returns the self-contained status page of a stack. `now` is the time of the page, in RFC 3339.
pub fn status_page(stack: &str, sets: &[SetStatus], now: &str) -> String {
    let mut text = head(&format!("{stack} - status"));
    let _ = writeln!(
        text,
        "<p class=\"kicker\">Status, {}</p>\n<h1>{}</h1>",
        escape(&now.replace('T', " ").replace('Z', " UTC")),
        escape(stack)
    );
    if sets.is_empty() {
        text += "<p class=\"quiet\">No pipeline has run yet.</p>\n";
    } else {
        overview(&mut text, sets, now);
    }
    for set in sets {
        let _ = writeln!(text, "<h2 id=\"{0}\">{0}</h2>", escape(&set.pins));
        set_section(&mut text, set, now);
    }
    text + "<footer>Made by <code>rocmrpm pipeline status --html</code> from the records of evidence.\
            </footer>\n</main>\n</body>\n</html>\n"
}

fn overview(text: &mut String, sets: &[SetStatus], now: &str) {
    *text += "<div class=\"scroll\"><table>\n<thead><tr><th>Pin set</th><th>Chroot</th><th>Proved</th>\
              <th>State</th><th>Published</th></tr></thead>\n<tbody>\n";
    for set in sets {
        let state = match &set.blocked {
            Some(blocked) => {
                format!("<span class=\"warning\">stopped at {}</span>", escape(&blocked.stage))
            }
            None => "<span class=\"good\">up to date</span>".to_owned(),
        };
        for of in &set.chroots {
            // A set is as proved as its least proved component.
            let lowest = of.standings.values().map(|standing| standing.tier).min().flatten();
            let lowest = lowest.map_or("nothing".to_owned(), |tier| tier.to_string());
            let published = of.published.as_ref();
            let published = published.map_or("never".to_owned(), |(time, _)| age(time, now));
            let _ = writeln!(
                text,
                "<tr><td><a href=\"#{0}\">{0}</a></td><td class=\"mono\">{1}</td><td>{lowest}</td>\
                 <td>{state}</td><td>{2}</td></tr>",
                escape(&set.pins),
                escape(&of.chroot),
                escape(&published),
            );
        }
    }
    *text += "</tbody>\n</table></div>\n";
}

fn set_section(text: &mut String, set: &SetStatus, now: &str) {
    if let Some(blocked) = &set.blocked {
        let chroot = blocked.chroot.as_ref().map(|of| format!(" for {of}")).unwrap_or_default();
        let help = blocked.help.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "<div class=\"verdict warning\"><div><strong>{}</strong><span>Stopped at {}{}, {}. {}</span>\
             </div></div>",
            escape(&capital(&blocked.what)),
            escape(&blocked.stage),
            escape(&chroot),
            escape(&age(&blocked.since, now)),
            escape(&capital(help)),
        );
    }
    if !set.newer.is_empty() {
        *text += "<h3>Newer releases</h3>\n<ul>\n";
        for line in &set.newer {
            let _ = writeln!(text, "<li class=\"wrap\">{}</li>", escape(line));
        }
        *text += "</ul>\n";
    }
    for of in &set.chroots {
        let _ = writeln!(text, "<h3>{}</h3>", escape(&of.chroot));
        *text += &components(of.standings.iter().map(|(name, one)| (name.as_str(), one)));
        if let Some((time, what)) = &of.published {
            let _ = writeln!(
                text,
                "<p class=\"lead\">Published {}: {}</p>",
                escape(&age(time, now)),
                escape(what)
            );
        }
        let (times, sizes) = &of.builds;
        let charts =
            [chart("Build time of all components", times), chart("Size of all packages", sizes)];
        let charts: String = charts.into_iter().flatten().collect();
        if !charts.is_empty() {
            let _ = writeln!(text, "<div class=\"charts\">\n{charts}</div>");
        }
    }
    if !set.failures.is_empty() {
        *text += "<h3>Last failures</h3>\n";
    }
    for record in &set.failures {
        let chroot = record.chroot.as_ref().map(|of| format!(" for {of}")).unwrap_or_default();
        let _ = write!(
            text,
            "<details>\n<summary><span class=\"{}\">{}{}</span> {}<span class=\"quiet\">{}</span></summary>\n\
             <dl class=\"pairs\"><dt>Details</dt><dd><ul>",
            class(record.outcome),
            escape(&record.stage),
            escape(&chroot),
            escape(&capital(&record.summary)),
            escape(day(&record.finished)),
        );
        for line in &record.details {
            let _ = write!(text, "<li>{}</li>", escape(line));
        }
        for log in &record.logs {
            let _ = write!(text, "<li>Log: <code>{}</code></li>", escape(&log.file));
        }
        *text += "</ul></dd></dl>\n</details>\n";
    }
    let _ = writeln!(text, "<p class=\"lead\">{}.</p>", count(set.records, "record"));
}

/// Returns how long ago a time is. The clock may have been set back since.
fn age(time: &str, now: &str) -> String {
    let parse = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let (Some(then), Some(now)) = (parse(time), parse(now)) else { return time.to_owned() };
    let hours = now.duration_since(then).as_hours();
    match hours {
        i64::MIN..=0 => "less than an hour ago".to_owned(),
        1..=47 => format!("{} ago", count(usize::try_from(hours).unwrap_or(0), "hour")),
        _ => format!("{} ago", count(usize::try_from(hours / 24).unwrap_or(0), "day")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_never_negative() {
        let age = |time: &str| age(time, "2026-11-26T12:00:00Z");
        assert_eq!(age("2026-11-26T12:30:00Z"), "less than an hour ago");
        assert_eq!(age("2026-11-27T12:30:00Z"), "less than an hour ago");
        assert_eq!(age("2026-11-26T11:00:00Z"), "1 hour ago");
        assert_eq!(age("2026-11-20T12:00:00Z"), "6 days ago");
        assert_eq!(age("yesterday"), "yesterday");
    }
}
