//! Explains executions that a worker may claim: whether one that is alive can.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{DueBy, Explainer, Reason, UnblockedBy, WorkerOffer};
use crate::capability::{Capabilities, may_cover};
use crate::id::{FlowId, Namespace};
use crate::key::Key;
use crate::lane_state::LaneState;
use crate::time::ServerTime;

impl Explainer<'_> {
    pub(super) fn eligible(&mut self) -> String {
        if let Some(flow) = self.cancelled_flow() {
            self.wait_for_cancel(flow);
            return "its flow was cancelled while it was ready; no worker can claim it".to_owned();
        }
        if let (LaneState::Paused, since) = self.present.lanes.of(&self.lane_id()) {
            return self.paused(since);
        }
        let who = self.whom_it_needs();
        let (reason, now) = self.supply();
        let worker = UnblockedBy::Worker(who.clone());
        self.wait(reason, "a free worker", worker, DueBy::Unknown).now = now;
        self.limits_at_claim();
        let grant = self.snapshot.hash(&Key::execution(self.execution.id).claim_grant());
        match grant.map(|grant| grant.text("worker_id")) {
            Some(holder) if !holder.is_empty() => {
                format!("it is ready and granted to worker {holder}")
            }
            _ => format!("it is ready to run and waits for {who}"),
        }
    }

    fn paused(&mut self, since: Option<ServerTime>) -> String {
        let lane = self.lane_id();
        let on = format!("lane {lane} to be resumed");
        let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
        let now = format!("lane {lane} is paused{since}: `selvedge lane resume {lane}` ends that");
        self.wait(Reason::PausedLane, on, UnblockedBy::Operator, DueBy::Unknown).now = now;
        self.limits_at_claim();
        format!("it is ready to run, and lane {lane} is paused")
    }

    /// The workers that can run it, in words.
    pub(super) fn whom_it_needs(&self) -> String {
        let lane = self.lane();
        match self.needs() {
            "" => format!("any worker of lane {lane}"),
            needs => format!("a worker of lane {lane} that offers {needs}"),
        }
    }

    fn needs(&self) -> &str {
        self.execution.core.text("required_capabilities")
    }

    /// Whether workers that are alive can run it, and what they lack.
    pub(super) fn supply(&self) -> (Reason, String) {
        let name = self.execution.core.text("namespace");
        let workers = self.present.workers.get(&Namespace::new(name));
        let workers = workers.map(Vec::as_slice).unwrap_or_default();
        let lane = self.lane();
        if workers.is_empty() {
            return (Reason::NoWorker, format!("no worker is registered in namespace {name}"));
        }
        let here: Vec<&WorkerOffer> =
            workers.iter().filter(|worker| worker.lanes.contains(lane)).collect();
        if here.is_empty() {
            let lanes: BTreeSet<&str> =
                workers.iter().flat_map(|one| &one.lanes).map(String::as_str).collect();
            let lanes: Vec<&str> = lanes.into_iter().take(NAMES_MAX).collect();
            let serve = count(workers.len(), "worker serves", "workers serve");
            let of = if lanes.len() == 1 { "lane" } else { "lanes" };
            let now = format!("no worker serves lane {lane}; {serve} {of} {}", lanes.join(", "));
            return (Reason::NoWorker, now);
        }
        let serve = count(here.len(), "worker serves", "workers serve");
        let kind = self.execution.core.text("execution_kind");
        let handles =
            |worker: &&&WorkerOffer| worker.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        let handlers: Vec<&WorkerOffer> = here.iter().filter(handles).copied().collect();
        if handlers.is_empty() {
            let kinds = here.iter().filter_map(|worker| worker.kinds.as_ref()).flatten();
            let kinds: BTreeSet<&str> = kinds.map(String::as_str).collect();
            let known: Vec<&str> = kinds.into_iter().take(NAMES_MAX).collect();
            let with = match known.as_slice() {
                [] => "without any kind".to_owned(),
                [one] => format!("with kind {one}"),
                _ => format!("with kinds {}", known.join(", ")),
            };
            let now = format!("no worker handles kind `{kind}`; {serve} lane {lane} {with}");
            return (Reason::NoWorker, now);
        }
        let Ok(needs) = self.needs().parse::<Capabilities>() else {
            return (Reason::NoWorker, "its required capabilities cannot be read".to_owned());
        };
        let able = handlers.iter().filter(|worker| may_cover(&worker.capabilities, &needs)).count();
        if able > 0 {
            let can = count(able, "worker is alive that", "workers are alive that");
            return (Reason::Worker, format!("{can} can run it"));
        }
        let lacking = lacking(&needs, &handlers);
        let of = if handlers.len() < here.len() {
            format!("no worker that handles kind `{kind}` has {lacking}")
        } else {
            format!("no worker has {lacking}")
        };
        (Reason::NoWorker, format!("{of}; {serve} lane {lane}"))
    }

    /// Its flow, if a cancel of that covers it: then no worker can claim it.
    pub(super) fn cancelled_flow(&self) -> Option<FlowId> {
        let flow: FlowId = self.execution.core.text("flow_id").parse().ok()?;
        let core = self.snapshot.hash(&Key::flow(self.execution.partition(), flow).core())?;
        let covers =
            matches!(core.text("cancellation_policy"), "cancel_all" | "cancel_pending" | "");
        (core.text("public_flow_state") == "cancelled" && covers).then_some(flow)
    }
}

/// The capabilities that no worker has, or all if no worker has all of them.
fn lacking(needs: &Capabilities, workers: &[&WorkerOffer]) -> String {
    let offered: BTreeSet<&str> =
        workers.iter().flat_map(|worker| worker.capabilities.split(',')).collect();
    let needs = needs.to_string();
    let quoted = |names: Vec<&str>| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let unknown: Vec<&str> = needs.split(',').filter(|need| !offered.contains(need)).collect();
    match unknown.is_empty() {
        true => format!("all of {}", quoted(needs.split(',').collect())),
        false => quoted(unknown),
    }
}

/// A number with its noun.
fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Most lanes that a sentence names.
const NAMES_MAX: usize = 8;
