//! Formats patches and edits: one line each, followed by the parts that do not apply.

use super::{Style, count};
use crate::patches::{Failure, PatchState, Refreshed, Series};
use crate::text::visible;

/// The maximum number of lines of a diff.
const SHOWN: usize = 40;

/// Returns the output of `rocmrpm patch status` for a component.
pub fn series_text(series: &Series) -> String {
    let mut text =
        format!("{}\n", Style::Bold.paint(format!("{} {}", series.component, series.version)));
    for patch in &series.patches {
        let notes = [("origin", &patch.origin), ("drop when", &patch.drop_when)];
        append_status(
            &mut text,
            &patch.state,
            &visible(&patch.file),
            &patch.versions,
            &patch.remarks,
            &notes,
        );
        failures(&mut text, &patch.state);
    }
    for edit in &series.edits {
        let name = format!("edit of {}: `{}`", visible(&edit.file), visible(&edit.find));
        let notes = [("reason", &edit.reason), ("drop when", &edit.drop_when)];
        append_status(&mut text, &edit.state, &name, &edit.versions, &edit.remarks, &notes);
        failures(&mut text, &edit.state);
        for (line, near) in &edit.near {
            text.push_str(&format!("        line {line}: {}\n", visible(near)));
        }
    }
    if series.patches.is_empty() && series.edits.is_empty() {
        text.push_str("  no patches or edits\n");
    }
    text
}

fn append_status(
    text: &mut String,
    state: &PatchState,
    name: &str,
    versions: &str,
    remarks: &[String],
    notes: &[(&str, &String)],
) {
    let (style, word) = match state {
        PatchState::Applies => (Style::Good, "applies".to_owned()),
        PatchState::Offset { offsets } => {
            let most =
                offsets.iter().map(|offset| offset.offset).max_by_key(|n| n.abs()).unwrap_or(0);
            let lines = count(most.unsigned_abs().try_into().unwrap_or(usize::MAX), "line");
            (Style::Warning, format!("applies with an offset of up to {lines}"))
        }
        PatchState::Fails { .. } => (Style::Bad, "does not apply".to_owned()),
        PatchState::OtherVersion => (Style::Dim, "is for other versions".to_owned()),
        PatchState::Unused => (Style::Warning, "is for versions that no pin set has".to_owned()),
    };
    let versions = if versions.is_empty() { String::new() } else { format!(" ({versions})") };
    text.push_str(&format!("  {name}{versions} {}\n", style.paint(word)));
    for (what, note) in notes.iter().filter(|(_, note)| !note.is_empty()) {
        text.push_str(&format!("      {what}: {}\n", visible(note)));
    }
    for remark in remarks {
        text.push_str(&format!("      {} {remark}\n", Style::Warning.paint("warning:")));
    }
}

/// Appends the parts of a patch or an edit that do not apply.
pub(super) fn failures(text: &mut String, state: &PatchState) {
    let PatchState::Fails { failures } = state else { return };
    for failure in failures {
        let Failure { file, hunk, header, problem, .. } = failure;
        let hunk = hunk.map(|n| format!(", hunk {n}")).unwrap_or_default();
        let header =
            header.as_ref().map(|header| format!(" ({})", visible(header))).unwrap_or_default();
        let place = if file.is_empty() {
            String::new()
        } else {
            format!("{}{hunk}{header}: ", visible(file))
        };
        text.push_str(&format!("      {place}{problem}\n"));
        for other in &failure.elsewhere {
            text.push_str(&format!("        a file with that name: {}\n", visible(other)));
        }
        match (&failure.upstream, &failure.near) {
            (Some(change), _) if change.diff.is_empty() => {
                text.push_str(&format!(
                    "        {} has it, {} no longer has it\n",
                    change.from, change.to
                ));
            }
            (Some(change), _) => {
                let heading =
                    format!("upstream changed this from {} to {}:", change.from, change.to);
                diff(text, &heading, &change.diff);
            }
            (None, Some(near)) => {
                let heading = format!(
                    "the closest match is at line {}; `-` is expected, `+` is found:",
                    near.line
                );
                diff(text, &heading, &near.diff);
            }
            (None, None) => {}
        }
    }
}

fn diff(text: &mut String, heading: &str, diff: &str) {
    text.push_str(&format!("        {heading}\n"));
    for line in diff.lines().take(SHOWN) {
        let style = match line.as_bytes().first() {
            Some(b'+') => Some(Style::Good),
            Some(b'-') => Some(Style::Bad),
            Some(b'@') => Some(Style::Note),
            _ => None,
        };
        let line = line.split('\t').map(visible).collect::<Vec<_>>().join("\t");
        let line = style.map_or_else(|| line.clone(), |style| style.paint(&line));
        text.push_str(&format!("        | {line}\n"));
    }
    let more = diff.lines().count().saturating_sub(SHOWN);
    if more > 0 {
        text.push_str(&format!("        | ... {more} more lines; `--json` lists them\n"));
    }
}

/// Returns the patch that `rocmrpm patch refresh` could not refresh, with the reason.
pub fn conflict_text(refreshed: &Refreshed) -> String {
    let Some(conflict) = &refreshed.conflict else { return String::new() };
    let name = format!("{} {}", refreshed.component, refreshed.version);
    let mut text = format!("{}\n", Style::Bold.paint(name));
    text.push_str(&format!("  {} {}\n", visible(&conflict.file), Style::Bad.paint("conflicts")));
    text.push_str(&format!("      {}\n", conflict.problem));
    if !conflict.diff.is_empty() {
        diff(&mut text, "the result of git's merge:", &conflict.diff);
    }
    text.push_str(&format!("      {} {}\n", Style::Note.paint("help:"), conflict.help));
    text
}
