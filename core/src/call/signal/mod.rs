//! Signals, and the claim that follows a resume.

mod buffer_signal_for_pending_waitpoint;
mod claim_resumed_execution;
mod deliver_signal;
mod incoming;

pub use buffer_signal_for_pending_waitpoint::BufferSignalForPendingWaitpoint;
pub use claim_resumed_execution::{ClaimResumedExecution, ResumedClaim};
pub use deliver_signal::DeliverSignal;
pub use incoming::{IncomingSignal, SignalEffect, SignalReceipt};

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<BufferSignalForPendingWaitpoint>(),
    Signature::of::<ClaimResumedExecution>(),
    Signature::of::<DeliverSignal>(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Function;
    use crate::value::Value;
    use alloc::vec;

    const SIGNAL: &str = "00000000-0000-4000-8000-000000000301";

    fn reply(status: &str, fields: &[&str]) -> Value {
        let mut elements = vec![Value::Int(1), Value::Bulk(status.into())];
        elements.extend(fields.iter().map(|text| Value::Bulk(text.as_bytes().to_vec())));
        Value::Array(elements)
    }

    #[test]
    fn a_receipt_tells_a_new_signal_from_a_known_one() {
        let accepted = DeliverSignal::parse(reply("OK", &[SIGNAL, "no_op"])).unwrap();
        let signal_id = SIGNAL.parse().unwrap();
        assert_eq!(accepted, SignalReceipt::Accepted { signal_id, effect: SignalEffect::NoOp });
        let known = DeliverSignal::parse(reply("DUPLICATE", &[SIGNAL])).unwrap();
        assert_eq!(known, SignalReceipt::Duplicate { existing: signal_id });
        assert!(DeliverSignal::parse(reply("OK", &[SIGNAL, "odd"])).is_err());
    }
}
