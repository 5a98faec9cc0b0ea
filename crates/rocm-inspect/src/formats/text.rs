//! Formats a report as text for a terminal: the contents of each subject, then the findings, then a
//! line with the result. The text is complete without color.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Group, Program, TargetSum, folder, groups, is_data, is_wanted, needs_by_file, number, order,
    partial, place, severity_word, sums, tally, verdict_line,
};
use crate::{
    FileFacts, Finding, LibraryOrigin, Need, Relro, Report, Severity, Storage, Subject, Target,
    rule,
};
use rocmrpm_base::style::{Style, count, human_size, uncolored};
use rocmrpm_base::table::{Table, width_up_to};
use rocmrpm_base::text::visible;

/// The width at which lines are wrapped where possible, unless the terminal is narrower.
const WIDTH: usize = 96;

/// How many different findings of a rule, and how many locations of a finding, are shown unless all
/// are requested.
const MAX_PLACES: usize = 8;
/// How many locations of one finding are shown if the rule has several different findings.
const MAX_ALIKE: usize = 3;
/// How many files are shown individually unless all are requested.
const MAX_SHOWN: usize = 20;

/// If a folder has more data files than this, they are shown as one.
const MANY_DATA: usize = 4;

/// Options of [`to_text`].
#[derive(Debug, Clone, Copy)]
pub struct TextOptions<'a> {
    /// Shows every file and every place of a finding, and details of ELF files.
    pub verbose: bool,
    /// Colors the text with escape sequences.
    pub color: bool,
    /// The program that the text names.
    pub program: Program<'a>,
}

/// Returns a report as text for a terminal.
pub fn to_text(report: &Report, options: TextOptions<'_>) -> String {
    let text = colored(report, options);
    if options.color { text } else { uncolored(&text) }
}

fn colored(report: &Report, options: TextOptions<'_>) -> String {
    let verbose = options.verbose;
    let mut text = String::new();
    let needs = needs_by_file(report);
    for subject in &report.subjects {
        text.push_str(&subject_text(report, subject, &needs, verbose));
        text.push('\n');
    }
    for group in groups(report) {
        text.push_str(&group_text(report, &group, options));
        text.push('\n');
    }
    for waived in &report.waived {
        let Finding { id, found, .. } = &waived.finding;
        let head = Style::Dim.paint(format!("waived[{id}]:"));
        text.push_str(&format!("{head} {}\n", visible(&place(report, &waived.finding))));
        text.push_str(&row("found", 2, words(found)));
        text.push_str(&row("reason", 2, words(&waived.reason)));
        text.push_str(&row("waived in", 2, words(&waived.place)));
        text.push('\n');
    }
    text.push_str(&last_line(report));
    text
}

fn last_line(report: &Report) -> String {
    let style = match report.findings.iter().map(|f| f.severity).min() {
        Some(Severity::Error) => Style::Bad,
        Some(Severity::Warning) => Style::Warning,
        _ => Style::Good,
    };
    let tally = tally(report);
    let first = tally.chars().count() + 3;
    let tally = style.paint(tally);
    match verdict_line(report) {
        line if line.is_empty() => format!("{tally}\n"),
        line => format!("{tally} | {}\n", broken(words(&line), first, 2)),
    }
}

fn subject_text(
    report: &Report,
    subject: &Subject,
    needs: &BTreeMap<(&str, &str), Vec<&Need>>,
    verbose: bool,
) -> String {
    let mut about: Vec<String> = subject.size.map(human_size).into_iter().collect();
    about.extend((!subject.files.is_empty()).then(|| count(subject.files.len(), "file")));
    if subject.debug {
        about.push("debugging data".into());
    }
    let name = Style::Bold.paint(visible(&subject.name));
    let mut text = format!("{name}  {}\n", Style::Dim.paint(about.join(", ")));
    if subject.files.is_empty() {
        let nothing = match subject.unread.len() {
            0 => "no ELF files, no GPU code".to_owned(),
            n => format!("{} not read; no ELF files, no GPU code in the rest", count(n, "file")),
        };
        text.push_str(&format!("  {nothing}\n"));
        return text;
    }
    text.push_str(&device_text(report, subject));
    let (folded, shown) = fold(&subject.files, verbose);
    let hidden = if verbose { 0 } else { shown.len().saturating_sub(MAX_SHOWN) };
    for file in &shown[..shown.len() - hidden] {
        let needs = needs.get(&(subject.path.as_str(), file.path.as_str()));
        text.push_str(&file_text(file, needs.map_or(&[], Vec::as_slice), verbose));
    }
    if hidden > 0 {
        text.push_str(&format!(
            "\n  ... and {} (--verbose shows all)\n",
            count(hidden, "more file")
        ));
    }
    for (folder, files) in folded {
        text.push_str(&folder_text(report, folder, &files));
    }
    text
}

/// Returns the table of GPU targets over all files of a subject.
fn device_text(report: &Report, subject: &Subject) -> String {
    let device = || subject.files.iter().flat_map(|file| &file.device);
    let code = sums(device(), true, &report.gpu_targets);
    let mut text = String::new();
    if code.is_empty() {
        text.push_str("  no GPU code\n");
    } else {
        text.push_str(&indented(&target_table(report, &code)));
    }
    let other = sums(device(), false, &report.gpu_targets);
    for storage in [Storage::DataFile, Storage::Embedded] {
        let of: Vec<_> = other.iter().filter(|sum| sum.storages.contains(&storage)).collect();
        let Some(first) = of.first() else { continue };
        let targets = match of.len() {
            1 => first.target.to_string(),
            n => format!("{n} targets"),
        };
        let pieces = of.iter().fold(0u64, |sum, s| sum.saturating_add(s.count));
        let bytes = of.iter().fold(0u64, |sum, s| sum.saturating_add(s.bytes));
        let what = match storage {
            Storage::DataFile => "tuning data, no code:",
            _ => "embedded in host files, not offload code:",
        };
        let sum = format!("{} for {targets}, {}", pieces_of(pieces), human_size(bytes));
        text.push_str(&format!("  {} {}\n", Style::Dim.paint(what), visible(&sum)));
    }
    text
}

fn pieces_of(pieces: u64) -> String {
    if pieces == 1 { "1 piece".to_owned() } else { format!("{} pieces", number(pieces)) }
}

fn target_table(report: &Report, sums: &[TargetSum<'_>]) -> String {
    let kernels = sums.iter().any(|sum| sum.kernels().is_some());
    let versions = sums.iter().any(|sum| !sum.versions.is_empty());
    let mut header = vec!["GPU target"];
    header.extend(kernels.then_some("kernels"));
    header.push("code objects");
    header.extend(versions.then_some("version"));
    header.extend(["size", "where"]);
    let rows = sums.iter().map(|sum| {
        let mut row = vec![sum.target.to_string()];
        row.extend(kernels.then(|| sum.kernels().unwrap_or_else(|| "-".to_owned())));
        row.push(number(sum.count));
        row.extend(versions.then(|| sum.version()));
        row.extend([human_size(sum.bytes), sum.place()]);
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    // Numbers are right-aligned, so that they are easy to compare.
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let names: Vec<String> = header
        .iter()
        .enumerate()
        .map(
            |(at, name)| {
                if right(at, header.len()) { pad(name, widths[at]) } else { (*name).to_owned() }
            },
        )
        .collect();
    let mut table = Table::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for (row, sum) in rows.into_iter().zip(sums) {
        let bold = is_wanted(sum.target, &report.gpu_targets).then_some(Style::Bold);
        let cells = row.into_iter().enumerate().map(|(at, cell)| {
            let cell = if right(at, header.len()) { pad(&cell, widths[at]) } else { cell };
            (bold.filter(|_| at == 0), cell)
        });
        table.styled_row(cells.collect());
    }
    // The table is indented.
    table.text_within(width_up_to(WIDTH).saturating_sub(2))
}

/// Returns whether a column has numbers: all between the first and the last do.
fn right(column: usize, columns: usize) -> bool {
    column > 0 && column + 1 < columns
}

fn pad(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

type Folded<'a> = BTreeMap<&'a str, Vec<&'a FileFacts>>;

/// Separates folders with many data files from files that are shown individually.
fn fold(files: &[FileFacts], verbose: bool) -> (Folded<'_>, Vec<&FileFacts>) {
    let mut folded: Folded<'_> = BTreeMap::new();
    if !verbose {
        for file in files.iter().filter(|file| is_data(file)) {
            folded.entry(folder(&file.path)).or_default().push(file);
        }
        folded.retain(|_, files| files.len() > MANY_DATA);
    }
    let shown =
        files.iter().filter(|f| !(is_data(f) && folded.contains_key(folder(&f.path)))).collect();
    (folded, shown)
}

/// Returns a folder of data files, summed up by target.
fn folder_text(report: &Report, folder: &str, files: &[&FileFacts]) -> String {
    let size = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size));
    let name = if folder.is_empty() { "files at the top" } else { folder };
    let about = format!("{}, {}", count(files.len(), "file"), human_size(size));
    let mut text = format!("\n  {}  {}\n", visible(name), Style::Dim.paint(about));
    let mut by_target: BTreeMap<&Target, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        for code in &file.device {
            by_target.entry(&code.target).or_default().insert(&file.path);
        }
    }
    let mut targets: Vec<_> = by_target.into_iter().collect();
    targets
        .sort_by_cached_key(|(target, _)| (!is_wanted(target, &report.gpu_targets), order(target)));
    let sums = targets
        .iter()
        .map(|(target, files)| format!("{target} in {},", number(files.len() as u64)));
    let mut items: Vec<String> = sums.collect();
    if let Some(last) = items.last_mut() {
        last.pop();
    }
    text.push_str(&row("files for", 6, items));
    text
}

fn file_text(file: &FileFacts, needs: &[&Need], verbose: bool) -> String {
    let size = Style::Dim.paint(human_size(file.size));
    let mut text = format!("\n  {}  {size}\n", visible(&file.path));
    let targets = |serving: bool| -> Vec<String> {
        let code = file.device.iter().filter(|code| (code.storage != Storage::Embedded) == serving);
        // Code that was moved elsewhere is shown below.
        let code =
            code.filter(|code| code.target != Target::Unread || file.kpack_reference.is_none());
        let mut targets: Vec<&Target> = code.map(|code| &code.target).collect();
        targets.sort_by_cached_key(|target| order(target));
        targets.dedup();
        targets.into_iter().map(ToString::to_string).collect()
    };
    let mut code = targets(true);
    if let (true, Some(last)) = (file.bundles > 1, code.last_mut()) {
        last.push_str(&format!(" (in {} bundles)", number(file.bundles)));
    }
    text.push_str(&row("GPU code", 6, code));
    let partial = partial(file).into_iter();
    let partial = partial.map(|(target, n)| {
        format!("{target} in {} of {} bundles", number(n), number(file.bundles))
    });
    text.push_str(&row("partly", 6, commas(partial.collect())));
    let mut embedded = targets(false);
    if !embedded.is_empty() {
        embedded.push("(not offload code)".into());
    }
    text.push_str(&row("embedded", 6, embedded));
    if let Some(reference) = &file.kpack_reference {
        let name = format!("{} of {}", pieces_of(reference.pieces), reference.kernel_name);
        let mut items = vec![name, "in".to_owned()];
        items.extend(commas(reference.search_paths.clone()));
        text.push_str(&row("kpack", 6, items));
    }
    if let Some(archive) = &file.kpack {
        let entries = if archive.entries == 1 { "entry" } else { "entries" };
        let about = format!("{} {entries} of {},", number(archive.entries), archive.group);
        text.push_str(&row(
            "kpack",
            6,
            vec![about, format!("compression {}", archive.compression)],
        ));
    }
    text.push_str(&needs_text(file, needs));
    let Some(elf) = &file.elf else { return text };
    text.push_str(&row("RPATH", 6, search_path(&elf.rpath)));
    text.push_str(&row("RUNPATH", 6, search_path(&elf.runpath)));
    if verbose {
        text.push_str(&row("ELF", 6, elf_words(file)));
        text.push_str(&row("build ID", 6, elf.build_id.iter().cloned().collect()));
    }
    text
}

fn search_path(entries: &[String]) -> Vec<String> {
    let named = entries.iter().map(|e| if e.is_empty() { "(empty)" } else { e.as_str() });
    let joined = named.collect::<Vec<_>>().join(":");
    (!entries.is_empty()).then_some(joined).into_iter().collect()
}

/// Returns the details of an ELF file that verbose output adds to linkage.
fn elf_words(file: &FileFacts) -> Vec<String> {
    let Some(elf) = &file.elf else { return Vec::new() };
    let mut words = vec![format!("{} bits", elf.bits), elf.machine.clone()];
    words.extend(elf.soname.as_ref().map(|soname| format!("SONAME {soname}")));
    words.push(match elf.relro {
        Relro::None => "no RELRO".into(),
        Relro::Partial => "partial RELRO".into(),
        Relro::Full => "full RELRO".into(),
    });
    words.push(if elf.has_symbols { "not stripped" } else { "stripped" }.into());
    commas(words)
}

/// Returns where the libraries come from, one row for each origin, or only their names if that was
/// not resolved.
fn needs_text(file: &FileFacts, needs: &[&Need]) -> String {
    let mut text = String::new();
    for origin in [
        LibraryOrigin::Own,
        LibraryOrigin::Provided,
        LibraryOrigin::Foreign,
        LibraryOrigin::Missing,
    ] {
        let mut by: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
        for need in needs.iter().filter(|need| need.origin == origin) {
            by.entry(need.by.as_deref()).or_default().push(need.library.clone());
        }
        let mut items = Vec::new();
        for (by, mut libraries) in by {
            // A file of the set that has the library's name does not need to be named again.
            let is_named = by.is_none_or(|by| libraries.iter().all(|l| by == l));
            if let (false, Some(by), Some(last)) = (is_named, by, libraries.last_mut()) {
                last.push_str(&format!(" ({by}),"));
            } else if let Some(last) = libraries.last_mut() {
                last.push(',');
            }
            items.extend(libraries);
        }
        if let Some(last) = items.last_mut() {
            last.pop();
        }
        text.push_str(&row(&origin.to_string(), 6, items));
    }
    let known: BTreeSet<&str> = needs.iter().map(|need| need.library.as_str()).collect();
    let needed = file.elf.iter().flat_map(|elf| &elf.needed).map(|soname| soname.as_str());
    let rest = needed.filter(|soname| !known.contains(soname)).map(str::to_owned);
    text + &row("needs", 6, rest.collect())
}

fn group_text(report: &Report, group: &Group<'_>, options: TextOptions<'_>) -> String {
    let style = match group.severity {
        Severity::Error => Style::Bad,
        Severity::Warning => Style::Warning,
        Severity::Info => Style::Note,
    };
    let head = format!("{}[{}]:", severity_word(group.severity), group.id);
    let what = rule(group.id).map_or("", |rule| rule.what);
    let what = broken(words(what), head.chars().count() + 1, 12);
    let head = style.paint(head);
    let mut text = format!("{head} {what}\n");
    let all = &group.findings;
    let Some(first) = all.first() else { return text };
    let same = |of: fn(&Finding) -> &str| all.iter().all(|f| of(f) == of(first));
    let same_found = same(|f| &f.found);
    let same_expected = same(|f| &f.expected);
    let same_help = same(|f| &f.help);
    // Identical findings in several files are shown once.
    let mut alike: Vec<Vec<&Finding>> = Vec::new();
    let mut known: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    for finding in all {
        let at =
            *known.entry([&finding.found, &finding.expected, &finding.help]).or_insert(alike.len());
        match alike.get_mut(at) {
            Some(findings) => findings.push(finding),
            None => alike.push(vec![finding]),
        }
    }
    let places = if alike.len() > 1 { MAX_ALIKE } else { MAX_PLACES };
    let (groups, places) =
        if options.verbose { (usize::MAX, usize::MAX) } else { (MAX_PLACES, places) };
    let mut before = None;
    let mut shown = 0;
    for findings in alike.iter().take(groups) {
        let Some(finding) = findings.first() else { continue };
        for (at, finding) in findings.iter().take(places).enumerate() {
            let here = place(report, finding);
            // Several findings in the same file name it once.
            let again = findings.len() == 1 && before.as_ref() == Some(&here);
            if !again && (finding.subject.is_some() || finding.file.is_some()) {
                text.push_str(&row(if at > 0 { "" } else { "in" }, 2, vec![here.clone()]));
            }
            before = (findings.len() == 1).then_some(here);
        }
        if findings.len() > places && alike.len() > 1 {
            text.push_str(&row("", 2, words(&format!("and {} more", findings.len() - places))));
        } else if findings.len() > places {
            text.push_str(&format!("            ... and {} more\n", findings.len() - places));
        }
        shown += findings.len();
        if !same_found {
            text.push_str(&row("found", 2, words(&finding.found)));
        }
        if !same_expected {
            text.push_str(&row("expected", 2, words(&finding.expected)));
        }
        if !same_help {
            text.push_str(&row("help", 2, words(&finding.help)));
        }
    }
    if all.len() > shown {
        text.push_str(&format!("            ... and {} more\n", all.len() - shown));
    }
    for (same, label, value) in [
        (same_found, "found", &first.found),
        (same_expected, "expected", &first.expected),
        (same_help, "help", &first.help),
    ] {
        if same {
            text.push_str(&row(label, 2, words(value)));
        }
    }
    text + &row("why", 2, words(&format!("{} {}", options.program.explain, group.id)))
}

/// Returns a label with its items, wrapped; empty if there are no items.
fn row(label: &str, indent: usize, items: Vec<String>) -> String {
    if items.is_empty() {
        return String::new();
    }
    let start = indent + 10;
    let label = Style::Dim.paint(format!("{label:<9}"));
    format!("{}{label} {}\n", " ".repeat(indent), broken(items, start, start))
}

/// Wraps items. The first line starts at the column `first`, and the others are indented to
/// `start`.
fn broken(items: Vec<String>, first: usize, start: usize) -> String {
    let width = width_up_to(WIDTH);
    let mut text = String::new();
    let mut used = first;
    for (at, item) in items.iter().enumerate() {
        let item = visible(item);
        let length = item.chars().count();
        if at > 0 && used + 1 + length > width {
            text.push_str(&format!("\n{}", " ".repeat(start)));
            used = start;
        } else if at > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(&item);
        used += length;
    }
    text
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Appends a comma to each item except the last.
fn commas(mut items: Vec<String>) -> Vec<String> {
    let last = items.len().saturating_sub(1);
    items.iter_mut().take(last).for_each(|item| item.push(','));
    items
}
