//! [`Story`]: how a worker is configured, and the events that happen to it, decoded from bytes.

use std::num::NonZeroU16;
use std::time::Duration;

use arbitrary::Arbitrary;
use selvedge_core::call::budget::Delta;
use selvedge_core::call::execution::CreateExecution;
use selvedge_core::call::stream::FrameMode;
use selvedge_core::call::suspension::{SuspensionReason, TimeoutBehavior};
use selvedge_core::id::{ExecutionId, LaneId, Namespace, WorkerId, WorkerInstanceId};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::worker::{HandlerOutcome, HandlerRequest, PERMANENT, Suspension, WorkerConfig};

use crate::fuzz::responses::Response;

/// How the worker is configured, and what happens to it then.
#[derive(Arbitrary, Debug)]
pub(super) struct Story {
    pub(super) capacity: u8,
    pub(super) lanes: u8,
    pub(super) partitions: [u8; 3],
    pub(super) lease_ms: u16,
    pub(super) ticket_timeout_ms: u16,
    pub(super) retry_ms: u16,
    pub(super) seed: u8,
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
    /// A batch is answered that was answered before, or that another worker sent.
    AnswerStranger { which: u8, answers: Vec<Response> },
    /// An execution is created.
    Create { number: u8, lane: u8, policy: u8 },
    /// It is pushed that an execution is ready.
    Ready { lane: u8, partition: u8 },
    /// It is pushed that a lease was lost.
    Lost { number: u8 },
    /// The push channel was down.
    PushGap,
    /// A handler ends, or one that never ran.
    Ended { which: u8, how: u8 },
    /// A handler asks for something.
    HandlerRequested { which: u8, what: u8 },
    /// The capacity changes.
    Capacity(u8),
    /// The worker shall stop.
    Drain,
}

pub(super) fn config(story: &Story) -> WorkerConfig {
    let few = |count: u8| NonZeroU16::new(u16::from(count % 3) + 1).expect("one or more");
    let [flow, budget, quota] = story.partitions;
    let ms = |ms: u16| Duration::from_millis(u64::from(ms) + 1);
    WorkerConfig {
        partitions: PartitionCounts { flow: few(flow), budget: few(budget), quota: few(quota) },
        lanes: (0..=story.lanes % 3).map(lane).collect(),
        capacity: usize::from(story.capacity % 16),
        lease_ttl: ms(story.lease_ms),
        batch_timeout: ms(story.ticket_timeout_ms),
        retry_for: ms(story.retry_ms),
        ..WorkerConfig::new(WorkerId::new("w"), WorkerInstanceId::new("w-1"))
    }
}

pub(super) fn lane(number: u8) -> LaneId {
    let name = if number == 0 { "default".to_owned() } else { format!("lane-{}", number % 4) };
    name.parse().expect("spelled as lanes are")
}

/// The executions of the spec files, and some that are nowhere.
pub(super) fn execution(number: u8) -> ExecutionId {
    let id =
        format!("{{fp:{}}}:aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaa{:x}", number / 16 % 4, number % 16);
    id.parse().expect("spelled as ids are")
}

/// A new execution.
pub(super) fn creation(number: u8, lane: LaneId, policy: u8) -> CreateExecution {
    let policies = [
        "",
        r#"{"retry_policy":{"max_retries":3,"backoff":{"type":"fixed","delay_ms":5}}}"#,
        r#"{"budget_ids":["aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaa1"]}"#,
        r#"{"quota_policy_id":"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaa1"}"#,
        r#"{"quota_policy_id":"none","budget_ids":["?"]}"#,
        r#"{"routing_requirements":{"required_capabilities":["gpu"]}}"#,
    ];
    CreateExecution {
        execution_id: execution(number),
        namespace: Namespace::new("ns".to_owned()),
        lane_id: lane,
        execution_kind: "k".to_owned(),
        priority: u32::from(number),
        creator_identity: "fuzz".to_owned(),
        policy_json: policies[usize::from(policy) % policies.len()].to_owned(),
        input_payload: vec![number],
        delay_until: None,
        idempotency: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    }
}

pub(super) fn outcome(how: u8) -> HandlerOutcome {
    let failed = |category: &str| HandlerOutcome::Failed {
        category: category.to_owned(),
        reason: "why".to_owned(),
    };
    match how % 6 {
        0 => HandlerOutcome::Completed(vec![how]),
        1 => failed("transient"),
        2 => failed(PERMANENT),
        3 => HandlerOutcome::Panicked("boom".to_owned()),
        4 => HandlerOutcome::Later(Duration::from_millis(u64::from(how) * 100)),
        _ => HandlerOutcome::Suspended,
    }
}

pub(super) fn handler_request(what: u8) -> HandlerRequest {
    let soon = Duration::from_millis(u64::from(what));
    let suspend = |timeout| {
        HandlerRequest::Suspend(Suspension {
            waitpoint: None,
            condition_json: r#"{"signal_match_mode":"any"}"#.to_owned(),
            reason: SuspensionReason::WaitingForSignal,
            timeout,
        })
    };
    match what % 6 {
        0 => HandlerRequest::Progress { percent: u16::from(what), message: "far".to_owned() },
        1 => HandlerRequest::Frame {
            kind: "out".to_owned(),
            payload: vec![what],
            mode: FrameMode::Durable,
        },
        2 => {
            let deltas = vec![Delta { dimension: "tokens".to_owned(), delta: i64::from(what) }];
            HandlerRequest::Spend { report: "r".to_owned(), deltas }
        }
        3 => HandlerRequest::Waitpoint { expires_in: soon },
        4 => suspend(None),
        _ => suspend(Some((soon, TimeoutBehavior::ALL[0]))),
    }
}
