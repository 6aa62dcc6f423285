//! What moves an execution from one state to another.

wire_enum! {
    /// What moves an execution from one state to another.
    pub enum Event {
        /// Made, ready to run.
        Create = "create",
        /// Made, to run later.
        CreateDelayed = "create_delayed",
        /// Claimed: afresh, resumed, or granted and claimed at once.
        Claim = "claim",
        /// Its lease ran out.
        LeaseExpired = "lease_expired",
        /// Its lease was taken away.
        LeaseRevoked = "lease_revoked",
        /// Claimed anew after a lost lease.
        Reclaim = "reclaim",
        /// Put back in line after a lost lease.
        Requeue = "requeue",
        /// A lost lease too many.
        ReclaimCapReached = "reclaim_cap_reached",
        /// Completed.
        Complete = "complete",
        /// Failed, to be tried again.
        Retry = "retry",
        /// Failed for good.
        Fail = "fail",
        /// Its worker gave it up until later.
        Delay = "delay",
        /// Its worker gave it up until its children ended.
        WaitForChildren = "wait_for_children",
        /// Suspended.
        Suspend = "suspend",
        /// Resumed by a signal, an operator or its timeout.
        Resume = "resume",
        /// Resumed, after a pause.
        ResumeDelayed = "resume_delayed",
        /// Its suspension timed out, an operator must look.
        Escalate = "escalate",
        /// Its suspension timed out, and that ends it.
        SuspensionTimeout = "suspension_timeout",
        /// Its time came.
        Promote = "promote",
        /// Held back by admission.
        Hold = "hold",
        /// Let go by admission.
        Release = "release",
        /// Got a dependency.
        Depend = "depend",
        /// Its dependencies are met.
        Unblock = "unblock",
        /// Its dependencies cannot be met.
        Skip = "skip",
        /// Cancelled.
        Cancel = "cancel",
        /// Ran out of time.
        Expire = "expire",
        /// Ended, to run once more.
        Replay = "replay",
        /// Ended, to wait for its upstreams once more before it runs.
        ReplayBlocked = "replay_blocked",
    }
}
