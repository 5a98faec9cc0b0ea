//! Formats a closure as compact text for a terminal: totals, then the members by place. It is
//! readable without color.

use super::{Group, groups, installed, maker, meaning, named, size, version};
use crate::closure::diff::{Difference, MemberChange};
use crate::closure::why::MembershipReason;
use crate::closure::{Closure, Member};
use crate::report::{Style, Table, count, human_size};
use crate::table::width_up_to;
use crate::text::visible;
use crate::workspace::MemberPlace;

/// The maximum width of lines that can be wrapped, unless the terminal is narrower.
const WIDTH: usize = 96;

fn style(place: MemberPlace) -> Style {
    match place {
        MemberPlace::System => Style::Dim,
        MemberPlace::Rpm => Style::Good,
        MemberPlace::Private => Style::Warning,
        MemberPlace::Dropped => Style::Bad,
    }
}

/// Formats a closure as text for a terminal.
pub fn closure_text(closure: &Closure) -> String {
    let as_of = match closure.graph.not_after {
        Some(day) => format!("as of {day}"),
        None => "not limited by date".to_owned(),
    };
    let about = format!("for {} with the pins of {}, {as_of}", closure.chroot, closure.pins);
    let head = Style::Bold.paint(visible(closure.graph.component.as_str()));
    let mut text = format!("{head}  {}\n\n", Style::Dim.paint(visible(&about)));
    let groups = groups(closure);
    // Some indexes do not state sizes.
    let sized = |bytes| if bytes == 0 { String::new() } else { human_size(bytes) };
    for group in &groups {
        let size = sized(group.bytes);
        let name = style(group.place).paint(format!("{:<8}", group.place.name()));
        let counted = format!("{:>5}  {size:>9}", group.members.len());
        text.push_str(&format!("  {name}{counted}  {}\n", meaning(group.place, &closure.chroot)));
    }
    let members = closure.members.len();
    let size = sized(groups.iter().map(|group| group.bytes).sum());
    let line = format!("  {:<8}{members:>5}  {size:>9}", "all");
    text.push_str(&format!("{}\n", line.trim_end()));
    for group in groups.iter().filter(|group| !group.members.is_empty()) {
        text.push_str(&format!("\n{}\n", style(group.place).paint(group.place.name())));
        text.push_str(&group_text(group));
    }
    text
}

/// Formats the members of a place. Members with a reason beyond their place get rows of their own.
fn group_text(group: &Group<'_>) -> String {
    let decided = |member: &&&Member| member.decided;
    match group.place {
        MemberPlace::System | MemberPlace::Rpm => {
            let plain = |own: bool| {
                let members =
                    group.members.iter().filter(|m| !m.decided && maker(m).is_some() == own);
                members.map(|m| format!("{} {}", m.name, installed(m))).collect::<Vec<_>>()
            };
            let decided: Vec<_> = group.members.iter().filter(decided).copied().collect();
            let (own, others) = (plain(true), plain(false));
            let mut text = String::new();
            if !own.is_empty() {
                text.push_str(&wrapped("from this stack: ", &own));
            }
            text.push_str(&wrapped("", &others));
            text + &rows(&decided)
        }
        MemberPlace::Private => rows(&group.members),
        MemberPlace::Dropped => {
            let mut table = Table::new(&["  name", "without it", "reason"]);
            for member in &group.members {
                let without = member.without.clone().unwrap_or_default();
                table.row([format!("  {}", member.name), without, member.reason.clone()]);
            }
            table.text()
        }
    }
}

fn rows(members: &[&Member]) -> String {
    if members.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["  name", "version", "    size", "reason"]);
    for member in members {
        let reason = match member.decided {
            true => format!("{} (decided)", member.reason),
            false => member.reason.clone(),
        };
        let size = size(member).map(human_size).unwrap_or_default();
        table.row([format!("  {}", member.name), installed(member), format!("{size:>8}"), reason]);
    }
    table.text()
}

/// Wraps a list of names into as few lines as possible.
fn wrapped(head: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut text = format!("  {head}");
    let mut used = text.chars().count();
    for (at, item) in items.iter().enumerate() {
        let item = visible(item) + if at + 1 < items.len() { "," } else { "" };
        let length = item.chars().count();
        if at > 0 {
            if used + 1 + length > width_up_to(WIDTH) {
                text.push_str("\n  ");
                used = 2;
            } else {
                text.push(' ');
                used += 1;
            }
        }
        text.push_str(&item);
        used += length;
    }
    text + "\n"
}

/// Formats why a distribution is a member, as text for a terminal.
pub fn why_text(closure: &Closure, why: &MembershipReason<'_>) -> String {
    let member = why.member;
    let place = style(member.place).paint(member.place.name());
    let head =
        Style::Bold.paint(visible(format!("{} {}", member.name, version(member)).trim_end()));
    let decided = if member.decided { " (decided in component.toml)" } else { "" };
    let mut text = format!("{head}  {place}\n");
    text.push_str(&row("because", &format!("{}{decided}", member.reason)));
    if let Some(without) = &member.without {
        text.push_str(&row("without it", without));
    }
    for (at, edge) in why.chain.iter().enumerate() {
        let label = if at == 0 { "chain" } else { "" };
        text.push_str(&row(
            label,
            &format!("{} requires {}", named(closure, &edge.from), edge.text),
        ));
    }
    if why.others > 0 {
        let others = match why.others {
            1 => "1 other chain is as short".to_owned(),
            n => format!("{n} other chains are as short"),
        };
        text.push_str(&row("", &others));
    }
    let mut table = Table::new(&["  required by", "place", "as"]);
    for edge in &why.required_by {
        let place = closure.members.get(&edge.from).map_or("", |member| member.place.name());
        table.row([
            format!("  {}", named(closure, &edge.from)),
            place.to_owned(),
            edge.text.clone(),
        ]);
    }
    text + "\n" + &table.text()
}

fn row(label: &str, value: &str) -> String {
    format!("  {} {}\n", Style::Dim.paint(format!("{label:<10}")), visible(value))
}

/// Formats the differences between two lock files, as text for a terminal.
pub fn diff_text(differences: &[Difference]) -> String {
    let mut text = String::new();
    let mut table = Table::new(&["", "name", "before", "after", "place"]);
    for what in MemberChange::ALL {
        for difference in differences.iter().filter(|difference| difference.what() == what) {
            let style = match what {
                MemberChange::Added | MemberChange::Up => Style::Good,
                MemberChange::Removed => Style::Bad,
                MemberChange::Down => Style::Warning,
                MemberChange::Other => Style::Note,
            };
            let (old, new) = &difference.versions;
            let mut after = new.as_ref().map(ToString::to_string).unwrap_or_default();
            match difference.own {
                Some(true) => after.push_str(" (now built by the stack)"),
                Some(false) => after.push_str(" (now from the index)"),
                None => {}
            }
            if difference.files {
                after.push_str(" (other files)");
            }
            let places =
                difference.places.map(|(old, new)| format!("{} -> {}", old.name(), new.name()));
            table.styled_row(vec![
                (Some(style), what.name().to_owned()),
                (None, difference.name.clone()),
                (None, old.as_ref().map(ToString::to_string).unwrap_or_default()),
                (None, after),
                (None, places.unwrap_or_default()),
            ]);
        }
    }
    if !differences.is_empty() {
        text.push_str(&table.text());
        text.push('\n');
    }
    let tally: Vec<String> = MemberChange::ALL
        .iter()
        .map(|what| {
            (what, differences.iter().filter(|difference| difference.what() == *what).count())
        })
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| format!("{n} {}", what.name()))
        .collect();
    let line = match differences.len() {
        0 => Style::Good.paint("no differences"),
        n => format!("{}: {}", Style::Warning.paint(count(n, "difference")), tally.join(", ")),
    };
    text + &line + "\n"
}
