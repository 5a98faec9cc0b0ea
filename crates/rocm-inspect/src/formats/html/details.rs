//! Renders findings as cards, waived findings, and the list of files with their details.

use std::collections::BTreeMap;

use super::{mark, prose};
use crate::formats::{
    Group, groups, is_wanted, list, needs_by_file, number, partial, place, severity_word,
};
use crate::{ElfFacts, FileFacts, Finding, Need, Relro, Report, Severity, Storage, rule};
use rocmrpm_base::html::{capital, escape};
use rocmrpm_base::style::{count, human_size};

/// How many locations per rule a card shows, and how many files the page lists.
const MAX_PLACES: usize = 8;
const MAX_FILES: usize = 1000;

/// Returns the section of findings: one card per rule, worst first.
pub(super) fn findings(report: &Report) -> String {
    let groups = groups(report);
    let mut text = String::from("<section>\n<h2>Findings</h2>\n");
    if groups.is_empty() {
        text.push_str("<p class=\"lead\">No findings.</p>\n");
    }
    groups.iter().for_each(|group| text.push_str(&card(report, group)));
    text + "</section>\n"
}

fn card(report: &Report, group: &Group<'_>) -> String {
    let class = match group.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let rule = rule(group.id);
    let what = prose(&capital(rule.map_or(group.id, |rule| rule.what)));
    let places = match group.findings.len() {
        1 => String::new(),
        n => format!("<span class=\"quiet\">{}</span>", count(n, "finding")),
    };
    let mut pairs = String::new();
    let mut places_shown: Vec<(String, Vec<&Finding>)> = Vec::new();
    for finding in group.findings.iter().take(MAX_PLACES) {
        let here = place_html(report, finding);
        match places_shown.last_mut() {
            Some((place, findings)) if *place == here => findings.push(finding),
            _ => places_shown.push((here, vec![finding])),
        }
    }
    if same(group, |f| &f.found) && same(group, |f| &f.expected) {
        pairs.push_str(&pair("Where", &items(places_shown.iter().map(|(place, _)| place.clone()))));
    } else {
        for (place, findings) in &places_shown {
            pairs.push_str(&pair("Where", place));
            if !same(group, |f| &f.found) {
                pairs.push_str(&pair("Found", &items(findings.iter().map(|f| escape(&f.found)))));
            }
            if !same(group, |f| &f.expected) {
                pairs.push_str(&pair(
                    "Expected",
                    &items(findings.iter().map(|f| escape(&f.expected))),
                ));
            }
        }
    }
    let rest = group.findings.get(MAX_PLACES..).unwrap_or_default();
    if !rest.is_empty() {
        pairs.push_str(&pair(
            "",
            &format!("<span class=\"quiet\">and {} more</span>", number(rest.len() as u64)),
        ));
    }
    if let Some(first) = group.findings.first() {
        if same(group, |f| &f.found) {
            pairs.push_str(&pair("Found", &escape(&first.found)));
        }
        if same(group, |f| &f.expected) {
            pairs.push_str(&pair("Expected", &escape(&first.expected)));
        }
        pairs.push_str(&pair("Help", &prose(&sentence(&first.help))));
    }
    if let Some(rule) = rule {
        pairs.push_str(&pair(
            "Why",
            &format!("<span class=\"quiet\">{}</span>", prose(&sentence(rule.why))),
        ));
        if !rule.incident.is_empty() {
            let incident = prose(&sentence(rule.incident));
            pairs.push_str(&pair("Incident", &format!("<span class=\"quiet\">{incident}</span>")));
        }
    }
    let all = all_places(report, rest);
    format!(
        "<article class=\"card\"><header><span class=\"severity {class}\">{}{}</span><code>{}</code>{places}</header>\
         <h3>{what}</h3><dl class=\"pairs\">{pairs}</dl>{all}</article>\n",
        mark(Some(group.severity)),
        severity_word(group.severity),
        escape(group.id),
    )
}

/// Returns the remaining locations of a rule, collapsed.
fn all_places(report: &Report, rest: &[&Finding]) -> String {
    if rest.is_empty() {
        return String::new();
    }
    let shown = rest.iter().take(MAX_FILES).map(|finding| {
        pair(
            "Where",
            &format!(
                "<code>{}</code><br>{}",
                escape(&place(report, finding)),
                escape(&finding.found)
            ),
        )
    });
    let shown: String = shown.collect();
    format!("<details><summary>Other locations</summary><dl class=\"pairs\">{shown}</dl></details>")
}

fn same(group: &Group<'_>, of: fn(&Finding) -> &str) -> bool {
    group.findings.first().is_some_and(|first| group.findings.iter().all(|f| of(f) == of(first)))
}

/// Returns a rule's text with a capital letter and a period.
fn sentence(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('.') { "" } else { "." };
    format!("{}{end}", capital(text))
}

fn place_html(report: &Report, finding: &Finding) -> String {
    let place = escape(&place(report, finding));
    if finding.subject.is_none() && finding.file.is_none() {
        place
    } else {
        format!("<code>{place}</code>")
    }
}

fn items(html: impl Iterator<Item = String>) -> String {
    let items: String = html.map(|item| format!("<li>{item}</li>")).collect();
    format!("<ul>{items}</ul>")
}

fn pair(name: &str, html: &str) -> String {
    format!("<dt>{name}</dt><dd>{html}</dd>\n")
}

/// Returns the section of waived findings; empty if there are none.
pub(super) fn waived(report: &Report) -> String {
    if report.waived.is_empty() {
        return String::new();
    }
    let cards = report.waived.iter().map(|waived| {
        let finding = &waived.finding;
        let pairs = [
            pair("Where", &place_html(report, finding)),
            pair("Found", &escape(&finding.found)),
            pair("Reason", &escape(&waived.reason)),
            pair("Waived in", &format!("<code>{}</code>", escape(&waived.place))),
        ];
        let what = prose(&capital(rule(finding.id.as_str()).map_or("", |rule| rule.what)));
        format!(
            "<article class=\"card\"><header><span class=\"severity quiet\">waived {}</span><code>{}</code></header>\
             <h3>{what}</h3><dl class=\"pairs\">{}</dl></article>\n",
            severity_word(finding.severity),
            escape(finding.id.as_str()),
            pairs.concat()
        )
    });
    let cards: String = cards.collect();
    format!(
        "<section>\n<h2>Waived</h2>\n<p class=\"lead\">Findings that were accepted with a reason.</p>\n{cards}</section>\n"
    )
}

/// Returns the section of files, each collapsed.
pub(super) fn files(report: &Report) -> String {
    let needs = needs_by_file(report);
    let mut text = String::from("<section>\n<h2>Files</h2>\n");
    let mut left = MAX_FILES;
    for subject in &report.subjects {
        let mut about: Vec<String> = subject.size.map(human_size).into_iter().collect();
        about.push(count(subject.files.len(), "file"));
        if subject.debug {
            about.push("debugging data".into());
        }
        text.push_str(&format!(
            "<h3>{} <span class=\"quiet\">{}</span></h3>\n",
            escape(&subject.name),
            about.join(", ")
        ));
        if let Some(sha256) = &subject.sha256 {
            text.push_str(&format!(
                "<p class=\"quiet\">sha256 <span class=\"mono\">{sha256}</span></p>\n"
            ));
        }
        let shown = subject.files.len().min(left);
        left -= shown;
        text.push_str("<div>\n");
        for file in &subject.files[..shown] {
            let needs = needs
                .get(&(subject.path.as_str(), file.path.as_str()))
                .map_or(&[][..], Vec::as_slice);
            text.push_str(&file_details(report, file, needs));
        }
        text.push_str("</div>\n");
        if shown < subject.files.len() {
            let hidden = number((subject.files.len() - shown) as u64);
            text.push_str(&format!(
                "<p class=\"quiet\">and {hidden} more; <code>--json</code> lists all</p>\n"
            ));
        }
    }
    text + "</section>\n"
}

fn file_details(report: &Report, file: &FileFacts, needs: &[&Need]) -> String {
    let mut targets: Vec<String> = Vec::new();
    for code in file.device.iter().filter(|code| code.storage != Storage::Embedded) {
        targets.extend(Some(code.target.to_string()).filter(|target| !targets.contains(target)));
    }
    let targets = match targets.len() {
        0..=4 => targets.join(", "),
        n => format!("{n} targets"),
    };
    let about = [human_size(file.size), targets];
    let about: Vec<&str> =
        about.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let mut pairs = String::new();
    let mut add = |name: &str, items: Vec<String>| {
        if !items.is_empty() {
            let items: String =
                items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
            pairs.push_str(&pair(name, &format!("<ul>{items}</ul>")));
        }
    };
    add("GPU code", device(report, file));
    let partial = partial(file).into_iter();
    add(
        "Partly",
        partial.map(|(t, n)| format!("{t} in {n} of {} bundles", file.bundles)).collect(),
    );
    if let Some(reference) = &file.kpack_reference {
        let paths = reference.search_paths.join(", ");
        add(
            "kpack",
            vec![format!(
                "{} of {} in {paths}",
                count(reference.pieces as usize, "piece"),
                reference.kernel_name
            )],
        );
    }
    if let Some(kpack) = &file.kpack {
        let about = format!(
            "group {} for {}, {} in the table",
            kpack.group,
            list(&kpack.targets),
            number(kpack.entries)
        );
        add("kpack", vec![format!("{about}, compression {}", kpack.compression)]);
    }
    add("Libraries", libraries(file, needs));
    if let Some(elf) = &file.elf {
        elf_facts(elf, &mut add);
    }
    let damage =
        file.damage.iter().map(|damage| format!("{} at byte {}", damage.what, damage.offset));
    add("Damage", damage.collect());
    let mismatches =
        file.mismatches.iter().map(|m| format!("{} × {} instead of {}", m.count, m.flags, m.id));
    add("Mismatch", mismatches.collect());
    format!(
        "<details><summary><span class=\"mono\">{}</span> <span class=\"quiet\">{}</span></summary>\
         <dl class=\"pairs\">{pairs}</dl></details>\n",
        escape(&file.path),
        escape(&about.join(", ")),
    )
}

fn device(report: &Report, file: &FileFacts) -> Vec<String> {
    let words = file.device.iter().map(|code| {
        let mut words =
            vec![format!("{}: {}", code.target, count(code.count as usize, "code object"))];
        words.push(human_size(code.bytes));
        words.extend(code.kernels.map(|n| format!("{} kernels", number(n))));
        words.extend(code.version.map(|version| format!("version {version}")));
        words.push(super::super::storage_words(code.storage).to_owned());
        words.extend(code.compression.map(|compression| compression.to_string()));
        words.extend(is_wanted(&code.target, &report.gpu_targets).then(|| "requested".to_owned()));
        words.join(", ")
    });
    words.collect()
}

fn libraries(file: &FileFacts, needs: &[&Need]) -> Vec<String> {
    if needs.is_empty() {
        let needed = file.elf.iter().flat_map(|elf| &elf.needed);
        return needed.map(ToString::to_string).collect();
    }
    let words = needs.iter().map(|need| match &need.by {
        Some(by) => format!("{}: {}, {by}", need.library, need.origin),
        None => format!("{}: {}", need.library, need.origin),
    });
    words.collect()
}

fn elf_facts(elf: &ElfFacts, add: &mut impl FnMut(&str, Vec<String>)) {
    add("SONAME", elf.soname.iter().map(ToString::to_string).collect());
    let entry =
        |entry: &String| if entry.is_empty() { "(empty)".to_owned() } else { entry.clone() };
    add("RPATH", elf.rpath.iter().map(entry).collect());
    add("RUNPATH", elf.runpath.iter().map(entry).collect());
    let stack = match elf.executable_stack {
        Some(true) => "executable stack",
        Some(false) => "stack not executable",
        None => "no stack flags",
    };
    let relro = match elf.relro {
        Relro::None => "no RELRO",
        Relro::Partial => "partial RELRO",
        Relro::Full => "full RELRO",
    };
    let stripped = if elf.has_symbols { "not stripped" } else { "stripped" };
    let mut words = vec![format!("{} bits", elf.bits), elf.machine.clone()];
    words.extend([relro, stack, stripped].map(str::to_owned));
    words.extend(elf.text_relocations.then(|| "text relocations".to_owned()));
    add("ELF", vec![words.join(", ")]);
    add("Build ID", elf.build_id.iter().cloned().collect());
    let versions: BTreeMap<&String, &Vec<String>> = elf.versions_needed.iter().collect();
    let newest =
        versions.iter().map(|(library, versions)| format!("{library}: {}", versions.join(", ")));
    add("Versions", newest.collect());
    add("dlopen", elf.dlopen_notes.clone());
    let faults =
        elf.header_faults.iter().map(|fault| format!("{} at byte {}", fault.what, fault.offset));
    add("Headers", faults.collect());
}
