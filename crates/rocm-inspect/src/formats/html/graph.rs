//! Draws the library graph as SVG: files on the left, their libraries on the right, grouped by
//! origin. Large sets are drawn by folder and package; a table next to the graph lists everything.

use std::collections::{BTreeMap, BTreeSet};

use super::escape;
use crate::formats::{folder, number};
use crate::{LibraryOrigin, Need, Report};
use rocmrpm_base::style::count;

/// How many files are drawn individually, and how many nodes each side has at most.
const MAX_FILES: usize = 20;
const MAX_LEFT: usize = 20;
const MAX_RIGHT: usize = 12;

/// The maximum number of rows in the table.
const MAX_ROWS: usize = 2000;

const WIDTH: usize = 1000;
const NODE: usize = 340;
const ROW: usize = 30;
const BOX: usize = 24;

const ORIGINS: [LibraryOrigin; 4] =
    [LibraryOrigin::Own, LibraryOrigin::Provided, LibraryOrigin::Foreign, LibraryOrigin::Missing];

/// A file or folder: the subject's path and the path inside it.
type SubjectPath = (String, String);

/// A node on the right: its libraries and the files that need them.
type Libraries = (BTreeSet<String>, BTreeSet<SubjectPath>);

/// A row of the table, with missing libraries first: origin, library, provider.
type LibraryRow<'a> = (std::cmp::Reverse<LibraryOrigin>, &'a str, Option<&'a str>);

/// A box of the graph.
struct Node {
    label: String,
    /// The names of everything it represents, for its tooltip.
    all: BTreeSet<String>,
}

/// Returns the section about libraries; empty if no libraries are needed.
pub(super) fn section(report: &Report) -> String {
    if report.needs.is_empty() {
        return String::new();
    }
    let graph = Graph::new(report);
    let libraries: BTreeSet<&str> = report.needs.iter().map(|need| need.library.as_str()).collect();
    format!(
        "<section>\n<h2>Libraries</h2>\n<p class=\"lead\">Origin of {}: this set, a known package of the \
         system, another system (foreign), or unknown (missing).</p>\n\
         <div class=\"graph\" tabindex=\"0\" role=\"region\" aria-label=\"Library graph\">{}</div>\n{}</section>\n",
        count(libraries.len(), "needed library").replace("librarys", "libraries"),
        graph.svg(),
        table(report),
    )
}

/// The nodes of one origin on the right, and how many are not drawn.
type Group = (LibraryOrigin, Vec<Node>, usize);

/// The index on the left, the group on the right, and the index in that group.
type Edge = (usize, usize, usize);

struct Graph {
    left: Vec<Node>,
    /// How many files or folders are not drawn.
    left_hidden: usize,
    right: Vec<Group>,
    edges: BTreeSet<Edge>,
}

/// Returns the right side by origin, and its edges. Nodes are next to the files that need them, so
/// that fewer lines cross.
fn groups(
    rights: &BTreeMap<(LibraryOrigin, String), Libraries>,
    position: &BTreeMap<&SubjectPath, usize>,
) -> (Vec<Group>, BTreeSet<Edge>) {
    let (mut groups, mut edges) = (Vec::new(), BTreeSet::new());
    for origin in ORIGINS {
        let mut of: Vec<_> = rights.iter().filter(|((o, _), _)| *o == origin).collect();
        let hidden = of.len().saturating_sub(MAX_RIGHT);
        if hidden > 0 {
            // Keep the libraries that most files need.
            of.sort_by_key(|(_, (_, users))| std::cmp::Reverse(users.len()));
            of.truncate(MAX_RIGHT);
        }
        of.sort_by_key(|(key, (_, users))| {
            let at: Vec<usize> =
                users.iter().filter_map(|user| position.get(user).copied()).collect();
            (at.iter().sum::<usize>() * 100 / at.len().max(1), *key)
        });
        if of.is_empty() {
            continue;
        }
        let group = groups.len();
        for (number, (_, (_, users))) in of.iter().enumerate() {
            let users = users.iter().filter_map(|user| position.get(user));
            edges.extend(users.map(|at| (*at, group, number)));
        }
        let nodes = of.into_iter().map(|((_, name), (libraries, _))| {
            let label = match libraries.first() {
                Some(only) if libraries.len() == 1 && only == name => name.clone(),
                Some(only) if libraries.len() == 1 => format!("{only} ({name})"),
                _ => format!("{name}: {} libraries", libraries.len()),
            };
            Node { label, all: libraries.clone() }
        });
        groups.push((origin, nodes.collect(), hidden));
    }
    (groups, edges)
}

/// Returns the left side, with the names of subjects if there are several.
fn left_nodes(
    order: Vec<(SubjectPath, (u8, BTreeSet<String>))>,
    report: &Report,
    by_folder: bool,
) -> Vec<Node> {
    let needs = &report.needs;
    let several = needs.iter().any(|need| need.subject != needs[0].subject);
    let name = |path: &str| {
        let subject = report.subjects.iter().find(|subject| subject.path == path);
        subject.map_or_else(|| path.to_owned(), |subject| subject.name.clone())
    };
    let nodes = order.into_iter().map(|((subject, place), (_, all))| {
        let place = if place.is_empty() { "top folder".to_owned() } else { place };
        let label = match by_folder {
            true => format!("{place} ({})", count(all.len(), "file")),
            false => place,
        };
        let label = if several { format!("{}: {label}", name(&subject)) } else { label };
        Node { label, all }
    });
    nodes.collect()
}

impl Graph {
    fn new(report: &Report) -> Self {
        let needs = &report.needs;
        let files: BTreeSet<(&str, &str)> =
            needs.iter().map(|n| (n.subject.as_str(), n.file.as_str())).collect();
        let by_folder = files.len() > MAX_FILES;
        let left_key = |need: &Need| match by_folder {
            true => (need.subject.clone(), folder(&need.file).to_owned()),
            false => (need.subject.clone(), need.file.clone()),
        };
        // Missing and foreign libraries matter most, so their files are never cut off.
        let rank = |origin: LibraryOrigin| match origin {
            LibraryOrigin::Missing => 0,
            LibraryOrigin::Foreign => 1,
            LibraryOrigin::Own | LibraryOrigin::Provided => 2,
        };
        let mut lefts: BTreeMap<SubjectPath, (u8, BTreeSet<String>)> = BTreeMap::new();
        let mut rights: BTreeMap<(LibraryOrigin, String), Libraries> = BTreeMap::new();
        for need in needs {
            let entry = lefts.entry(left_key(need)).or_insert((2, BTreeSet::new()));
            entry.0 = entry.0.min(rank(need.origin));
            entry.1.insert(need.file.clone());
            let key = match (need.origin, &need.by) {
                (LibraryOrigin::Provided, Some(by)) => by.clone(),
                _ => need.library.clone(),
            };
            let entry = rights.entry((need.origin, key)).or_default();
            entry.0.insert(need.library.clone());
            entry.1.insert(left_key(need));
        }
        let mut order: Vec<_> = lefts.into_iter().collect();
        let left_hidden = order.len().saturating_sub(MAX_LEFT);
        if left_hidden > 0 {
            order.sort_by_key(|(_, (rank, files))| (*rank, std::cmp::Reverse(files.len())));
            order.truncate(MAX_LEFT);
            order.sort();
        }
        let position: BTreeMap<&SubjectPath, usize> =
            order.iter().enumerate().map(|(at, (key, _))| (key, at)).collect();
        let (right, edges) = groups(&rights, &position);
        let left = left_nodes(order, report, by_folder);
        Self { left, left_hidden, right, edges }
    }

    fn svg(&self) -> String {
        let rows = |nodes: usize, hidden: usize| (nodes + usize::from(hidden > 0)) * ROW;
        let left_height = 28 + rows(self.left.len(), self.left_hidden);
        let right_height: usize =
            self.right.iter().map(|(_, nodes, hidden)| 44 + rows(nodes.len(), *hidden)).sum();
        let height = left_height.max(right_height.saturating_sub(16)) + 12;
        let left_top = 28 + (height - 12 - left_height) / 2;
        let mut tops = Vec::new();
        let mut y = (height - 12).saturating_sub(right_height.saturating_sub(16)) / 2;
        for (_, nodes, hidden) in &self.right {
            tops.push(y + 28);
            y += 44 + rows(nodes.len(), *hidden);
        }
        let x = WIDTH - NODE;
        let mut text = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"graph-title\">\
             <title id=\"graph-title\">Library graph: files on the left, the libraries that they need on the \
             right by origin. The table below lists the same.</title>\n"
        );
        for (from, group, to) in &self.edges {
            let (Some(source), Some((origin, nodes, _))) =
                (self.left.get(*from), self.right.get(*group))
            else {
                continue;
            };
            let Some(target) = nodes.get(*to) else { continue };
            let y1 = left_top + from * ROW + BOX / 2;
            let y2 = tops[*group] + to * ROW + BOX / 2;
            let (a, b) = (NODE + 120, x - 120);
            text.push_str(&format!(
                "<path class=\"edge {origin}\" d=\"M{NODE} {y1}C{a} {y1} {b} {y2} {x} {y2}\"><title>{}</title></path>\n",
                escape(&format!("{} needs {} ({origin})", source.label, target.label)),
            ));
        }
        text.push_str(&format!(
            "<text class=\"head\" x=\"0\" y=\"{}\">files</text>\n",
            left_top - 12
        ));
        for (at, node) in self.left.iter().enumerate() {
            text.push_str(&node.svg(0, left_top + at * ROW, None, true));
        }
        text.push_str(&more(self.left_hidden, 0, left_top + self.left.len() * ROW));
        for ((origin, nodes, hidden), top) in self.right.iter().zip(tops) {
            let libraries: usize = nodes.iter().map(|node| node.all.len()).sum();
            let what = match (origin, nodes.len() == libraries) {
                (LibraryOrigin::Provided, false) => {
                    format!("{origin}: {libraries} libraries of {} packages", nodes.len())
                }
                _ => format!("{origin}: {libraries}"),
            };
            text.push_str(&format!(
                "<g class=\"{origin}\"><text class=\"head\" x=\"{x}\" y=\"{}\">{what}</text>\n",
                top - 12
            ));
            for (at, node) in nodes.iter().enumerate() {
                text.push_str(&node.svg(x, top + at * ROW, Some(*origin), false));
            }
            text.push_str(&more(*hidden, x, top + nodes.len() * ROW));
            text.push_str("</g>\n");
        }
        text + "</svg>"
    }
}

fn more(hidden: usize, x: usize, y: usize) -> String {
    match hidden {
        0 => String::new(),
        n => format!(
            "<text class=\"sub\" x=\"{}\" y=\"{}\">and {} more, see the table</text>\n",
            x + 12,
            y + 15,
            number(n as u64)
        ),
    }
}

impl Node {
    fn svg(&self, x: usize, y: usize, origin: Option<LibraryOrigin>, keep_end: bool) -> String {
        let all: Vec<&str> = self.all.iter().take(40).map(String::as_str).collect();
        let more = if self.all.len() > 40 {
            format!(" and {} more", self.all.len() - 40)
        } else {
            String::new()
        };
        let (mark, indent) = match origin {
            Some(origin) => (shape(origin, x + 14, y + BOX / 2), 26),
            None => (String::new(), 10),
        };
        let label = shortened(&self.label, (NODE - indent - 8) * 10 / 73, keep_end);
        format!(
            "<g><title>{}</title><rect class=\"node\" x=\"{}.5\" y=\"{y}.5\" width=\"{}\" height=\"{BOX}\" rx=\"3\"/>{mark}\
             <text x=\"{}\" y=\"{}\">{}</text></g>\n",
            escape(&format!("{}: {}{more}", self.label, all.join(", "))),
            x,
            NODE - 1,
            x + indent,
            y + 16,
            escape(&label),
        )
    }
}

/// Returns a symbol for an origin that works without color: circle, square, diamond, cross.
fn shape(origin: LibraryOrigin, x: usize, y: usize) -> String {
    let (left, top, right, bottom) = (x - 4, y - 4, x + 4, y + 4);
    match origin {
        LibraryOrigin::Own => format!("<circle class=\"mark\" cx=\"{x}\" cy=\"{y}\" r=\"4\"/>"),
        LibraryOrigin::Provided => {
            format!("<rect class=\"mark\" x=\"{left}\" y=\"{top}\" width=\"8\" height=\"8\"/>")
        }
        LibraryOrigin::Foreign => {
            format!("<path class=\"mark\" d=\"M{x} {top}L{right} {y}L{x} {bottom}L{left} {y}z\"/>")
        }
        LibraryOrigin::Missing => format!(
            "<path class=\"mark\" d=\"M{left} {top}L{right} {bottom}M{right} {top}L{left} {bottom}\"/>"
        ),
    }
}

/// Shortens a label to a number of characters: paths at the start, names in the middle.
fn shortened(label: &str, most: usize, keep_end: bool) -> String {
    let label = rocmrpm_base::text::visible(label);
    let chars: Vec<char> = label.chars().collect();
    if chars.len() <= most {
        return label;
    }
    let keep = most.saturating_sub(1);
    let head = if keep_end { 0 } else { keep * 2 / 3 };
    let tail = &chars[chars.len() - (keep - head)..];
    chars[..head].iter().chain(&['…']).chain(tail).collect()
}

fn table(report: &Report) -> String {
    let mut libraries: BTreeMap<LibraryRow<'_>, BTreeSet<&str>> = BTreeMap::new();
    for need in &report.needs {
        let key = (std::cmp::Reverse(need.origin), need.library.as_str(), need.by.as_deref());
        libraries.entry(key).or_default().insert(&need.file);
    }
    let rows: String = libraries
        .iter()
        .take(MAX_ROWS)
        .map(|((origin, library, by), files)| {
            let by = by.map_or_else(|| "-".to_owned(), escape);
            let users: Vec<String> = files.iter().take(3).map(|file| escape(file)).collect();
            let rest = files.len().saturating_sub(3);
            let rest = if rest > 0 { format!(" and {} more", number(rest as u64)) } else { String::new() };
            format!(
                "<tr><th scope=\"row\" class=\"mono\">{}</th><td>{}</td><td class=\"wrap\">{by}</td>\
                 <td class=\"mono quiet\">{}{rest}</td></tr>\n",
                escape(library),
                origin.0,
                users.join("<br>"),
            )
        })
        .collect();
    let hidden = libraries.len().saturating_sub(MAX_ROWS);
    let hidden = if hidden > 0 {
        format!("<p class=\"quiet\">and {hidden} more</p>")
    } else {
        String::new()
    };
    format!(
        "<details><summary>All libraries as a table <span class=\"quiet\">{}</span></summary><div class=\"scroll\">\
         <table><thead><tr><th scope=\"col\">Library</th><th scope=\"col\">Origin</th><th scope=\"col\">From</th>\
         <th scope=\"col\">Needed by</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>{hidden}</details>\n",
        libraries.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_distinctive_part_of_long_labels() {
        assert_eq!(shortened("short", 10, false), "short");
        assert_eq!(shortened("demo/lib/libdemo.so", 10, true), "…ibdemo.so");
        assert_eq!(shortened("libaveryverylongname.so.7", 10, false), "libave…o.7");
    }
}
