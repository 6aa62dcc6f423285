//! The whole machine, with a store that the test plays.

mod admission;
mod claims;
mod ends;
mod lanes;
mod life;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::{AttemptOutcome, Effect, HandlerOutcome, Input, Observation, Worker, WorkerConfig};
use crate::command::{Answer, Command, Ticket};
use crate::error::ServerError;
use crate::id::{LeaseId, WorkerId, WorkerInstanceId};
use crate::partition::{Partition, PartitionCounts};
use crate::time::LocalTime;
use crate::value::Value;

const POLICY: &str = r#"{"quota_policy_id":"550e8400-e29b-41d4-a716-446655440000"}"#;
const QUOTA: &str = "550e8400-e29b-41d4-a716-446655440000";

/// A worker, the batches that it sent and the rest of its effects.
struct Bench {
    worker: Worker,
    now_ms: u64,
    sent: Vec<(Ticket, Vec<Command>)>,
    effects: Vec<Effect>,
}

impl Bench {
    fn new(partitions: u16, capacity: usize) -> Self {
        Self::with(partitions, capacity, |_| {})
    }

    fn with(partitions: u16, capacity: usize, change: impl Fn(&mut WorkerConfig)) -> Self {
        let mut config = WorkerConfig::new(WorkerId::new("w"), WorkerInstanceId::new("w-1"));
        config.partitions =
            PartitionCounts { flow: partitions.try_into().unwrap(), ..PartitionCounts::DEFAULT };
        config.capacity = capacity;
        config.lease_ttl = Duration::from_secs(12);
        // Polls would be in the way.
        config.poll_every = Duration::from_secs(3_600);
        change(&mut config);
        let worker = Worker::new(config, [3; 32], LocalTime(0));
        let mut bench = Self { worker, now_ms: 0, sent: Vec::new(), effects: Vec::new() };
        bench.feed(Input::Wake);
        // The first poll finds nothing.
        bench.answer_all("claim_many", |_| ok(&["empty"]));
        bench
    }

    fn feed(&mut self, input: Input) {
        self.worker.handle(LocalTime(self.now_ms), input);
        while let Some(effect) = self.worker.next_effect() {
            match effect {
                Effect::Send { ticket, batch, .. } => self.sent.push((ticket, batch)),
                other @ (Effect::Start { .. }
                | Effect::Cancel { .. }
                | Effect::Abort { .. }
                | Effect::Answer { .. }
                | Effect::Observe(_)) => self.effects.push(other),
            }
        }
    }

    /// Lets time pass, deadline by deadline.
    fn pass(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while let Some(LocalTime(next)) = self.worker.deadline().filter(|next| next.0 <= end) {
            self.now_ms = next.max(self.now_ms);
            self.feed(Input::Wake);
        }
        self.now_ms = end;
        self.feed(Input::Wake);
    }

    fn ready(&mut self, partition: u16) {
        self.feed(Input::Ready("default".parse().unwrap(), Partition::flow(partition)));
    }

    fn is_sent(&self, name: &str) -> bool {
        self.sent.iter().any(|(_, batch)| batch.iter().any(|command| is(command, name)))
    }

    /// Takes the first batch with this command.
    fn take(&mut self, name: &str) -> (Ticket, Vec<Command>) {
        let has = |(_, batch): &(Ticket, Vec<Command>)| batch.iter().any(|one| is(one, name));
        let at = self.sent.iter().position(has).unwrap_or_else(|| panic!("{name} was not sent"));
        self.sent.remove(at)
    }

    /// Answers the first batch with this command.
    fn answer(&mut self, name: &str, reply: impl Fn(&Command) -> Value) -> Vec<Command> {
        let (ticket, batch) = self.take(name);
        let answers = batch.iter().map(|command| Answer::Applied(reply(command))).collect();
        self.feed(Input::Settled { ticket, answers });
        batch
    }

    /// Answers batches with this command as long as there are any.
    fn answer_all(&mut self, name: &str, reply: impl Fn(&Command) -> Value) {
        while self.is_sent(name) {
            self.answer(name, &reply);
        }
    }

    /// The first batch with this command gets no reply.
    fn lose(&mut self, name: &str) -> Vec<Command> {
        let (ticket, batch) = self.take(name);
        let lost = || Answer::PerhapsApplied(ServerError::silence("lost"));
        let answers = batch.iter().map(|_| lost()).collect();
        self.feed(Input::Settled { ticket, answers });
        batch
    }

    /// Claims and starts an execution of this partition.
    fn start(&mut self, partition: u16, policy: &str) -> LeaseId {
        self.ready(partition);
        let batch = self.answer("claim_many", |command| claimed(command, partition, policy));
        let lease = lease_of(&batch[0]);
        assert!(self.started(lease), "{:?}", self.effects);
        lease
    }

    fn started(&self, lease: LeaseId) -> bool {
        self.effects.iter().any(
            |effect| matches!(effect, Effect::Start { work, .. } if work.fence.lease_id == lease),
        )
    }

    fn end(&mut self, lease: LeaseId, outcome: HandlerOutcome) {
        self.feed(Input::Ended { lease, outcome });
    }

    /// How the attempts ended.
    fn outcomes(&self) -> Vec<AttemptOutcome> {
        let outcome = |effect: &Effect| match effect {
            Effect::Observe(Observation::AttemptEnded { outcome, .. }) => Some(*outcome),
            Effect::Observe(_)
            | Effect::Cancel { .. }
            | Effect::Send { .. }
            | Effect::Start { .. }
            | Effect::Abort { .. }
            | Effect::Answer { .. } => None,
        };
        self.effects.iter().filter_map(outcome).collect()
    }

    fn observed(&self, wanted: impl Fn(&Observation) -> bool) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Observe(fact) if wanted(fact)))
    }
}

/// Whether a command is this one, or calls this function.
fn is(command: &Command, name: &str) -> bool {
    let word = |at: usize| command.argv.get(at).map_or(&b""[..], Vec::as_slice);
    word(0) == name.as_bytes() || word(1) == format!("ff_{name}").as_bytes()
}

/// The argument of a call at this place.
fn argument(command: &Command, at: usize) -> String {
    let keys: usize = String::from_utf8_lossy(&command.argv[2]).parse().unwrap();
    String::from_utf8_lossy(&command.argv[3 + keys + at]).into_owned()
}

/// The lease ids of a call that claims.
fn leases_of(claim: &Command) -> Vec<LeaseId> {
    let keys: usize = String::from_utf8_lossy(&claim.argv[2]).parse().unwrap();
    let named = if is(claim, "end_and_claim") { 15 } else { 8 };
    let ids = claim.argv[3 + keys + named..].iter().step_by(2);
    // The work filter comes last.
    let ids = ids.filter(|id| !id.starts_with(b"\n"));
    ids.map(|id| String::from_utf8_lossy(id).parse().unwrap()).collect()
}

fn lease_of(claim: &Command) -> LeaseId {
    leases_of(claim)[0]
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn ok(fields: &[&str]) -> Value {
    let head = [Value::Int(1), bulk("OK")];
    Value::Array(head.into_iter().chain(fields.iter().map(|field| bulk(field))).collect())
}

fn refused(words: &[&str]) -> Value {
    Value::Array([Value::Int(0)].into_iter().chain(words.iter().map(|word| bulk(word))).collect())
}

fn time() -> Value {
    Value::Array(vec![bulk("1700000000"), bulk("123456")])
}

fn execution(partition: u16) -> String {
    format!("{{fp:{partition}}}:11111111-1111-4111-8111-111111111111")
}

/// The reply to a claim that got the execution of a partition with each of its leases.
fn claimed(claim: &Command, partition: u16, policy: &str) -> Value {
    claimed_some(claim, partition, policy, usize::MAX)
}

/// The reply to a claim that got so many executions at most.
fn claimed_some(claim: &Command, partition: u16, policy: &str, at_most: usize) -> Value {
    let works = leases_of(claim).into_iter().take(at_most).map(|lease| {
        let (id, lease) = (execution(partition), lease.to_string());
        let attempt = "22222222-2222-4222-8222-222222222222";
        let head = [&id, &lease, "1", "1700000012000", attempt, "0", "initial"];
        let rest = ["any", "", "in", policy, "5"];
        Value::Array(head.into_iter().chain(rest).map(bulk).collect())
    });
    let Value::Array(mut reply) = ok(&["claimed"]) else { unreachable!() };
    reply.extend(works);
    Value::Array(reply)
}

/// The reply to a report that also claims: how the run ended, and what was claimed.
fn ended_and(ended: &str, claims: Value) -> Value {
    let Value::Array(claims) = claims else { unreachable!() };
    let mut reply = vec![Value::Int(1), bulk("OK"), bulk(ended), bulk("")];
    reply.extend(claims.into_iter().skip(2));
    Value::Array(reply)
}

#[test]
fn the_same_inputs_give_the_same_effects() {
    let run = || {
        let mut bench = Bench::new(4, 2);
        bench.feed(Input::PushGap);
        for _ in 0..4 {
            bench.answer("ZCARD", |_| Value::Int(1));
        }
        let lost = bench.lose("claim_many");
        bench.pass(30_000);
        assert!(bench.is_sent("claim_many"), "claims are repeated");
        (format!("{lost:?} {:?}", bench.sent), format!("{:?}", bench.effects))
    };
    assert_eq!(run(), run());
}
