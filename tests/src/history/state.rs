//! [`HistoryState`]: a host, what the callers of a history know, and what the oracles found.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use selvedge_core::audit::{self, Execution, Fields, Snapshot};
use selvedge_core::call::Function;
use selvedge_core::call::scheduling::EndAndClaim;
use selvedge_core::call::signal::DeliverSignal;
use selvedge_core::error::CallError;
use selvedge_core::id::{
    ExecutionId, Fence, FlowId, LaneId, Namespace, WorkerId, WorkerInstanceId,
};
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};
use selvedge_sim::event::{Actor, Applied, Event, EventKind, Phase};
use selvedge_sim::oracle::call::{Answer, signature_of};
use selvedge_sim::oracle::{OracleSet, View};
use selvedge_sim::plan::Config;
use selvedge_sim::world::commit_log::CommitLog;

use super::Failure;
use super::moving_slot::MovingSlot;
use super::perform::flow::StagedEdge;
use super::perform::suspension::KnownWaitpoint;
use crate::differential::{CallSequence, SequenceStep, is_steered};

/// How often each function was accepted and refused.
pub type Tally = BTreeMap<&'static str, [u64; 2]>;

/// Everything that one history needs.
pub struct HistoryState {
    host: Host,
    /// Another node, if slots move there.
    moving: Option<MovingSlot>,
    snapshot: Snapshot,
    oracles: OracleSet,
    calls: u64,
    trace: Vec<String>,
    sequence: CallSequence,
    findings: Vec<String>,
    /// Oracles that have nothing to say about these histories.
    excused: Vec<&'static str>,
    next_id: u64,
    tally: Tally,
    /// What workers believe to hold, right or wrong.
    pub(super) held: Vec<Held>,
    pub(super) waitpoints: Vec<KnownWaitpoint>,
    /// Signals that were accepted.
    pub(super) accepted: Vec<DeliverSignal>,
    pub(super) edges: Vec<StagedEdge>,
    /// The last call that ended a run and claimed.
    pub(super) last_end: Option<(EndAndClaim, usize)>,
}

/// A lease that a worker got.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) id: ExecutionId,
    pub(super) fence: Fence,
    pub(super) attempt_index: selvedge_core::id::AttemptIndex,
    pub(super) worker: usize,
}

impl HistoryState {
    /// A fresh host with this library, and a signing secret.
    ///
    /// # Panics
    /// When the host refuses the library.
    #[must_use]
    pub fn new(library: &str) -> Self {
        Self::on(Host::new(HostConfig::default()), library, None)
    }

    /// The same on a host that is one of two nodes, between which slots move key by key.
    ///
    /// # Panics
    /// When the host refuses the library.
    #[must_use]
    pub fn migrating(library: &str, seed: u64) -> Self {
        let config = HostConfig { cluster: true, ..HostConfig::default() };
        Self::on(Host::new(config), library, Some(seed))
    }

    fn on(mut host: Host, library: &str, moves: Option<u64>) -> Self {
        host.set_now_us(STARTS_AT_US);
        let loaded = host.call(&["FUNCTION", "LOAD", library]);
        assert!(!matches!(loaded, Value::Error(_)), "the host refuses the library: {loaded:?}");
        let secrets = Key::WaitpointSecrets(PARTITION).to_string();
        let secret = ["HSET", &secrets, "current_kid", "k1", "secret:k1", &"00".repeat(32)]
            .map(|word| word.as_bytes().to_vec());
        host.call(&secret);
        let sequence = vec![SequenceStep { now_us: STARTS_AT_US, command: secret.to_vec() }];
        let snapshot = host.audited();
        let mut state = Self {
            moving: moves.map(|seed| MovingSlot::beside(&host, seed)),
            host,
            snapshot,
            oracles: OracleSet::new(None),
            calls: 0,
            trace: Vec::new(),
            sequence,
            findings: Vec::new(),
            excused: match is_steered(library) {
                true => vec![DONE_AS_TOLD, BOUND_WITHOUT_STEERING],
                false => vec![DONE_AS_TOLD],
            },
            next_id: 0,
            tally: Tally::new(),
            held: Vec::new(),
            waitpoints: Vec::new(),
            accepted: Vec::new(),
            edges: Vec::new(),
            last_end: None,
        };
        state.open_accounts();
        state
    }

    /// Carries out one call and has everything judged. None when it was refused.
    pub fn call<F>(&mut self, function: &F) -> Option<F::Reply>
    where
        F: Function,
        F::Reply: Debug,
    {
        self.wait_ms(1);
        let command = function.command();
        let reply = match &mut self.moving {
            None => Ok(self.host.call(&command)),
            Some(moving) => moving.call(&mut self.host, &command),
        };
        let reply = reply.map_err(|finding| self.find(finding)).ok()?;
        self.sequence.push(SequenceStep { now_us: self.host.now_us(), command: command.clone() });
        self.host.refresh(&mut self.snapshot);
        let outcome = F::parse(reply.clone());
        let arguments: Vec<String> =
            function.args().iter().map(|word| word.escape_ascii().to_string()).collect();
        self.trace.push(match &outcome {
            Ok(reply) => format!("{} {} -> {reply:?}", F::NAME, arguments.join(" ")),
            Err(error) => format!("{} {} -> {error}", F::NAME, arguments.join(" ")),
        });
        self.judge(command, reply);
        let [accepted, refused] = self.tally.entry(F::NAME).or_default();
        *if outcome.is_ok() { accepted } else { refused } += 1;
        match outcome {
            Ok(reply) => Some(reply),
            Err(CallError::Refused(_)) => None,
            Err(error @ (CallError::Server(_) | CallError::Broken(_))) => {
                self.find(format!("{}: {error}", F::NAME));
                None
            }
        }
    }

    /// Lets time pass.
    pub fn wait_ms(&mut self, ms: u64) {
        self.host.set_now_us(self.host.now_us() + ms * 1000);
        self.host.refresh(&mut self.snapshot);
    }

    /// Notes what should not be so.
    pub fn find(&mut self, finding: String) {
        self.findings.push(finding);
    }

    /// Checks that the snapshot, which follows the writes, is the keyspace, and checkers all of it.
    pub fn compare_with_the_store(&mut self) {
        if self.host.audited() != self.snapshot {
            self.find("the snapshot has lost track of the keyspace".to_owned());
        }
        self.findings.extend(audit::judge(&self.snapshot).iter().map(ToString::to_string));
    }

    /// What the oracles found so far.
    #[must_use]
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// One line for each call so far.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    /// Every command that the store was given, and when.
    #[must_use]
    pub fn into_sequence(self) -> CallSequence {
        self.sequence
    }

    /// How often each function was accepted and refused.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The keyspace.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The clock.
    #[must_use]
    pub fn now(&self) -> ServerTime {
        self.snapshot.now()
    }

    /// The clock, `ms` from now.
    #[must_use]
    pub fn in_ms(&self, ms: i64) -> ServerTime {
        ServerTime(self.now().0 + ms)
    }

    pub(super) fn failure(&self) -> Failure {
        Failure { trace: self.trace.clone(), findings: self.findings.clone() }
    }

    /// A fresh id of any kind that is a UUID.
    pub fn fresh<T: std::str::FromStr>(&mut self) -> T
    where
        T::Err: Debug,
    {
        self.next_id += 1;
        let text = format!("00000000-0000-4000-8000-{:012x}", self.next_id);
        text.parse().expect("a UUID in its usual spelling")
    }

    /// The record of an execution.
    #[must_use]
    pub fn record<'a>(&'a self, id: &'a ExecutionId) -> Option<Execution<'a>> {
        self.snapshot.execution(id)
    }

    /// A field of the record of an execution; empty when there is none.
    #[must_use]
    pub fn field(&self, id: &ExecutionId, name: &str) -> String {
        self.record(id).map(|record| record.core.text(name).to_owned()).unwrap_or_default()
    }

    /// The record of a flow.
    #[must_use]
    pub fn flow_record(&self, flow: FlowId) -> Option<Fields<'_>> {
        self.snapshot.hash(&Key::flow(PARTITION, flow).core())
    }

    /// Shows the oracles what a call did.
    fn judge(&mut self, command: Vec<Vec<u8>>, reply: Value) {
        let findings = audit::judge_touched(&mut self.snapshot);
        self.findings.extend(findings.iter().map(ToString::to_string));
        let touched: Vec<_> = self.host.last_written_keys().into_iter().collect();
        let applied = Applied {
            call: self.calls,
            node: 1,
            superseded: false,
            signature: signature_of(&command),
            argv: Arc::new(command),
            answer: Answer::read(&reply),
            reply,
            writes: self.host.last_writes(),
            published: Vec::new(),
            commit: None,
            server_time_us: self.host.now_us(),
            inner_commands: self.host.last_inner_commands(),
        };
        let event = Event {
            at_ms: self.host.now_us() / 1000,
            ordinal: self.calls,
            actor: Actor::Caller(1),
            kind: EventKind::Applied(Box::new(applied)),
        };
        self.calls += 1;
        let view = View {
            now_ms: event.at_ms,
            phase: Phase::Safety,
            config: &Config::default(),
            shards: std::slice::from_ref(&self.snapshot),
            touched: &touched,
            commit_log: &CommitLog::default(),
            owners: &|_| 0,
            slow_until: &|_| 0,
            // No engine runs here that could keep a cadence.
            disturbed_until_ms: u64::MAX,
            leases_risked_until_ms: u64::MAX,
            bug: None,
        };
        let mut found = self.oracles.on_event(&event, &view);
        found.retain(|found| !self.excused.contains(&found.oracle));
        let told = found.iter().map(|f| format!("{}: {}: {}", f.oracle, f.subject, f.what));
        self.findings.extend(told);
    }
}

/// The contract's own drain has no checks, and these histories call it with anything.
const DONE_AS_TOLD: &str = "PendingCancelsFinished";

/// Steering asks for more than a function does by itself.
const BOUND_WITHOUT_STEERING: &str = "BoundedWork";

/// The one flow partition; what can go wrong across partitions is not the library's business.
pub const PARTITION: Partition = Partition::flow(1);

/// How many executions may be there at a time.
pub const EXECUTIONS: u8 = 7;
/// How many flows may be there at a time.
pub const FLOWS: u8 = 3;
/// How many workers there are.
pub const WORKERS: u8 = 2;

/// An execution of the pool.
#[must_use]
pub fn execution(slot: u8) -> ExecutionId {
    let text = format!("{PARTITION}:00000000-0000-4000-9000-00000000000{}", slot % EXECUTIONS);
    text.parse().expect("an execution id in its usual spelling")
}

/// The lane of an execution of the pool.
#[must_use]
pub fn lane(slot: u8) -> LaneId {
    let name = if (slot % EXECUTIONS) % 3 == 2 { "side" } else { "main" };
    name.parse().expect("a printable name")
}

/// A flow of the pool.
#[must_use]
pub fn flow(slot: u8) -> FlowId {
    let text = format!("00000000-0000-4000-a000-00000000000{}", slot % FLOWS);
    text.parse().expect("a UUID in its usual spelling")
}

/// A worker.
#[must_use]
pub fn worker(number: usize) -> (WorkerId, WorkerInstanceId) {
    (WorkerId::new(format!("w{number}")), WorkerInstanceId::new(format!("w{number}-1")))
}

/// Whose work it all is.
#[must_use]
pub fn namespace() -> Namespace {
    Namespace::new("tenant")
}

/// Times have as many digits as on a server, and yet are later than any real clock's: so a sequence
/// can be played on a server too, and nothing expires there before it is told.
const STARTS_AT_US: u64 = 4_000_000_000_000_000;
