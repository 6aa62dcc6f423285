//! [`Books`]: the reference model beside a tape: every answer is one that it allows, and at the end
//! every execution is what the model says it must be.

use std::collections::BTreeMap;

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;
use selvedge_core::value::Value;
use selvedge_sim::model::{Execution, Life, Operation, Told};
use selvedge_sim::oracle::call::{Answer, Call};

/// All executions of a tape, as the model knows them.
#[derive(Debug, Default)]
pub struct Books {
    executions: BTreeMap<ExecutionId, Execution>,
    /// Answers that the model had an opinion about.
    pub judged: u64,
}

impl Books {
    /// Notes what was asked and answered.
    ///
    /// # Errors
    /// When the model does not allow that answer.
    pub fn hear(&mut self, command: &[Vec<u8>], reply: &Value) -> Result<(), String> {
        let Some(asked) = Call::read(command) else { return Ok(()) };
        if asked.function == "submit_flow" {
            self.hear_of_members(asked.argument("document"));
            return Ok(());
        }
        let Ok(id) = asked.argument("execution_id").parse::<ExecutionId>() else { return Ok(()) };
        let execution = self.executions.entry(id.clone()).or_default();
        match asked.function {
            "add_execution_to_flow" => execution.fate.in_flow = true,
            "requeue_lost_lease" | "reclaim_execution" => {
                execution.fate.may_be_given_up = true;
            }
            "create_execution" => execution.fate.may_expire = true,
            "purge_execution" => execution.fate.may_be_half_gone = true,
            // A suspension may end it in several ways when its time is over.
            "suspend_execution" => {
                execution.fate.may_be_given_up = true;
                execution.fate.in_flow = true;
            }
            _ => {}
        }
        let Some(operation) = operation(asked.function) else { return Ok(()) };
        self.judged += 1;
        execution.begin(self.judged, operation);
        let Some(told) = Told::by(&Answer::read(reply), operation) else {
            execution.lose(self.judged);
            return Ok(());
        };
        let ended = execution.end(self.judged, told);
        ended.map_err(|why| format!("{} of {id}: {why}", asked.function))
    }

    /// Compares with a keyspace.
    ///
    /// # Errors
    /// The first execution that cannot be what it is.
    pub fn close(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        for (id, execution) in &mut self.executions {
            execution.observe(Life::of(snapshot, id)).map_err(|why| format!("{id} {why}"))?;
        }
        Ok(())
    }

    /// The members of a flow may be there from now on, whatever the submission was told.
    fn hear_of_members(&mut self, document: &str) {
        for id in document.split('"').filter_map(|word| word.parse::<ExecutionId>().ok()) {
            self.judged += 1;
            let execution = self.executions.entry(id).or_default();
            execution.fate.in_flow = true;
            execution.fate.may_expire = true;
            execution.begin(self.judged, Operation::Create);
            execution.lose(self.judged);
        }
    }
}

fn operation(function: &str) -> Option<Operation> {
    Some(match function {
        "create_execution" => Operation::Create,
        "claim_execution" | "issue_grant_and_claim" => Operation::Claim,
        "complete_execution" => Operation::Complete,
        "fail_execution" => Operation::Fail,
        "cancel_execution" => Operation::Cancel,
        "replay_execution" => Operation::Replay,
        _ => return None,
    })
}
