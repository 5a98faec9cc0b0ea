//! Formats the dependencies of components: as a tree, for Graphviz, and as a picture.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::html::{PAGE_STYLE, escape};
use crate::text::escaped;

/// A component in the graph.
#[derive(Debug)]
pub struct GraphNode<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its upstream version.
    pub version: &'a str,
    /// The components that it requires.
    pub requires: Vec<&'a str>,
}

/// The height of a box in the picture, the space between boxes, and the width of a character, which
/// is more than the average one has, in pixels.
const HEIGHT: usize = 44;
const GAP: (usize, usize) = (70, 16);
const CHARACTER: usize = 9;
/// The space around the picture, in pixels.
const MARGIN: usize = 12;

/// Returns the graph as a tree for each component that no other one requires. A component that was
/// already shown is marked with `(*)` and not expanded again.
pub fn graph_text(waves: &[Vec<GraphNode<'_>>]) -> String {
    let nodes: BTreeMap<&str, &GraphNode<'_>> =
        waves.iter().flatten().map(|node| (node.name, node)).collect();
    let required: BTreeSet<&str> =
        nodes.values().flat_map(|node| node.requires.iter().copied()).collect();
    let mut text = String::new();
    let mut shown = BTreeSet::new();
    for name in nodes.keys().filter(|name| !required.contains(*name)) {
        branch(&mut text, &nodes, name, &mut shown, "", "");
    }
    text
}

/// Adds a component and what it requires. `first` starts the component's own line, and `rest` the
/// lines below it.
fn branch<'a>(
    text: &mut String,
    nodes: &BTreeMap<&'a str, &'a GraphNode<'a>>,
    name: &'a str,
    shown: &mut BTreeSet<&'a str>,
    first: &str,
    rest: &str,
) {
    let Some(node) = nodes.get(name) else { return };
    let again = !shown.insert(name) && !node.requires.is_empty();
    let mark = if again { " (*)" } else { "" };
    let _ = writeln!(text, "{first}{name} {}{mark}", node.version);
    if again {
        return;
    }
    for (at, required) in node.requires.iter().enumerate() {
        let (turn, below) = if at + 1 == node.requires.len() {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        branch(text, nodes, required, shown, &format!("{rest}{turn}"), &format!("{rest}{below}"));
    }
}

/// Returns the graph in the language of Graphviz. Arrows point to what is required.
pub fn graph_dot(waves: &[Vec<GraphNode<'_>>]) -> String {
    let mut text = "digraph {\n    rankdir = RL\n    node [shape = box]\n".to_owned();
    for node in waves.iter().flatten() {
        let _ = writeln!(text, "    \"{0}\" [label = \"{0}\\n{1}\"]", node.name, node.version);
        for required in &node.requires {
            let _ = writeln!(text, "    \"{}\" -> \"{required}\"", node.name);
        }
    }
    text + "}\n"
}

/// Returns the graph as an SVG picture: one column per wave, from left to right. The boxes use the
/// colors of the reader's browser, light or dark.
pub fn graph_svg(waves: &[Vec<GraphNode<'_>>]) -> String {
    let (boxes, width, height) = boxes(waves);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>Dependencies of components</title>\n\
         <style>\n\
         :root {{ color-scheme: light dark; font: 13px system-ui, sans-serif }}\n\
         rect {{ fill: light-dark(#fff, #1c1f24); stroke: light-dark(#8a94a0, #6b7580) }}\n\
         text {{ fill: light-dark(#1c1f24, #e8eaed) }}\n\
         .version {{ fill: light-dark(#5a636e, #9aa4af); font-size: 11px }}\n\
         path {{ fill: none; stroke: light-dark(#8a94a0, #6b7580) }}\n\
         </style>\n"
    );
    for node in waves.iter().flatten() {
        let Some(to) = boxes.get(node.name) else { continue };
        for from in node.requires.iter().filter_map(|name| boxes.get(name)) {
            let (x, y, bend) = (from.x + from.width, from.y + HEIGHT / 2, GAP.0 / 2);
            let (to_x, to_y) = (to.x, to.y + HEIGHT / 2);
            let _ = writeln!(
                text,
                "<path d=\"M{x} {y} C{} {y} {} {to_y} {to_x} {to_y}\"/>",
                x + bend,
                to_x - bend
            );
        }
    }
    for node in waves.iter().flatten() {
        let Some(GraphBox { x, y, width }) = boxes.get(node.name) else { continue };
        let (left, name, version) = (x + 10, y + 19, y + 35);
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"6\"/>\
             <text x=\"{left}\" y=\"{name}\">{}</text>\
             <text class=\"version\" x=\"{left}\" y=\"{version}\">{}</text>",
            escaped(node.name),
            escaped(node.version),
        );
    }
    text + "</svg>\n"
}

/// Returns the graph as a self-contained HTML page.
pub fn graph_html(stack: &str, waves: &[Vec<GraphNode<'_>>]) -> String {
    let stack = escape(stack);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <title>{stack} - rocmrpm graph</title>\n<style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n\
         <main>\n<p class=\"kicker\">Components and what they require</p>\n<h1>{stack}</h1>\n\
         <div class=\"scroll\">\n{}</div>\n</main>\n</body>\n</html>\n",
        graph_svg(waves)
    )
}

/// A box in the picture, in pixels.
struct GraphBox {
    x: usize,
    y: usize,
    width: usize,
}

/// Returns the boxes by name, and the width and height of the picture. A column is as wide as its
/// longest text, and is centered.
fn boxes<'a>(waves: &[Vec<GraphNode<'a>>]) -> (BTreeMap<&'a str, GraphBox>, usize, usize) {
    let of_column = |rows: usize| (rows * (HEIGHT + GAP.1)).saturating_sub(GAP.1);
    let height = waves.iter().map(|wave| of_column(wave.len())).max().unwrap_or(0);
    let mut boxes = BTreeMap::new();
    let mut x = MARGIN;
    for wave in waves {
        let texts = wave.iter().flat_map(|node| [node.name, node.version]);
        let width = 20 + CHARACTER * texts.map(|text| text.chars().count()).max().unwrap_or(0);
        let mut y = MARGIN + (height - of_column(wave.len())) / 2;
        for node in wave {
            boxes.insert(node.name, GraphBox { x, y, width });
            y += HEIGHT + GAP.1;
        }
        x += width + GAP.0;
    }
    (boxes, x.saturating_sub(GAP.0) + MARGIN, height + 2 * MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waves() -> Vec<Vec<GraphNode<'static>>> {
        let node = |name, requires: &[&'static str]| GraphNode {
            name,
            version: "1.0",
            requires: requires.to_vec(),
        };
        vec![
            vec![node("llvm", &[])],
            vec![node("triton", &["llvm"])],
            vec![node("torch", &["llvm", "triton"])],
            vec![node("audio", &["torch"]), node("vision", &["torch"])],
        ]
    }

    #[test]
    fn shows_each_component_once_in_full() {
        assert_eq!(
            graph_text(&waves()),
            "audio 1.0\n\
             └── torch 1.0\n\
             \u{20}   ├── llvm 1.0\n\
             \u{20}   └── triton 1.0\n\
             \u{20}       └── llvm 1.0\n\
             vision 1.0\n\
             └── torch 1.0 (*)\n"
        );
    }

    #[test]
    fn writes_an_edge_for_each_requirement() {
        let dot = graph_dot(&waves());
        assert_eq!(dot.matches(" -> ").count(), 5);
        assert!(dot.contains("    \"torch\" -> \"triton\"\n"), "{dot}");
        let svg = graph_svg(&waves());
        assert_eq!((svg.matches("<path ").count(), svg.matches("<rect ").count()), (5, 5));
        assert_eq!(graph_svg(&[]).matches("<rect ").count(), 0);
    }
}
