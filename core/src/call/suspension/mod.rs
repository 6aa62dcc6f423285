//! Suspensions, pending waitpoints and signing secrets.

mod close_waitpoint;
mod create_pending_waitpoint;
mod expire_pending_waitpoint_if_due;
mod expire_suspension;
mod list_waitpoint_hmac_kids;
mod resume_execution;
mod rotate_waitpoint_hmac_secret;
mod suspend_execution;
mod waitpoint;

pub use close_waitpoint::{CloseWaitpoint, WaitpointClosing};
pub use create_pending_waitpoint::CreatePendingWaitpoint;
pub use expire_pending_waitpoint_if_due::{ExpirePendingWaitpointIfDue, PendingWaitpointExpiry};
pub use expire_suspension::{ExpireSuspension, SuspensionExpiry};
pub use list_waitpoint_hmac_kids::{ListWaitpointHmacKids, SigningKids};
pub use resume_execution::ResumeExecution;
pub use rotate_waitpoint_hmac_secret::{RotateWaitpointHmacSecret, Rotation};
pub use suspend_execution::{
    SuspendExecution, SuspendIdempotency, SuspendOn, Suspended, SuspensionReason,
    SuspensionRequester, TimeoutBehavior,
};
pub use waitpoint::{BoundWaitpoint, NewWaitpoint};

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<CloseWaitpoint>(),
    Signature::of::<CreatePendingWaitpoint>(),
    Signature::of::<ExpirePendingWaitpointIfDue>(),
    Signature::of::<ExpireSuspension>(),
    Signature::of::<ListWaitpointHmacKids>(),
    Signature::of::<ResumeExecution>(),
    Signature::of::<RotateWaitpointHmacSecret>(),
    Signature::of::<SuspendExecution>(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Function;
    use crate::id::{AttemptIndex, Fence, LaneId, LeaseEpoch, WaitpointKey, WorkerInstanceId};
    use crate::value::Value;
    use alloc::string::{String, ToString};
    use alloc::vec;
    use alloc::vec::Vec;

    const WAITPOINT: &str = "00000000-0000-4000-8000-000000000101";
    const EXTRA: &str = "00000000-0000-4000-8000-000000000102";
    const SUSPENSION: &str = "00000000-0000-4000-8000-000000000201";
    const TOKEN: &str = "k1:ffce0f2360557335e0fdcbf3438cd2990f67f58b";

    fn reply(texts: &[&str]) -> Value {
        let mut elements = vec![Value::Int(1)];
        elements.extend(texts.iter().map(|text| Value::Bulk(text.as_bytes().to_vec())));
        Value::Array(elements)
    }

    fn waitpoint(id: &str, key: &str) -> NewWaitpoint {
        NewWaitpoint { id: id.parse().unwrap(), key: WaitpointKey::new(key) }
    }

    fn suspend(on: SuspendOn) -> SuspendExecution {
        SuspendExecution {
            execution_id: "{fp:1}:00000000-0000-4000-8000-000000000001".parse().unwrap(),
            lane: "main".parse::<LaneId>().unwrap(),
            worker_instance_id: WorkerInstanceId::new("w-1"),
            attempt_index: AttemptIndex(0),
            fence: Fence {
                lease_id: "00000000-0000-4000-8000-000000000401".parse().unwrap(),
                lease_epoch: LeaseEpoch(1),
                attempt_id: "00000000-0000-4000-8000-000000000501".parse().unwrap(),
            },
            suspension_id: SUSPENSION.parse().unwrap(),
            on,
            reason: SuspensionReason::WaitingForSignal,
            requested_by: SuspensionRequester::Worker,
            timeout_at: None,
            timeout_behavior: TimeoutBehavior::Fail,
            resume_condition_json: "{}".to_string(),
            resume_policy_json: "{}".to_string(),
            continuation_metadata_pointer: None,
            lease_history_maxlen: 1000,
            idempotency: None,
        }
    }

    #[test]
    fn additional_waitpoints_follow_the_named_positions() {
        let call = suspend(SuspendOn::New {
            primary: waitpoint(WAITPOINT, "one"),
            additional: vec![waitpoint(EXTRA, "two")],
        });
        let keys: Vec<String> = call.keys().iter().map(ToString::to_string).collect();
        assert_eq!(keys.len(), SuspendExecution::KEYS.len() + 3);
        assert_eq!(keys[18], alloc::format!("ff:wp:{{fp:1}}:{EXTRA}"));
        assert_eq!(keys[20], alloc::format!("ff:wp:{{fp:1}}:{EXTRA}:condition"));
        let args = call.args();
        assert_eq!(args.len(), SuspendExecution::ARGS.len() + 2);
        assert_eq!(args[14], b"0");
        assert_eq!(args[19..], [b"1".to_vec(), EXTRA.into(), b"two".to_vec()]);
    }

    #[test]
    fn a_waitpoint_created_ahead_is_named_without_its_key() {
        let args = suspend(SuspendOn::Pending(WAITPOINT.parse().unwrap())).args();
        assert_eq!(args[6], WAITPOINT.as_bytes());
        assert_eq!(args[7], b"");
        assert_eq!(args[14], b"1");
    }

    #[test]
    fn a_suspend_tells_every_waitpoint_it_bound() {
        let texts = ["OK", SUSPENSION, WAITPOINT, "one", TOKEN, "1", EXTRA, "two", TOKEN];
        let Suspended::Waiting { waitpoints, .. } = SuspendExecution::parse(reply(&texts)).unwrap()
        else {
            panic!("not waiting")
        };
        assert_eq!(waitpoints.len(), 2);
        assert_eq!(waitpoints[1].key.as_str(), "two");
        let ahead = ["ALREADY_SATISFIED", SUSPENSION, WAITPOINT, "one", TOKEN, "0"];
        assert!(matches!(
            SuspendExecution::parse(reply(&ahead)),
            Ok(Suspended::AlreadySatisfied { .. })
        ));
        assert!(SuspendExecution::parse(reply(&texts[..7])).is_err());
    }

    #[test]
    fn a_timeout_is_read_by_its_word_and_its_outcome() {
        let read = |texts: &[&str]| ExpireSuspension::parse(reply(texts));
        assert_eq!(read(&["OK", "not_yet_due"]).unwrap(), SuspensionExpiry::NotYetDue);
        assert_eq!(read(&["OK", "auto_resume", "waiting"]).unwrap(), SuspensionExpiry::AutoResumed);
        assert!(matches!(
            read(&["OK", "odd", "failed"]).unwrap(),
            SuspensionExpiry::Ended { behavior, .. } if behavior == "odd"
        ));
        assert!(read(&["OK", "odd"]).is_err());
    }

    #[test]
    fn kids_come_with_their_expiry() {
        let kids =
            ListWaitpointHmacKids::parse(reply(&["OK", "k3", "1", "k2", "1700000000000"])).unwrap();
        assert_eq!(kids.current.as_deref(), Some("k3"));
        assert_eq!(kids.verifying.len(), 1);
        assert!(ListWaitpointHmacKids::parse(reply(&["OK", "k3", "1", "k2", "1.5"])).is_err());
    }
}
