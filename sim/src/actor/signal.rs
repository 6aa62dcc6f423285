//! Suspensions, and the signals that end them: in time, early, late, twice, or for an old
//! waitpoint.

use selvedge_core::call::signal::IncomingSignal;
use selvedge_core::call::suspension::BoundWaitpoint;
use selvedge_core::id::ExecutionId;

use crate::event::Actor;
use crate::plan::{Action, FaultRule};
use crate::search::Ratio;
use crate::world::World;
use crate::world::random_streams::Purpose;

/// A waitpoint that a signaller knows.
#[derive(Clone, Debug)]
pub(crate) struct KnownWaitpoint {
    pub(crate) execution: ExecutionId,
    pub(crate) bound: BoundWaitpoint,
}

impl World {
    /// Records a waitpoint, and usually has it signalled after a while.
    pub(crate) fn learn_waitpoint(&mut self, id: &ExecutionId, bound: BoundWaitpoint) {
        self.clients.waitpoints.push(KnownWaitpoint { execution: id.clone(), bound });
        let signaller = Actor::Signaller(1);
        let name = self.clients.names.name_of(id).unwrap_or_default().to_owned();
        let chance = Ratio { hits: 4, of: 5 };
        let stream = self.random(Purpose::Workload, signaller);
        let (comes, wait) = (stream.chance(chance), stream.below(4_000));
        if self.plan.config.signals && comes {
            self.later(signaller, wait, Action::Signal(name, "go".to_owned()));
        }
    }

    /// A signal for the latest waitpoint of an execution; none while no waitpoint is known.
    pub(crate) fn incoming_signal(
        &mut self,
        by: Actor,
        id: &ExecutionId,
        name: &str,
    ) -> Option<IncomingSignal> {
        let known =
            self.clients.waitpoints.iter().rev().find(|known| known.execution == *id)?.clone();
        Some(IncomingSignal {
            signal_id: self.fresh_id(by).into(),
            execution_id: id.clone(),
            waitpoint_id: known.bound.id,
            name: name.to_owned(),
            category: "external".to_owned(),
            source_type: "user".to_owned(),
            source_identity: by.to_string(),
            payload: b"p".to_vec(),
            payload_encoding: "text".to_owned(),
            idempotency_key: Some(format!("{name}-{}", known.bound.id)),
            correlation_id: None,
            target_scope: "waitpoint".to_owned(),
            created_at: None,
            dedup_ttl_ms: 60_000,
            resume_delay_ms: 0,
            signal_maxlen: 100,
            max_signals_per_execution: 50,
            token: known.bound.token,
        })
    }

    /// Sends unexpected signals: twice, and long after the wait.
    pub(crate) fn send_odd_signals(&mut self, rule: &FaultRule) {
        let signaller = Actor::Signaller(2);
        let named = rule.subject.as_ref().map(|name| self.clients.names.execution(name));
        let known: Vec<ExecutionId> =
            self.clients.waitpoints.iter().map(|known| known.execution.clone()).collect();
        let drawn = self.random(Purpose::Faults, signaller).pick(&known).cloned();
        let Some(id) = named.or(drawn) else { return };
        self.record_fault(rule.fault, id.to_string());
        let name = self.clients.names.name_of(&id).unwrap_or_default().to_owned();
        for (wait, signal) in [(0, "go"), (1, "go"), (2_000, "late"), (9_000, "go")] {
            self.later(signaller, wait, Action::Signal(name.clone(), signal.to_owned()));
        }
    }
}
