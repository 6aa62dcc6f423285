//! [`Story`]: how an engine is configured, and the events that happen to it, decoded from bytes.

use std::num::NonZeroU16;
use std::time::Duration;

use arbitrary::Arbitrary;
use selvedge_core::completion::Completion;
use selvedge_core::engine::{EngineConfig, Filter};
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::state::TerminalOutcome;

use crate::fuzz::responses::Response;

/// How the engine is configured, and what happens to it then.
#[derive(Arbitrary, Debug)]
pub(super) struct Story {
    pub(super) window: u8,
    pub(super) window_per_slot: u8,
    pub(super) dispatch_concurrency: u8,
    pub(super) dispatch_queue: u8,
    pub(super) ticket_timeout_ms: u16,
    pub(super) partitions: [u8; 3],
    pub(super) filter: u8,
    pub(super) seed: u64,
    pub(super) keyspace: u16,
    pub(super) events: Vec<Event>,
}

/// One thing that happens.
#[derive(Arbitrary, Debug)]
pub(super) enum Event {
    /// Time passes, or jumps back.
    Wake { after_ms: u16, back: bool },
    /// The deadline comes.
    Deadline,
    /// The server answers everything that is open.
    AnswerAll,
    /// An open batch is answered, in whole or in part.
    Answer { which: u8, answers: Vec<Response> },
    /// A batch is answered that was answered before, that another engine sent, or that this one has
    /// yet to send.
    AnswerStranger { which: u8, answers: Vec<Response> },
    /// A completion is pushed.
    Completed { partition: u8, number: u8, outcome: u8 },
    /// It is pushed that a quota holds something back.
    Held { partition: u8 },
    /// It is pushed that a quota has a free slot.
    Freed { quota: u8 },
    /// The push channel was down.
    PushGap,
    /// The library was loaded again.
    LibraryLoaded,
    /// Lanes exist.
    Lanes(Vec<u8>),
    /// The engine shall stop.
    Drain,
}

pub(super) fn config(story: &Story) -> EngineConfig {
    let few = |count: u8| NonZeroU16::new(u16::from(count % 3) + 1).expect("one or more");
    let [flow, budget, quota] = story.partitions;
    let mut filter = Filter::default();
    filter.namespace = (story.filter & 1 == 1).then(|| "ns".to_owned());
    filter.instance_tag = (story.filter & 2 == 2).then(|| ("cairn.instance_id".into(), "i".into()));
    let mut engine = EngineConfig::default();
    engine.partitions = PartitionCounts { flow: few(flow), budget: few(budget), quota: few(quota) };
    engine.filter = filter;
    engine.window = usize::from(story.window % 16) + 1;
    engine.window_per_slot = usize::from(story.window_per_slot % 4) + 1;
    engine.batch_timeout = Duration::from_millis(u64::from(story.ticket_timeout_ms) + 1);
    engine.dispatch_concurrency = usize::from(story.dispatch_concurrency % 8) + 1;
    engine.dispatch_queue = usize::from(story.dispatch_queue % 8);
    engine
}

pub(super) fn completion(partition: u8, number: u8, outcome: u8) -> Completion {
    let outcomes = [TerminalOutcome::Success, TerminalOutcome::Failed, TerminalOutcome::Skipped];
    // The executions of the spec files, and some that are nowhere.
    let id = format!(
        "{{fp:{}}}:aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaa{:x}",
        u16::from(partition) % 4,
        number % 16
    );
    let execution_id: ExecutionId = id.parse().expect("spelled as ids are");
    Completion {
        execution_id,
        flow_id: FlowId::from_bytes([number; 16]),
        outcome: outcomes[usize::from(outcome) % outcomes.len()],
    }
}
