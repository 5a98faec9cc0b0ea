//! Formats the watch list: the state of each entry, what it means, and what to do.

use super::{Style, count};
use crate::text::visible;
use crate::watch::Watched;

/// Returns the entries of a watch list as text.
pub fn watch_text(watched: &[Watched]) -> String {
    let mut text = format!("{}\n", Style::Bold.paint("watch list"));
    for entry in watched {
        let state = match (entry.state, &entry.checked) {
            (None, _) => Style::Warning.paint("unknown"),
            (Some(state), _) if entry.due => Style::Warning.paint(state.name()),
            (Some(state), _) if entry.error.is_none() => state.name().to_owned(),
            (Some(state), None) => format!("last known as {}", state.name()),
            (Some(state), Some(day)) => format!("{} on {day}", state.name()),
        };
        text.push_str(&format!("  {} {state}\n", visible(&entry.url)));
        if !entry.pins.is_empty() {
            text.push_str(&format!("      concerns: {}\n", entry.pins.join(", ")));
        }
        let action = if entry.due { "do now" } else { "then" };
        for (what, note) in [("means", &entry.means), (action, &entry.action)] {
            text.push_str(&format!("      {what}: {}\n", visible(note)));
        }
        for reason in &entry.stale {
            let word = Style::Warning.paint("warning:");
            text.push_str(&format!("      {word} {}\n", visible(reason)));
        }
    }
    text
}

/// Returns a warning that states are those of an earlier run or of `watch.toml`.
pub fn watch_warning(watched: &[Watched]) -> Option<String> {
    let mut unknown = watched.iter().filter_map(|entry| entry.error.as_ref());
    let first = unknown.next()?;
    let states = count(1 + unknown.count(), "state");
    Some(format!("{states} of the watch list could not be updated; the first reason: {first}"))
}
