use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::ExecutionId;
use crate::key::Key;
use crate::state::TerminalOutcome;
use crate::time::ServerTime;
use crate::value::Value;

/// Makes an execution claimable again whose lease lapsed or was revoked, or ends it at its reclaim
/// cap. An added function.
#[derive(Clone, Debug)]
pub struct RequeueLostLease {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The cap if the policy sets none.
    pub default_max_reclaim_count: Option<u32>,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// It can be claimed again; it was taken back this often.
    Requeued(u32),
    /// It ended instead: failed at the cap, or cancelled with its flow.
    Ended(TerminalOutcome),
    /// Its lease stands until then.
    NotDue(ServerTime),
    /// It has no lost lease.
    NotLost,
}

impl Function for RequeueLostLease {
    const NAME: &'static str = "ff_requeue_lost_lease";
    const KEYS: &'static [&'static str] = &["exec_core"];
    const ARGS: &'static [&'static str] = &["execution_id", "default_max_reclaim_count"];

    type Reply = Requeue;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::execution(&self.execution_id).core()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.default_max_reclaim_count]
    }

    fn read(envelope: Envelope) -> Result<Requeue, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "requeued" => fields.parse("a count").map(Requeue::Requeued),
            "ended" => fields.parse("an outcome").map(Requeue::Ended),
            "not_due" => fields.parse("when the lease ends").map(Requeue::NotDue),
            "not_lost" => Ok(Requeue::NotLost),
            _ => Err(broken("an outcome of a requeue", Value::Bulk(word.into_bytes()))),
        }
    }
}
