//! Formats an update of a pin as text: the changes of the pin set, and the upstream changes that
//! matter to a packager. It omits everything that is the same.

use super::patches::failures as failures_text;
use super::{Style, count};
use crate::patches::{EditStatus, PatchState};
use crate::pins::changes::{ChangedValue, Changes, Environment, GpuList, RequirementChange};
use crate::pins::{Changed, Update};
use crate::text::visible;

/// The maximum number of listed names of a kind; JSON has all of them.
const SHOWN: usize = 25;

/// The maximum width of the names of patches and edits.
const NAME: usize = 50;

/// Formats an update as text for a terminal.
pub fn pins_update_text(update: &Update) -> String {
    if update.changed.is_empty() {
        return String::new();
    }
    let mut text = heading(&format!("{} {}", update.component, arrow(&update.old, &update.new)));
    text.push_str(&changed_text(&update.changed));
    for kept in &update.kept {
        let kept = format!("{} stays at {}: {}", kept.source, kept.version, kept.reason);
        text.push_str(&format!("  {} {}\n", Style::Warning.paint('!'), visible(&kept)));
    }
    if !update.comments.is_empty() {
        text.push_str(&heading(&format!(
            "Comments in {} that mention {}",
            update.file, update.old
        )));
        for (line, comment) in &update.comments {
            text.push_str(&format!(
                "  {} {}\n",
                Style::Dim.paint(format!("{line}:")),
                visible(comment)
            ));
        }
    }
    if let Some(reason) = &update.not_compared {
        text.push_str(&heading("Upstream's changes are unknown"));
        text.push_str(&format!("  {} {}\n", Style::Warning.paint('!'), visible(reason)));
    }
    if let Some(changes) = &update.upstream {
        upstream_text(&mut text, changes, update.not_compared.is_none());
    }
    text
}

/// Formats the changed values of a pin set, one per line.
pub fn changed_text(changed: &[Changed]) -> String {
    let width = changed.iter().map(|change| change.key.chars().count()).max().unwrap_or(0);
    let line = |Changed { key, old, new }: &Changed| {
        let value = match old {
            Some(old) if new.is_empty() => format!("{} removed", short(old)),
            Some(old) => arrow(&short(old), &short(new)),
            None => visible(new),
        };
        format!("  {} {value}\n", Style::Dim.paint(format!("{:<width$}", visible(key))))
    };
    changed.iter().map(line).collect()
}

fn upstream_text(text: &mut String, changes: &Changes, compared: bool) {
    if changes.is_empty() {
        if compared {
            text.push_str(&heading("Upstream"));
            text.push_str("  no changes that affect packaging\n");
        }
        return;
    }
    patches_text(text, changes);
    if !changes.gpu.is_empty() {
        text.push_str(&heading("GPU targets"));
        changes.gpu.iter().for_each(|list| gpu_text(text, list));
        for target in &changes.gpu_lost {
            let lost = format!("{target}, which the workspace builds for, was removed from a list");
            text.push_str(&format!("  {} {lost}\n", Style::Bad.paint('!')));
        }
    }
    if let Some(ChangedValue { old, new, .. }) = &changes.python {
        text.push_str(&heading("Python"));
        text.push_str(&format!("  requires-python {}\n", arrow(or_none(old), or_none(new))));
        if let Some(pin) = &changes.pin_python {
            let note = format!("the pin has python = \"{pin}\"");
            text.push_str(&format!("  {} {}\n", Style::Warning.paint('!'), visible(&note)));
        }
    }
    environment_text(text, &changes.environment);
    requirements_text(text, &changes.requirements);
    downloads_text(text, changes);
    moved_text(text, "Submodules", &changes.submodules, |value| format!(" {value}"));
    moved_text(text, "License files", &changes.licenses, |_| String::new());
}

fn patches_text(text: &mut String, changes: &Changes) {
    let Changes { patches, not_tried, left_out, .. } = changes;
    let none =
        patches.as_ref().is_none_or(|series| series.patches.is_empty() && series.edits.is_empty());
    if none && not_tried.is_none() && left_out.is_empty() {
        return;
    }
    text.push_str(&heading("Patches and edits"));
    if let Some(reason) = not_tried {
        let reason = format!("not tried: {}", visible(reason));
        text.push_str(&format!("  {} {reason}\n", Style::Warning.paint('!')));
    }
    if let Some(series) = patches {
        let tried =
            |state: &PatchState| !matches!(state, PatchState::OtherVersion | PatchState::Unused);
        let patches = series.patches.iter().filter(|patch| tried(&patch.state));
        let mut all: Vec<_> =
            patches.map(|patch| (visible(&patch.file), 1, &patch.state)).collect();
        let edits: Vec<&EditStatus> =
            series.edits.iter().filter(|edit| tried(&edit.state)).collect();
        let alike = edits.chunk_by(|a, b| a.file == b.file && a.state == b.state);
        all.extend(alike.map(|edits| (edits_name(edits), edits.len(), &edits[0].state)));
        let width = all.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0).min(NAME);
        for (name, count, state) in all {
            let one = count == 1;
            let (style, word) = match state {
                PatchState::Fails { .. } if one => (Style::Bad, "does not apply"),
                PatchState::Fails { .. } => (Style::Bad, "do not apply"),
                PatchState::Offset { .. } => (Style::Good, "applies at other lines"),
                _ if one => (Style::Good, "applies"),
                _ => (Style::Good, "apply"),
            };
            text.push_str(&format!("  {name:<width$}  {}\n", style.paint(word)));
            failures_text(text, state);
        }
    }
    for left_out in left_out {
        text.push_str(&format!("  {} {}\n", minus(), visible(left_out)));
    }
}

/// Names edits of a file with the same result; failed edits with the text that they search for.
fn edits_name(edits: &[&EditStatus]) -> String {
    let file = edits.first().map_or_else(String::new, |edit| visible(&edit.file));
    match edits {
        [edit, ..] if matches!(edit.state, PatchState::Fails { .. }) => {
            let finds: Vec<String> = edits.iter().map(|edit| visible(&edit.find)).collect();
            format!("edit of {file}: {}", finds.join(" | "))
        }
        [_] => format!("edit of {file}"),
        edits => format!("{} of {file}", count(edits.len(), "edit")),
    }
}

fn gpu_text(text: &mut String, list: &GpuList) {
    let name = if list.name.is_empty() { "a list" } else { &list.name };
    text.push_str(&format!(
        "  {} {}\n",
        visible(name),
        Style::Dim.paint(format!("in {}", visible(&list.file)))
    ));
    for (mark, targets) in [(plus(), &list.added), (minus(), &list.removed)] {
        if !targets.is_empty() {
            text.push_str(&format!("    {mark} {}\n", few(targets)));
        }
    }
}

fn environment_text(text: &mut String, environment: &Environment) {
    let Environment { added, removed } = environment;
    if added.is_empty() && removed.is_empty() {
        return;
    }
    text.push_str(&heading("Environment variables that the build reads"));
    let names = added.iter().map(|read| &read.name).chain(removed.iter().map(|gone| &gone.name));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    // Removed variables that are still exported come first.
    let mut removed: Vec<_> = removed.iter().collect();
    removed.sort_by_key(|gone| gone.exported.is_none());
    let lines = added.iter().map(|read| (plus(), &read.name, &read.place, None));
    let lines = lines.chain(
        removed.iter().map(|gone| (minus(), &gone.name, &gone.place, gone.exported.as_ref())),
    );
    let lines: Vec<_> = lines.collect();
    for (mark, name, place, exported) in lines.iter().take(2 * SHOWN) {
        let place = Style::Dim.paint(visible(place));
        text.push_str(&format!("  {mark} {:<width$}  {place}", visible(name)));
        if let Some(exported) = exported {
            text.push_str(&format!(
                "  {}",
                Style::Warning.paint(format!("still set in {exported}"))
            ));
        }
        text.push('\n');
    }
    more(text, lines.len(), 2 * SHOWN, "variable");
}

fn requirements_text(text: &mut String, requirements: &[RequirementChange]) {
    if requirements.is_empty() {
        return;
    }
    text.push_str(&heading("Requirements"));
    let mut last = "";
    for RequirementChange { place, name, old, new } in requirements.iter().take(2 * SHOWN) {
        if place != last {
            text.push_str(&format!("  {}\n", Style::Dim.paint(visible(place))));
            last = place;
        }
        let both = |texts: &[String]| visible(&texts.join(" | "));
        let line = match (old.as_slice(), new.as_slice()) {
            ([], new) => format!("{} {} {}", plus(), visible(name), both(new)),
            (old, []) => format!("{} {} {}", minus(), visible(name), both(old)),
            (old, new) => format!("  {} {}", visible(name), specifiers(old, new)),
        };
        text.push_str(&format!("    {}\n", line.trim_end()));
    }
    more(text, requirements.len(), 2 * SHOWN, "requirement");
}

fn downloads_text(text: &mut String, changes: &Changes) {
    let Changes { downloads_added, downloads_removed, .. } = changes;
    if downloads_added.is_empty() && downloads_removed.is_empty() {
        return;
    }
    text.push_str(&heading("Downloads of the build scripts"));
    for (mark, points) in [(plus(), downloads_added), (minus(), downloads_removed)] {
        for (what, place) in points.iter().take(SHOWN) {
            text.push_str(&format!(
                "  {mark} {}  {}\n",
                visible(what),
                Style::Dim.paint(visible(place))
            ));
        }
        more(text, points.len(), SHOWN, "download");
    }
}

/// Returns the old and new specifiers, without a marker that is the same.
fn specifiers(old: &[String], new: &[String]) -> String {
    let any = |texts: &[String]| {
        let text = texts.join(" | ");
        if text.is_empty() { "any version".to_owned() } else { text }
    };
    if let ([old], [new]) = (old, new)
        && let (Some((before, marker)), Some((after, same))) =
            (old.split_once(';'), new.split_once(';'))
        && marker == same
    {
        return arrow(before.trim_end(), after.trim_end());
    }
    arrow(&any(old), &any(new))
}

fn moved_text(
    text: &mut String,
    title: &str,
    moved: &[ChangedValue],
    show: impl Fn(&str) -> String,
) {
    if moved.is_empty() {
        return;
    }
    text.push_str(&heading(title));
    for ChangedValue { name, old, new } in moved.iter().take(SHOWN) {
        let (mark, value) = match (old, new) {
            (None, Some(new)) => (plus(), show(new)),
            (Some(old), None) => (minus(), show(old)),
            (Some(old), Some(new)) => {
                let values = (show(old), show(new));
                let shown = if values.0.is_empty() {
                    " changed".into()
                } else {
                    format!("{} ->{}", values.0, values.1)
                };
                (" ".into(), shown)
            }
            (None, None) => continue,
        };
        text.push_str(&format!("  {mark} {}{}\n", visible(name), visible(&value)));
    }
    more(text, moved.len(), SHOWN, "file");
}

fn more(text: &mut String, all: usize, shown: usize, noun: &str) {
    if all > shown {
        let rest = format!("and {} more; --json lists all", count(all - shown, noun));
        text.push_str(&format!("  {}\n", Style::Dim.paint(rest)));
    }
}

fn heading(title: &str) -> String {
    format!("{}\n", Style::Bold.paint(visible(title)))
}

fn plus() -> String {
    Style::Good.paint('+')
}

fn minus() -> String {
    Style::Bad.paint('-')
}

fn or_none(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("none")
}

fn arrow(old: &str, new: &str) -> String {
    format!("{} -> {}", visible(old), visible(new))
}

/// Shortens digests and commit IDs, which are too long to compare by eye.
fn short(value: &str) -> String {
    let hex = matches!(value.len(), 40 | 64) && value.bytes().all(|b| b.is_ascii_hexdigit());
    if hex { format!("{}...", &value[..12]) } else { value.to_owned() }
}

fn few(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).map(|name| visible(name)).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
