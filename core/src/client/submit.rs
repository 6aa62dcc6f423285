//! Submits a flow: most are one call, large ones are sent in chunks that may be repeated.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::preparation::{Preparation, Prepare};
use super::{Failure, Needs, Procedure, Replies, StartTime, Step};
use crate::call::flow::{Edge, GroupPolicy, NewMember, SetFlowTags, Submission, SubmitFlow};
use crate::command::Command;
use crate::error::Broken;
use crate::id::{ExecutionId, FlowId, Namespace};
use crate::partition::Partition;
use crate::time::ServerTime;
use crate::value::Value;

/// A flow to submit. The same flow under the same ids may be submitted again: that continues a
/// submission that stopped.
#[derive(Clone, Debug)]
pub struct FlowSubmission {
    /// The flow.
    pub flow_id: FlowId,
    /// Its partition.
    pub partition: Partition,
    /// What kind of flow it is.
    pub flow_kind: String,
    /// The namespace of the flow and its tasks.
    pub namespace: Namespace,
    /// Its tasks, upstream tasks first.
    pub tasks: Vec<FlowTask>,
    /// Its tags.
    pub tags: Vec<(String, String)>,
    /// A digest of all of it but its ids, if another flow may be submitted under the same id; empty
    /// for none.
    pub content: String,
    /// Most tasks in one call; at most [`SubmitFlow::MEMBERS_MAX`].
    pub tasks_per_call: usize,
}

/// One task of a flow.
#[derive(Clone, Debug)]
pub struct FlowTask {
    /// The execution; its `delay_until` is set from `start`.
    pub member: NewMember,
    /// When it may start.
    pub start: StartTime,
    /// The edges that lead to it.
    pub edges: Vec<Edge>,
    /// Its join policy; without one it needs all its upstreams.
    pub group: Option<GroupPolicy>,
}

/// A flow that is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Whether it was submitted, as a whole, before this procedure began.
    pub before: bool,
}

enum Stage {
    Preparing,
    /// The first of the chunks was sent.
    Chunk,
    /// All members are stored, and are released some at a time.
    Sealing,
    Tags,
}

/// Submits a flow: limits are checked first, lanes are registered, then the chunks follow each
/// other, and the last one seals the flow. No task can be claimed before that.
pub struct Submit {
    preparation: Preparation,
    flow: FlowSubmission,
    chunks: VecDeque<SubmitFlow>,
    stage: Stage,
    /// Whether the store has answered that all of it was there.
    before: bool,
    /// Whether a call of this procedure may have been applied without an answer.
    in_doubt: bool,
}

impl Submit {
    /// Submits this flow.
    #[must_use]
    pub fn new(needs: Needs, flow: FlowSubmission) -> Self {
        let is_relative = flow.tasks.iter().any(|task| task.start.is_relative());
        let time_of = is_relative.then(|| flow.partition.slot());
        let preparation = Preparation::new(needs, time_of);
        let (chunks, stage) = (VecDeque::new(), Stage::Preparing);
        Self { preparation, flow, chunks, stage, before: false, in_doubt: false }
    }

    fn prepared(&mut self, prepared: Prepare) -> Step<Submitted> {
        match prepared {
            Prepare::Send(commands) => Step::Send(commands),
            Prepare::Failed(failure) => Step::Done(Err(failure)),
            Prepare::Ready(now) => {
                self.chunks = chunks(&mut self.flow, now);
                self.send_chunk()
            }
        }
    }

    fn send_chunk(&mut self) -> Step<Submitted> {
        self.stage = Stage::Chunk;
        match self.chunks.front() {
            Some(chunk) => Step::Send(vec![Command::call(chunk)]),
            None => self.set_tags(),
        }
    }

    fn on_chunk(&mut self, reply: Result<Submission, Failure>) -> Step<Submitted> {
        let seals = self.chunks.front().is_some_and(|chunk| chunk.seal);
        match reply {
            Err(Failure::Refused(refusal)) if refusal.detail(0) == SubmitFlow::OTHER_CONTENT => {
                let id = self.flow.flow_id.to_string();
                Step::Done(Err(Failure::OtherContent { kind: "flow", id }))
            }
            Err(failure) => Step::Done(Err(failure)),
            Ok(Submission::Open { .. }) if seals => Step::Done(Err(Failure::Unreadable(Broken {
                expected: "a flow that is sealed or being sealed",
                got: Value::Bulk(b"open".to_vec()),
            }))),
            Ok(Submission::Sealing { .. }) => self.continue_sealing(),
            // A flow that was sealed before gets all chunks again: each is compared.
            Ok(reply @ (Submission::Open { .. } | Submission::Sealed { .. })) => {
                self.before = matches!(reply, Submission::Sealed { before: true, .. });
                self.chunks.pop_front();
                self.send_chunk()
            }
        }
    }

    /// Repeats the call without what is stored already.
    fn continue_sealing(&mut self) -> Step<Submitted> {
        self.stage = Stage::Sealing;
        let Some(chunk) = self.chunks.front_mut() else { return self.set_tags() };
        (chunk.members, chunk.edges) = (Vec::new(), Vec::new());
        (chunk.joins, chunk.groups) = (Vec::new(), Vec::new());
        Step::Send(vec![Command::call(chunk)])
    }

    fn set_tags(&mut self) -> Step<Submitted> {
        self.stage = Stage::Tags;
        let tags = core::mem::take(&mut self.flow.tags);
        if tags.is_empty() {
            return self.done();
        }
        let FlowSubmission { partition, flow_id, .. } = self.flow;
        Step::Send(vec![Command::call(&SetFlowTags { partition, flow_id, tags })])
    }

    fn done(&self) -> Step<Submitted> {
        Step::Done(Ok(Submitted { before: self.before && !self.in_doubt }))
    }
}

impl Procedure for Submit {
    type Output = Submitted;

    fn begin(&mut self) -> Step<Submitted> {
        let prepared = self.preparation.begin();
        self.prepared(prepared)
    }

    fn replied(&mut self, mut replies: Replies) -> Step<Submitted> {
        match self.stage {
            Stage::Preparing => {
                let prepared = self.preparation.replied(replies);
                self.prepared(prepared)
            }
            Stage::Chunk | Stage::Sealing => {
                self.in_doubt |= replies.in_doubt;
                let reply = replies.call::<SubmitFlow>();
                self.on_chunk(reply)
            }
            Stage::Tags => match replies.call::<SetFlowTags>() {
                Ok(_) => self.done(),
                Err(failure) => Step::Done(Err(failure)),
            },
        }
    }
}

/// Splits a flow into calls, in the order of its tasks. The last one seals it.
fn chunks(flow: &mut FlowSubmission, now: Option<ServerTime>) -> VecDeque<SubmitFlow> {
    let tasks = core::mem::take(&mut flow.tasks);
    let mut chunks = Chunks { flow, done: VecDeque::new(), open: empty_chunk(flow), bytes: 0 };
    for mut task in tasks {
        task.member.delay_until = task.start.at(now);
        let payload = task.member.input_payload.len();
        if SubmitFlow::work(1, task.edges.len(), payload) > SubmitFlow::WORK_MAX {
            chunks.add_join(task);
        } else {
            chunks.add(task);
        }
    }
    chunks.open.seal = true;
    chunks.done.push_back(chunks.open);
    chunks.done
}

/// The calls that a flow is split into.
struct Chunks<'a> {
    flow: &'a FlowSubmission,
    done: VecDeque<SubmitFlow>,
    /// The one that is being filled, and the size of its payloads.
    open: SubmitFlow,
    bytes: usize,
}

impl Chunks<'_> {
    fn add(&mut self, task: FlowTask) {
        let most = self.flow.tasks_per_call.clamp(1, SubmitFlow::MEMBERS_MAX);
        let payload = task.member.input_payload.len();
        let (members, edges) = (self.open.members.len(), self.open.edges.len());
        let work = SubmitFlow::work(members + 1, edges + task.edges.len(), self.bytes + payload);
        if members >= most || members + edges > 0 && work > SubmitFlow::WORK_MAX {
            self.close();
        }
        self.bytes += payload;
        let id: ExecutionId = task.member.execution_id.clone();
        self.open.groups.extend(task.group.map(|policy| (id, policy)));
        self.open.edges.extend(task.edges);
        self.open.members.push(task.member);
    }

    /// Adds a task with more work than one call should have: its edges are spread over calls, after
    /// those of all its upstreams.
    fn add_join(&mut self, mut task: FlowTask) {
        if !self.open.members.is_empty() || !self.open.edges.is_empty() {
            self.close();
        }
        let room = |payload| {
            let beside = SubmitFlow::work(1, 0, payload);
            SubmitFlow::edges_within(SubmitFlow::WORK_MAX.saturating_sub(beside)).max(1)
        };
        let (count, first) = (task.edges.len(), room(task.member.input_payload.len()));
        let mut rest = task.edges.split_off(first.min(count));
        if !rest.is_empty() {
            self.open.joins.push((task.member.execution_id.clone(), count));
        }
        self.add(task);
        while !rest.is_empty() {
            self.close();
            let after = rest.split_off(room(0).min(rest.len()));
            self.open.edges = core::mem::replace(&mut rest, after);
        }
    }

    fn close(&mut self) {
        self.done.push_back(core::mem::replace(&mut self.open, empty_chunk(self.flow)));
        self.bytes = 0;
    }
}

fn empty_chunk(flow: &FlowSubmission) -> SubmitFlow {
    SubmitFlow {
        partition: flow.partition,
        flow_id: flow.flow_id,
        flow_kind: flow.flow_kind.clone(),
        namespace: flow.namespace.clone(),
        members: Vec::new(),
        edges: Vec::new(),
        joins: Vec::new(),
        groups: Vec::new(),
        content: flow.content.clone(),
        seal: false,
    }
}
