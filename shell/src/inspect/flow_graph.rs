//! The graph of a flow, with the state of each of its executions.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::command::Command;
use selvedge_core::id::{EdgeId, ExecutionId, FlowId};
use selvedge_core::key::Key;
use selvedge_core::state::{MemberCounts, PublicState};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, FlowRecord, MemberCursor, NAME_TAG, fields, text_hash};

/// A flow with its executions and their upstreams.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlowGraph {
    /// The flow's own record.
    pub flow: FlowRecord,
    /// Its executions, at most as many as requested.
    pub nodes: BTreeMap<ExecutionId, Node>,
    /// Whether the flow has more executions than these.
    pub is_truncated: bool,
}

/// An execution of a flow.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Node {
    /// The name of its task; empty if it was submitted without one.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its public state, as stored; empty if its record was deleted.
    pub state: String,
    /// Its upstreams, at most 64.
    pub upstreams: BTreeSet<ExecutionId>,
    /// How many upstreams are left out.
    pub upstreams_omitted: u64,
    /// How many upstreams must succeed.
    pub join: Join,
    /// Its lane.
    pub lane: String,
    /// When it was created, when its first attempt started, and when it ended.
    pub times: [Option<ServerTime>; 3],
    /// Its tags, without the one that names the task.
    pub tags: BTreeMap<String, String>,
}

/// How many upstreams must succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Join {
    /// All.
    #[default]
    All,
    /// One.
    Any,
    /// This many.
    Quorum(u32),
}

impl Node {
    /// Whether it has ended, with any outcome. An execution whose record was deleted has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.is_empty() || self.state.parse().is_ok_and(PublicState::is_end)
    }
}

impl FlowGraph {
    /// How many executions of the flow are left out, by the count in its record; at least one if
    /// the graph is truncated.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        let shown = u64::try_from(self.nodes.len()).unwrap_or(u64::MAX);
        let more = self.flow.node_count.saturating_sub(shown);
        if self.is_truncated { more.max(1) } else { 0 }
    }

    /// The state of the flow. Computed from its executions if all of them are read; else from the
    /// counts of the last summary, which an engine updates periodically.
    #[must_use]
    pub fn state(&self) -> &str {
        if self.is_truncated {
            return self.flow.public_state();
        }
        let mut counts = MemberCounts::default();
        self.nodes.values().for_each(|node| counts.add(&node.state));
        counts.restore_purged(&self.flow.summary);
        counts.state(&self.flow.state).as_str()
    }

    /// The executions with their depth, as a tree in depth-first order. Each appears once, under
    /// its first upstream; those without an upstream in this graph are roots.
    #[must_use]
    pub fn tree(&self) -> Vec<(usize, &ExecutionId)> {
        let mut children: BTreeMap<Option<&ExecutionId>, Vec<&ExecutionId>> = BTreeMap::new();
        for (id, node) in &self.nodes {
            let known = node.upstreams.iter().filter(|up| self.nodes.contains_key(*up));
            let parent = known.min_by_key(|up| (self.label(up), *up));
            children.entry(parent).or_default().push(id);
        }
        for siblings in children.values_mut() {
            siblings.sort_by_key(|id| (self.label(id), *id));
        }
        let mut tree = Vec::new();
        let mut open: Vec<(usize, &ExecutionId)> = Vec::new();
        let next = |open: &mut Vec<_>, parent: Option<&ExecutionId>, depth| {
            let below = children.get(&parent).into_iter().flatten().rev();
            open.extend(below.map(|id| (depth, *id)));
        };
        next(&mut open, None, 0);
        while let Some((depth, id)) = open.pop() {
            tree.push((depth, id));
            next(&mut open, Some(id), depth + 1);
        }
        tree
    }

    /// The label of an execution: its task name, else its kind.
    #[must_use]
    pub fn label(&self, id: &ExecutionId) -> &str {
        match self.nodes.get(id) {
            Some(node) if node.name.is_empty() => &node.kind,
            Some(node) => &node.name,
            None => "",
        }
    }
}

impl Client {
    /// Reads a flow with up to `limit` of its executions, in pipelines of 250.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when the flow does not exist; otherwise when the store does not
    /// answer.
    pub async fn flow_graph(&self, id: FlowId, limit: u32) -> Result<FlowGraph, ClientError> {
        let flow = self.flow(id).await?;
        let (mut members, mut cursor) = (BTreeSet::new(), Some(MemberCursor::default()));
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        while let Some(from) = cursor
            && members.len() < wanted
        {
            let (page, next) = self.flow_members(id, from, MEMBERS_PER_PAGE).await?;
            members.extend(page.into_iter().map(|member| member.id));
            cursor = next;
        }
        let is_truncated = cursor.is_some() || members.len() > wanted;
        let members: Vec<ExecutionId> = members.into_iter().take(wanted).collect();
        let mut nodes = BTreeMap::new();
        for some in members.chunks(NODES_PER_PIPELINE) {
            nodes.extend(self.read_nodes(id, some).await?);
        }
        Ok(FlowGraph { flow, nodes, is_truncated })
    }

    async fn read_nodes(
        &self,
        flow: FlowId,
        ids: &[ExecutionId],
    ) -> Result<Vec<(ExecutionId, Node)>, ClientError> {
        let keys = Key::flow(self.partitions().of_flow(flow), flow);
        let reads = ids
            .iter()
            .flat_map(|id| {
                let execution = Key::execution(id);
                let core: [&[u8]; 6] = [
                    b"execution_kind",
                    b"public_state",
                    b"lane_id",
                    b"created_at",
                    b"started_at",
                    b"completed_at",
                ];
                let group: [&[u8]; 2] = [b"policy_variant", b"k"];
                [
                    Command::read("HMGET", &execution.core(), &core),
                    Command::read("HGETALL", &execution.tags(), &[]),
                    Command::read("HMGET", &keys.edge_group(id), &group),
                    Command::read("SRANDMEMBER", &keys.in_to(id), &[UPSTREAMS_MAX.as_bytes()]),
                    Command::read("SCARD", &keys.in_to(id), &[]),
                ]
            })
            .collect();
        let replies = self.read(reads).await?;
        let mut nodes: Vec<(ExecutionId, Node)> = Vec::with_capacity(ids.len());
        let mut edges: Vec<(usize, EdgeId)> = Vec::new();
        for (at, (id, replies)) in ids.iter().zip(replies.chunks_exact(5)).enumerate() {
            let [core, tags, group, incoming, degree] = replies else { continue };
            let (core, group) = (fields(core.clone()), fields(group.clone()));
            let field = |of: &[String], at: usize| of.get(at).cloned().unwrap_or_default();
            let incoming = fields(incoming.clone());
            let degree = if let Value::Int(degree) = degree { *degree } else { 0 };
            let degree = u64::try_from(degree).unwrap_or_default();
            let mut tags = text_hash(tags.clone());
            let node = Node {
                name: tags.remove(NAME_TAG).unwrap_or_default(),
                kind: field(&core, 0),
                state: field(&core, 1),
                upstreams: BTreeSet::new(),
                upstreams_omitted: degree.saturating_sub(incoming.len() as u64),
                join: parse_join(&field(&group, 0), &field(&group, 1)),
                lane: field(&core, 2),
                times: [3, 4, 5].map(|at| field(&core, at).parse().ok()),
                tags,
            };
            nodes.push((id.clone(), node));
            edges.extend(
                incoming.iter().filter_map(|edge| edge.parse().ok()).map(|edge| (at, edge)),
            );
        }
        let ends: [&[u8]; 1] = [b"upstream_execution_id"];
        let reads = edges.iter().map(|(_, edge)| Command::read("HMGET", &keys.edge(*edge), &ends));
        let replies = self.read(reads.collect()).await?;
        for ((at, _), reply) in edges.into_iter().zip(replies) {
            let upstream = fields(reply).first().and_then(|id| id.parse().ok());
            if let (Some((_, node)), Some(upstream)) = (nodes.get_mut(at), upstream) {
                node.upstreams.insert(upstream);
            }
        }
        Ok(nodes)
    }
}

fn parse_join(variant: &str, k: &str) -> Join {
    match variant {
        "any_of" => Join::Any,
        "quorum" => Join::Quorum(k.parse().unwrap_or(1)),
        _ => Join::All,
    }
}

/// Executions read in one pipeline.
const NODES_PER_PIPELINE: usize = 250;
/// Tasks listed in one read.
const MEMBERS_PER_PAGE: u32 = 500;
/// Most upstreams read of one execution.
const UPSTREAMS_MAX: &str = "64";

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(states: &[&str]) -> FlowGraph {
        let id =
            |n: usize| format!("{{fp:1}}:00000000-0000-4000-8000-{n:012}").parse::<ExecutionId>();
        let ids = (0..states.len()).map(|n| id(n).expect("an id"));
        let node = |state: &&str| Node { state: (*state).to_owned(), ..Node::default() };
        FlowGraph {
            flow: FlowRecord {
                id: "00000000-0000-4000-8000-000000000000".parse().expect("a UUID"),
                kind: String::new(),
                namespace: String::new(),
                node_count: 0,
                edge_count: 0,
                state: "open".to_owned(),
                created_at: None,
                summary: BTreeMap::new(),
                tags: BTreeMap::new(),
                record: BTreeMap::new(),
            },
            nodes: ids.zip(states.iter().map(node)).collect(),
            is_truncated: false,
        }
    }

    #[test]
    fn an_execution_has_ended_by_its_public_state_or_without_a_record() {
        let ended = |state: &str| Node { state: state.to_owned(), ..Node::default() }.has_ended();
        assert!(ended("") && ended("skipped") && ended("completed"));
        assert!(!ended("active") && !ended("waiting_children") && !ended("added_later"));
    }

    #[test]
    fn the_list_and_the_graph_agree_about_a_won_race() {
        let mut graph = graph(&["completed", "cancelled"]);
        let summary = [
            ("total_members", "2"),
            ("members_completed", "1"),
            ("members_cancelled", "1"),
            // The contract's word.
            ("public_flow_state", "failed"),
        ];
        let summary = summary.map(|(name, value)| (name.to_owned(), value.to_owned()));
        graph.flow.summary = BTreeMap::from(summary);
        assert_eq!((graph.state(), graph.flow.public_state()), ("completed", "completed"));
        graph.is_truncated = true;
        assert_eq!(graph.state(), "completed");
    }

    #[test]
    fn a_truncated_graph_uses_the_state_in_the_record() {
        let mut graph = graph(&["completed"]);
        graph.is_truncated = true;
        assert_eq!(graph.state(), "open");
        graph.flow.state = "cancelled".to_owned();
        graph.is_truncated = false;
        assert_eq!(graph.state(), "cancelled");
    }
}
