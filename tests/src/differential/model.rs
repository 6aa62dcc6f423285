//! [`Books`]: the reference model beside a tape: every answer is one that it allows, and at the end
//! every execution is what the model says it must be.

use std::collections::BTreeMap;

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use selvedge_sim::model::{End, Execution, Life, Operation, Told};

use crate::hostile::contract::Contract;

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
    pub fn hear(
        &mut self,
        contract: &Contract,
        command: &[Vec<u8>],
        reply: &Value,
    ) -> Result<(), String> {
        let argument = |name: &str| argument(contract, command, name).unwrap_or_default();
        let answer = contract.answer(reply).unwrap_or_default();
        if contract.function == "ff_submit_flow" {
            self.hear_of_members(&argument("document"));
            return Ok(());
        }
        let Ok(id) = argument("execution_id").parse::<ExecutionId>() else { return Ok(()) };
        let execution = self.executions.entry(id.clone()).or_default();
        match contract.function.as_str() {
            "ff_add_execution_to_flow" => execution.fate.in_flow = true,
            "ff_requeue_lost_lease" | "ff_reclaim_execution" => {
                execution.fate.may_be_given_up = true;
            }
            "ff_create_execution" => execution.fate.may_expire = true,
            // A suspension may end it in several ways when its time is over.
            "ff_suspend_execution" => {
                execution.fate.may_be_given_up = true;
                execution.fate.in_flow = true;
            }
            _ => {}
        }
        let Some(operation) = operation(&contract.function) else { return Ok(()) };
        self.judged += 1;
        execution.begin(self.judged, operation);
        execution
            .end(self.judged, told(operation, &answer, reply))
            .map_err(|why| format!("{} of {id}: {why}", contract.function))
    }

    /// Compares with a keyspace.
    ///
    /// # Errors
    /// The first execution that cannot be what it is.
    pub fn close(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        for (id, execution) in &mut self.executions {
            execution.observe(life_of(snapshot, id)).map_err(|why| format!("{id} {why}"))?;
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
        "ff_create_execution" => Operation::Create,
        "ff_claim_execution" | "ff_issue_grant_and_claim" => Operation::Claim,
        "ff_complete_execution" => Operation::Complete,
        "ff_fail_execution" => Operation::Fail,
        "ff_cancel_execution" => Operation::Cancel,
        "ff_replay_execution" => Operation::Replay,
        _ => return None,
    })
}

fn told(operation: Operation, answer: &str, reply: &Value) -> Told {
    match answer {
        "!execution_not_found" => Told::NoSuch,
        "!execution_not_terminal" => Told::HasNotEnded,
        "!execution_not_active" if operation == Operation::Cancel => Told::HasEnded,
        _ if answer.starts_with('!') => Told::Refused,
        "DUPLICATE" => Told::Already,
        _ if operation == Operation::Fail && says(reply, b"terminal_failed") => Told::DoneForGood,
        _ => Told::Done,
    }
}

fn says(reply: &Value, word: &[u8]) -> bool {
    let Value::Array(elements) = reply else { return false };
    elements.iter().any(|element| matches!(element, Value::Bulk(text) if text == word))
}

/// An argument of a call by its name.
fn argument(contract: &Contract, command: &[Vec<u8>], name: &str) -> Option<String> {
    let keys: usize = str::from_utf8(command.get(2)?).ok()?.parse().ok()?;
    let place = contract.args.iter().position(|known| known == name)?;
    let word = command.get(3 + keys + place)?;
    Some(String::from_utf8_lossy(word).into_owned())
}

fn life_of(snapshot: &Snapshot, id: &ExecutionId) -> Life {
    let Some(execution) = snapshot.execution(id) else { return Life::Absent };
    match execution.vector().map(|vector| vector.outcome) {
        Ok(TerminalOutcome::None) | Err(_) => Life::Live,
        Ok(TerminalOutcome::Success) => Life::Ended(End::Success),
        Ok(TerminalOutcome::Failed) => Life::Ended(End::Failed),
        Ok(TerminalOutcome::Cancelled) => Life::Ended(End::Cancelled),
        Ok(TerminalOutcome::Expired) => Life::Ended(End::Expired),
        Ok(TerminalOutcome::Skipped) => Life::Ended(End::Skipped),
    }
}
