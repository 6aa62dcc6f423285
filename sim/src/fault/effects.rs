//! What the faults of a plan do to a call.

use super::Fault;
use crate::world::servers::ServeOptions;

/// What the faults of a plan do to a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultEffects {
    /// It does not arrive.
    pub(crate) request_lost: bool,
    /// It is applied, but its reply is lost.
    pub(crate) reply_lost: bool,
    /// The sender does not notice a loss and times out.
    pub(crate) silent: bool,
    /// The sender dies when it is applied.
    pub(crate) crash_after: bool,
    /// It is a claim that is never answered, not even when it is repeated.
    pub(crate) claim_unheard: bool,
    /// It arrives this much later.
    pub(crate) late_ms: u64,
    /// It arrives a second time, this much later.
    pub(crate) duplicate_after_ms: Option<u64>,
    /// The results of its batch arrive this much later, or a second time.
    pub(crate) late_reply: Option<(u64, LateReply)>,
    /// It gets this error and is not applied.
    pub(crate) refused: Option<String>,
    /// It is sent to the wrong node first.
    pub(crate) misrouted: bool,
    /// Its slot moves before it is applied.
    pub(crate) slot_moves: bool,
    /// How it is served.
    pub(crate) options: ServeOptions,
    /// Another client acts on its subject just before or after it.
    pub(crate) racing_call: Option<(RacingCall, Fault)>,
    /// The node fails over when it is applied, and loses it.
    pub(crate) fail_over_after: bool,
    /// The faults of the plan that apply, by their position in the plan.
    pub(crate) rules: Vec<usize>,
}

/// How a late reply is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LateReply {
    /// Only late.
    Late,
    /// In time, and a second time later.
    Duplicate,
    /// In time, and a second time later, even if the engine was restarted.
    DuplicateToAny,
}

/// What another client does with the subject of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RacingCall {
    /// Cancels it before the call.
    CancelBefore,
    /// Cancels it after the call.
    CancelAfter,
    /// Replays it before the call.
    ReplayBefore,
    /// Replays it after the call.
    ReplayAfter,
}
