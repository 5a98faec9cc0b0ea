//! Formats a repeated build as text: which packages are identical, and every difference with its
//! usual cause.

use super::{Style, count};
use crate::reproduce::{FileDifference, Package, Reproduction, Section};
use crate::text::visible;

/// The maximum number of listed names of a kind; JSON has all of them.
const SHOWN: usize = 20;

/// Formats the result of rebuilding a component as text for a terminal.
pub fn reproduction_text(done: &Reproduction) -> String {
    let mut text = String::new();
    for (mark, rpms) in [("-", &done.compared.rpms_removed), ("+", &done.compared.rpms_added)] {
        let style = if mark == "-" { Style::Bad } else { Style::Good };
        rpms.iter().for_each(|rpm| {
            text += &format!("{} {}\n", style.paint(mark), Style::Bold.paint(visible(rpm)))
        });
    }
    for package in &done.compared.packages {
        package_text(&mut text, package);
    }
    for cause in done.compared.causes() {
        text += &format!("{} {}\n", Style::Note.paint("cause:"), cause.help());
    }
    if !done.identical {
        text += &format!("new RPMs: {}\n", done.rpms.display());
    }
    text
}

fn package_text(text: &mut String, package: &Package) {
    let same = match package {
        Package { same_bytes: true, .. } => Style::Good.paint("identical"),
        package if package.same() => {
            Style::Good.paint("identical except for when, where, and by whom it was built")
        }
        _ => format!(
            "{}, {} identical",
            Style::Bad.paint("differs"),
            count(package.same_files, "file")
        ),
    };
    *text += &format!("{}  {same}\n", Style::Bold.paint(visible(&package.rpm)));
    for tag in &package.tags {
        *text += &format!("  tag {}: {} -> {}\n", tag.what, visible(&tag.old), visible(&tag.new));
    }
    for (mark, files) in [('-', &package.files_removed), ('+', &package.files_added)] {
        files.iter().take(SHOWN).for_each(|path| *text += &format!("  {mark} {}\n", visible(path)));
        rest(text, files.len());
    }
    package.files.iter().take(SHOWN).for_each(|file| file_text(text, file));
    rest(text, package.files.len());
}

fn rest(text: &mut String, all: usize) {
    if all > SHOWN {
        *text += &format!("    and {} more; --json lists all\n", all - SHOWN);
    }
}

fn file_text(text: &mut String, file: &FileDifference) {
    let content = file.differences.iter().any(|difference| difference.what == "sha256");
    let causes: Vec<&str> = file.content.causes.iter().map(|cause| cause.name()).collect();
    let cause = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
    let what = if content { format!(": content{cause}") } else { String::new() };
    *text += &format!("  {}{what}\n", visible(&file.path));
    for difference in file.differences.iter().filter(|difference| difference.what != "sha256") {
        *text += &format!(
            "    {}: {} -> {}\n",
            difference.what,
            visible(&difference.old),
            visible(&difference.new)
        );
    }
    if !file.content.sections.is_empty() {
        let sections: Vec<String> = file.content.sections.iter().map(section).collect();
        *text += &format!("    sections: {}\n", sections.join(", "));
    }
    if let Some((old, new)) = &file.content.example {
        *text += &format!("    {} {}\n", Style::Bad.paint("-"), visible(old));
        *text += &format!("    {} {}\n", Style::Good.paint("+"), visible(new));
    }
}

fn section(section: &Section) -> String {
    let name = visible(&section.name);
    match (section.old, section.new) {
        (Some(old), Some(new)) if old != new => format!("{name} ({old} -> {new} B)"),
        (Some(_), Some(_)) => name,
        (None, _) => format!("{name} (new)"),
        (Some(_), None) => format!("{name} (removed)"),
    }
}
