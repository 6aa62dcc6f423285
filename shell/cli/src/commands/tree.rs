//! A flow's graph for people: as a tree, and as a Mermaid diagram.

use std::collections::BTreeSet;

use selvedge::inspect::{FlowGraph, Join, Node};
use selvedge_core::id::ExecutionId;

use super::output::escape_control;

/// The tree, one execution per line.
pub(crate) fn tree(graph: &FlowGraph) -> String {
    let flow = &graph.flow;
    let (kind, namespace) = (escape_control(&flow.kind), escape_control(&flow.namespace));
    let mut text = format!("flow {} {kind} ({})  namespace {namespace}", flow.id, graph.state());
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
        let (label, state) = (mermaid_text(graph.label(id)), mermaid_text(&node.state));
        text.push_str(&format!("\n  n{at}[\"{label}<br/>{state}\"]"));
        if style(&node.state).is_some() {
            text.push_str(&format!(":::{}", node.state));
        }
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
    let states: BTreeSet<&str> = graph.nodes.values().map(|node| node.state.as_str()).collect();
    for (state, style) in states.iter().filter_map(|state| Some((state, style(state)?))) {
        text.push_str(&format!("\n  classDef {state} {style}"));
    }
    text
}

/// How a node of this state is drawn; none for an unknown state.
fn style(state: &str) -> Option<&'static str> {
    match state {
        "completed" => Some("fill:#d3f0d8,stroke:#2c7a3f,color:#000"),
        "failed" | "expired" => Some("fill:#f6d1d1,stroke:#a32222,color:#000"),
        "cancelled" | "skipped" => Some("fill:#e4e4e4,stroke:#777,color:#000"),
        "active" => Some("fill:#cfe4fb,stroke:#1f5fa8,color:#000,stroke-width:3px"),
        "waiting" | "resumable" => Some("fill:#fff,stroke:#1f5fa8,color:#000"),
        "delayed" | "rate_limited" | "suspended" | "waiting_children" => {
            Some("fill:#fdf3cf,stroke:#9a7b14,color:#000,stroke-dasharray:4 3")
        }
        _ => None,
    }
}

/// Text inside of a Mermaid label: what Mermaid or HTML would interpret becomes an entity.
fn mermaid_text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '#' | '&' | '<' | '>' | '`' | '\\' | '|' | '[' | ']' | '{' | '}' | '(' | ')' => {
                shown.push_str(&format!("#{};", u32::from(letter)));
            }
            _ if letter.is_control() => shown.push(' '),
            _ => shown.push(letter),
        }
    }
    shown
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
