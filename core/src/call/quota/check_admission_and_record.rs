use alloc::vec::Vec;

use super::ADMISSION_DIMENSION;
use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Fields, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, QuotaPolicyId};
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;
use crate::value::Value;

/// Admits an execution under a rate window and a concurrency cap, once. Zero means no limit.
#[derive(Clone, Debug)]
pub struct CheckAdmissionAndRecord {
    /// The partition of the policy.
    pub partition: Partition,
    /// The policy.
    pub quota_policy_id: QuotaPolicyId,
    /// The execution that asks for admission.
    pub execution_id: ExecutionId,
    /// When.
    pub now: ServerTime,
    /// How long a window lasts.
    pub window_seconds: u64,
    /// How many may start within it.
    pub rate_limit: u64,
    /// How many may run at a time.
    pub concurrency_cap: u64,
    /// How far the hint to come back is spread.
    pub jitter_ms: u64,
}

/// Whether an execution may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may, and holds a slot.
    Admitted,
    /// It held one before: whoever gives it back gives back the earlier one.
    AlreadyAdmitted,
    /// Too many started within the window.
    RateExceeded {
        /// When to try again.
        retry_after_ms: u64,
    },
    /// Too many run.
    ConcurrencyExceeded,
}

impl Function for CheckAdmissionAndRecord {
    const NAME: &'static str = "ff_check_admission_and_record";
    const KEYS: &'static [&'static str] =
        &["window", "concurrency", "def", "guard", "admitted_set"];
    const ARGS: &'static [&'static str] =
        &["now_ms", "window_seconds", "rate_limit", "concurrency_cap", "execution_id", "jitter_ms"];

    type Reply = Admission;

    fn keys(&self) -> Vec<Key> {
        let quota = Key::quota(self.partition, self.quota_policy_id);
        alloc::vec![
            quota.window(ADMISSION_DIMENSION),
            quota.concurrency(),
            quota.record(),
            quota.admitted(&self.execution_id),
            quota.admitted_set(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.now,
            self.window_seconds,
            self.rate_limit,
            self.concurrency_cap,
            self.execution_id,
            self.jitter_ms,
        ]
    }

    fn read(envelope: Envelope) -> Result<Admission, CallError> {
        Err(envelope.unexpected())
    }

    /// A decision has no leading integer; refusals have the usual envelope.
    fn parse(reply: Value) -> Result<Admission, CallError> {
        let bare = |elements: &[Value]| matches!(elements.first(), Some(Value::Bulk(_)));
        if !matches!(&reply, Value::Array(elements) if bare(elements)) {
            return Self::read(Envelope::open(reply)?);
        }
        let mut fields = Fields::over(Fields::over(alloc::vec![reply]).array()?);
        let word = fields.text()?;
        match word.as_str() {
            "ADMITTED" => Ok(Admission::Admitted),
            "ALREADY_ADMITTED" => Ok(Admission::AlreadyAdmitted),
            "RATE_EXCEEDED" => {
                Ok(Admission::RateExceeded { retry_after_ms: fields.parse("a time to wait")? })
            }
            "CONCURRENCY_EXCEEDED" => Ok(Admission::ConcurrencyExceeded),
            _ => Err(broken("a decision about admission", Value::Bulk(word.into_bytes()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn decisions_stand_without_an_envelope_and_refusals_with_one() {
        let parse = |elements| CheckAdmissionAndRecord::parse(Value::Array(elements));
        assert_eq!(parse(vec![bulk("ADMITTED")]).unwrap(), Admission::Admitted);
        assert_eq!(
            parse(vec![bulk("RATE_EXCEEDED"), bulk("50")]).unwrap(),
            Admission::RateExceeded { retry_after_ms: 50 }
        );
        let refused = parse(vec![Value::Int(0), bulk("invalid_input"), bulk("why")]);
        assert!(matches!(refused, Err(CallError::Refused(_))));
        assert!(matches!(parse(vec![bulk("MAYBE")]), Err(CallError::Broken(_))));
        assert!(matches!(parse(vec![Value::Int(1), bulk("OK")]), Err(CallError::Broken(_))));
    }
}
