//! `rocmrpm graph`.

use std::collections::BTreeSet;
use std::path::Path;

use super::{CommandResult, args, context};
use crate::report::{GraphNode, Shell, graph_dot, graph_html, graph_svg, graph_text};
use crate::stack::Stack;
use args::GraphFormat;

pub(super) fn run(args: &args::Graph, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let selected = stack.named_with_requirements(&args.components)?;
    let names: BTreeSet<&str> = selected.iter().map(|component| component.name.as_str()).collect();
    let waves = stack.waves(&selected);
    let nodes = waves.iter().map(|wave| {
        let nodes = wave.iter().map(|component| {
            let requires = component.requires.iter().map(|required| required.value.as_str());
            let requires = requires.filter(|name| names.contains(name)).collect();
            let version = workspace.pin(component).version.as_str();
            GraphNode { name: component.name.as_str(), version, requires }
        });
        nodes.collect()
    });
    let waves: Vec<Vec<_>> = nodes.collect();
    shell.data(match args.format {
        GraphFormat::Text => graph_text(&waves),
        GraphFormat::Dot => graph_dot(&waves),
        GraphFormat::Svg => graph_svg(&waves),
        GraphFormat::Html => graph_html(&workspace.manifest.name, &waves),
    })?;
    Ok(0)
}
