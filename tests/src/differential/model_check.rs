//! [`ModelCheck`]: checks the replies of a call sequence with the simulator's reference model, and
//! every execution at the end.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;
use selvedge_core::value::Value;
use selvedge_sim::model::{Execution, Operation, Reply, Status};
use selvedge_sim::oracle::call::{Answer, Call};

/// All executions of a sequence, as the model knows them.
#[derive(Debug, Default)]
pub struct ModelCheck {
    executions: BTreeMap<ExecutionId, Execution>,
    /// The calls so far that end a run and claim.
    ends: BTreeSet<Vec<Vec<u8>>>,
    /// Answers that the model had an opinion about.
    pub judged: u64,
}

impl ModelCheck {
    /// Notes what was asked and answered.
    ///
    /// # Errors
    /// When the model does not allow that answer.
    pub fn hear(&mut self, command: &[Vec<u8>], reply: &Value) -> Result<(), String> {
        let Some(asked) = Call::read(command) else { return Ok(()) };
        if asked.function == "submit_flow" {
            return self.hear_of_members(asked.argument("document"), &Answer::read(reply));
        }
        let Ok(id) = asked.argument("execution_id").parse::<ExecutionId>() else { return Ok(()) };
        let execution = self.executions.entry(id.clone()).or_default();
        match asked.function {
            "add_execution_to_flow" => execution.permitted.in_flow = true,
            "requeue_lost_lease" | "reclaim_execution" => {
                execution.permitted.may_be_given_up = true;
            }
            "create_execution" => execution.permitted.may_expire = true,
            "purge_execution" | "purge_executions" => execution.permitted.may_be_half_gone = true,
            // A suspension may end it in several ways when its time is over.
            "suspend_execution" => {
                execution.permitted.may_be_given_up = true;
                execution.permitted.in_flow = true;
            }
            _ => {}
        }
        let ending = match asked.argument("ending") {
            _ if asked.function != "end_and_claim" => asked.function,
            "fail" => "fail_execution",
            _ => "complete_execution",
        };
        let Some(operation) = operation(ending) else { return Ok(()) };
        self.judged += 1;
        execution.begin(self.judged, operation);
        let Some(told) = Reply::read(&Answer::read(reply), operation) else {
            execution.lose(self.judged);
            return Ok(());
        };
        // A repeated call with the same leases answers again what it did, whatever came since.
        if asked.function == "end_and_claim" && !self.ends.insert(command.to_vec()) {
            execution.lose(self.judged);
            return Ok(());
        }
        let ended = execution.end(self.judged, told);
        ended.map_err(|why| format!("{} of {id}: {why}", asked.function))
    }

    /// Compares with a keyspace.
    ///
    /// # Errors
    /// The first execution that cannot be what it is.
    pub fn close(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        for (id, execution) in &mut self.executions {
            execution.observe(Status::of(snapshot, id)).map_err(|why| format!("{id} {why}"))?;
        }
        Ok(())
    }

    /// The members of a flow are there once a submission was taken; a refusal has changed nothing.
    fn hear_of_members(&mut self, document: &str, answer: &Answer) -> Result<(), String> {
        if !matches!(answer, Answer::Done(_)) {
            return Ok(());
        }
        for id in document.split('"').filter_map(|word| word.parse::<ExecutionId>().ok()) {
            self.judged += 1;
            let execution = self.executions.entry(id).or_default();
            execution.permitted.in_flow = true;
            execution.permitted.may_expire = true;
            execution.begin(self.judged, Operation::Create);
            let may_be = |told| execution.clone().end(self.judged, told).is_ok();
            match (may_be(Reply::Done), may_be(Reply::Already)) {
                (true, false) => execution.end(self.judged, Reply::Done)?,
                (false, true) => execution.end(self.judged, Reply::Already)?,
                // It has ended, and may have been purged and made once more.
                _ => execution.lose(self.judged),
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::audit::{Entry, Stored};
    use selvedge_core::key::Key;
    use selvedge_core::time::ServerTime;

    const ID: &str = "{fp:0}:00000000-0000-4000-8000-000000000001";

    /// A call of a function about the execution, with nothing else that the model reads.
    fn call(function: &str) -> Vec<Vec<u8>> {
        let signatures = selvedge_core::call::signatures();
        let signature = signatures.iter().find(|known| known.name == function).expect("a function");
        let argument = |name: &&str| match *name {
            "execution_id" => ID.to_owned(),
            "document" => format!(r#"{{"members":[{{"execution_id":"{ID}"}}]}}"#),
            _ => String::new(),
        };
        let head = ["FCALL".to_owned(), function.to_owned(), signature.keys.len().to_string()];
        let keys = signature.keys.iter().map(|name| (*name).to_owned());
        let words = head.into_iter().chain(keys).chain(signature.args.iter().map(argument));
        words.map(String::into_bytes).collect()
    }

    fn hear(check: &mut ModelCheck, function: &str, head: i64, word: &str) -> Result<(), String> {
        let reply = Value::Array(vec![Value::Int(head), Value::Bulk(word.into())]);
        check.hear(&call(function), &reply)
    }

    #[test]
    fn an_impossible_reply_is_found_for_created_and_submitted_executions() {
        for made_by in ["ff_create_execution", "ff_submit_flow"] {
            let mut check = ModelCheck::default();
            for function in [made_by, "ff_claim_execution", "ff_complete_execution"] {
                assert_eq!(hear(&mut check, function, 1, "OK"), Ok(()), "{function}");
            }
            let mut refused = ModelCheck {
                executions: check.executions.clone(),
                judged: check.judged,
                ..ModelCheck::default()
            };
            assert_eq!(hear(&mut refused, "ff_complete_execution", 0, "stale_lease"), Ok(()));
            for again in ["ff_claim_execution", "ff_complete_execution", "ff_cancel_execution"] {
                let mut check = ModelCheck {
                    executions: check.executions.clone(),
                    judged: check.judged,
                    ..ModelCheck::default()
                };
                let told = hear(&mut check, again, 1, "OK");
                assert!(told.is_err(), "{again} was done once more, made by {made_by}");
            }
        }
    }

    #[test]
    fn executions_of_a_refused_submission_are_found() {
        let mut check = ModelCheck::default();
        assert_eq!(hear(&mut check, "ff_submit_flow", 0, "flow_already_terminal"), Ok(()));
        let told = hear(&mut check, "ff_claim_execution", 1, "OK");
        assert!(told.is_err(), "nobody made it, and it was claimed");
    }

    #[test]
    fn an_impossible_keyspace_is_found() {
        // A record that says nothing of an end.
        let key = Key::execution(&ID.parse().expect("an id")).core().to_string();
        let stored = Stored::Hash([("lane_id".to_owned(), b"default".to_vec())].into());
        let mut live = Snapshot::new(ServerTime(0));
        live.put(key.as_bytes(), Some(Entry { stored, expires_at: None }));
        let mut check = ModelCheck::default();
        assert_eq!(hear(&mut check, "ff_create_execution", 1, "OK"), Ok(()));
        assert_eq!(check.close(&live), Ok(()));
        assert_eq!(hear(&mut check, "ff_complete_execution", 1, "OK"), Ok(()));
        assert!(check.close(&live).is_err(), "it was completed, and has not ended");
        let mut unmade = ModelCheck::default();
        assert_eq!(hear(&mut unmade, "ff_create_execution", 0, "invalid_input"), Ok(()));
        assert!(unmade.close(&live).is_err(), "nobody made it, and it is there");
    }
}
