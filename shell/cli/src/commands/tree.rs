//! A flow's graph for people: as a tree, and as a Mermaid diagram.

use selvedge::inspect::{FlowGraph, Join, Node};
use selvedge_core::id::ExecutionId;

use super::output::escape_control;

/// The tree, one execution per line.
pub(crate) fn tree(graph: &FlowGraph) -> String {
    let flow = &graph.flow;
    let mut text =
        format!("flow {} {} ({})", flow.id, escape_control(flow.kind.as_str()), graph.state());
    for (depth, id) in graph.tree() {
        let Some(node) = graph.nodes.get(id) else { continue };
        let indent = "  ".repeat(depth.min(DEPTH_DRAWN) + 1);
        let indent = if depth > DEPTH_DRAWN { format!("{indent}({depth}) ") } else { indent };
        let label = escape_control(graph.label(id));
        text.push_str(&format!("\n{indent}{} {label}  {}", mark(&node.state), node.state));
        text.push_str(&also_after(graph, node));
        text.push_str(&format!("  {id}"));
    }
    if let Some(cut) = cut(graph) {
        text.push_str(&format!("\n  {cut}"));
    }
    text
}

/// What is not drawn, and how to see it.
fn cut(graph: &FlowGraph) -> Option<String> {
    let more = graph.omitted();
    let (id, all) = (graph.flow.id, more.saturating_add(graph.nodes.len() as u64));
    (more > 0)
        .then(|| format!("… and {more} more; `selvedge flow show {id} --limit {all}` shows them"))
}

/// The diagram, for anything that draws Mermaid.
pub(crate) fn mermaid(graph: &FlowGraph) -> String {
    let numbers: Vec<&ExecutionId> = graph.nodes.keys().collect();
    let number = |id: &ExecutionId| numbers.iter().position(|known| *known == id);
    let mut text = "graph TD".to_owned();
    for (at, (id, node)) in graph.nodes.iter().enumerate() {
        let label: String = graph
            .label(id)
            .chars()
            .map(|c| if c == '"' || c.is_control() { '\'' } else { c })
            .collect();
        text.push_str(&format!("\n  n{at}[\"{label}<br/>{}\"]:::{}", node.state, node.state));
    }
    for (at, node) in graph.nodes.values().enumerate() {
        let label = match node.join {
            Join::All => String::new(),
            Join::Any => "|any|".to_owned(),
            Join::Quorum(k) => format!("|{k} of {}|", all_upstreams(node)),
            _ => String::new(),
        };
        for from in node.upstreams.iter().filter_map(number) {
            text.push_str(&format!("\n  n{from} -->{label} n{at}"));
        }
        let drawn = node.upstreams.iter().filter_map(number).count();
        if let more @ 1.. = all_upstreams(node).saturating_sub(drawn) {
            text.push_str(&format!("\n  more{at}[\"{more} more\"] -.->{label} n{at}"));
        }
    }
    if let Some(cut) = cut(graph) {
        text.push_str(&format!("\n  cut[\"{cut}\"]"));
    }
    text
}

/// How many upstreams a node has, drawn or not.
fn all_upstreams(node: &Node) -> usize {
    let omitted = usize::try_from(node.upstreams_omitted).unwrap_or(usize::MAX);
    node.upstreams.len().saturating_add(omitted)
}

/// What it waits for besides the one that it stands under, and how many of all.
fn also_after(graph: &FlowGraph, node: &Node) -> String {
    if node.upstreams.len() < 2 {
        return String::new();
    }
    let mut names: Vec<String> =
        node.upstreams.iter().map(|id| escape_control(graph.label(id))).collect();
    names.sort();
    let more = all_upstreams(node).saturating_sub(NAMES_TOLD);
    names.truncate(NAMES_TOLD);
    let mut names = names.join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    match node.join {
        Join::All => format!("  (after {names})"),
        Join::Any => format!("  (after any of {names})"),
        Join::Quorum(k) => format!("  (after {k} of {names})"),
        _ => format!("  ({names})"),
    }
}

/// How deep a tree is drawn as one; further down a number tells the depth.
const DEPTH_DRAWN: usize = 20;
/// Upstreams that are named in a line.
const NAMES_TOLD: usize = 8;

fn mark(state: &str) -> char {
    match state {
        "completed" => '✓',
        "failed" | "expired" => '✗',
        "cancelled" | "skipped" => '–',
        "active" => '▶',
        _ => '·',
    }
}
