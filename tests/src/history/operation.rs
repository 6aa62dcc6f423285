//! The operations of a history.

use selvedge_sim::search::Draws;

/// Declares the verbs with the weight at which each is drawn.
macro_rules! verbs {
    ($( $(#[$doc:meta])* $verb:ident = $weight:literal, )+) => {
        /// One kind of operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Verb { $( $(#[$doc])* $verb, )+ }

        impl Verb {
            /// Every verb with its weight.
            pub const WEIGHTED: &[(Verb, u64)] = &[$( (Verb::$verb, $weight), )+];
        }
    };
}

verbs! {
    /// Time passes.
    Wait = 10,
    /// An execution is made.
    Create = 10,
    /// A whole flow is submitted.
    SubmitFlow = 6,
    /// An open submission is sealed.
    SealFlow = 3,
    /// A grant is issued and spent.
    Claim = 10,
    /// A worker asks for the best there is.
    ClaimNext = 14,
    /// A worker asks for several.
    ClaimMany = 5,
    /// A holder ends its run and asks for what comes next; or the last such call is repeated.
    EndAndClaim = 12,
    /// An operator claims.
    OperatorClaim = 4,
    /// A holder renews.
    Renew = 3,
    /// A holder completes.
    Complete = 10,
    /// A holder fails, with or without a retry policy.
    Fail = 6,
    /// A holder gives it up until later.
    Delay = 4,
    /// A holder waits for its children.
    WaitForChildren = 2,
    /// A holder notes its progress.
    Progress = 1,
    /// A holder writes a frame.
    AppendFrame = 3,
    /// A holder suspends.
    Suspend = 12,
    /// A waitpoint is made ahead.
    CreatePending = 3,
    /// A signal comes to a waitpoint made ahead.
    BufferSignal = 3,
    /// A waitpoint made ahead is closed when due.
    ExpirePending = 2,
    /// A signal comes.
    Signal = 14,
    /// A signal comes with an id or token of another waitpoint or execution, or of one that has
    /// ended.
    StraySignal = 10,
    /// A signal that was accepted comes once more.
    RepeatSignal = 6,
    /// An operator resumes.
    Resume = 4,
    /// A suspension is looked at.
    ExpireSuspension = 4,
    /// An execution is cancelled.
    Cancel = 4,
    /// A timeout or deadline is looked at.
    ExpireIfDue = 4,
    /// A delayed execution is looked at.
    PromoteDelayed = 10,
    /// A lease is looked at.
    MarkLease = 5,
    /// A lost lease is brought back.
    Requeue = 6,
    /// A lost lease is taken over.
    Reclaim = 5,
    /// A lease is taken away.
    Revoke = 3,
    /// Admission holds one back.
    Block = 4,
    /// Admission lets one go.
    Unblock = 4,
    /// The order of the queue changes.
    ChangePriority = 2,
    /// Something that ended runs again.
    Replay = 4,
    /// A flow is made.
    CreateFlow = 4,
    /// A flow gets a member.
    AddMember = 8,
    /// A group gets its policy.
    SetGroup = 4,
    /// An edge is staged.
    Stage = 4,
    /// A staged edge is applied.
    Apply = 5,
    /// An edge is staged and applied.
    StageAndApply = 8,
    /// One edge is resolved by the truth.
    ResolveOne = 6,
    /// All edges of one that ended are resolved.
    ResolveOutgoing = 12,
    /// A child without open edges is let go.
    PromoteBlocked = 2,
    /// A flow is cancelled.
    CancelFlow = 2,
    /// One member of a cancelled flow is cancelled and acknowledged.
    PayCancel = 4,
    /// The siblings of a group are cancelled.
    PaySiblings = 4,
    /// A group's entry for sibling cancels is removed without a check.
    Drain = 1,
    /// The entry is removed if all siblings have ended.
    DrainChecked = 3,
    /// The entry is reconciled with its group.
    ReconcileGroup = 3,
    /// A flow is projected.
    ProjectFlow = 2,
    /// A finished flow is purged.
    PurgeFlow = 2,
    /// A finished execution is purged.
    PurgeExecution = 5,
    /// The indexes of an execution are repaired.
    RepairIndex = 2,
    /// Usage is reported.
    ReportUsage = 4,
    /// An execution spends.
    RecordSpend = 4,
    /// An execution gives back what it spent.
    ReleaseBudget = 3,
    /// A budget starts anew.
    ResetBudget = 1,
    /// A budget is looked at.
    ReconcileBudget = 2,
    /// An execution asks for admission.
    Admit = 4,
    /// An execution gives its slot back.
    ReleaseAdmission = 3,
    /// A quota is looked at.
    ReconcileQuota = 2,
}

/// A verb and three small numbers; what they mean is the verb's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What is done.
    pub verb: Verb,
    /// Mostly: to which execution or flow.
    pub a: u8,
    /// Mostly: by whom, or with which other one.
    pub b: u8,
    /// Mostly: in which way.
    pub c: u8,
}

/// A random history of a given length.
pub fn history(draws: &mut Draws, length: usize) -> Vec<Operation> {
    (0..length)
        .map(|_| {
            let verb = draws.weighted(Verb::WEIGHTED).unwrap_or(Verb::Wait);
            let [a, b, c] = [(); 3].map(|()| u8::try_from(draws.below(NUMBERS)).unwrap_or(0));
            Operation { verb, a, b, c }
        })
        .collect()
}

/// As many as there are executions.
const NUMBERS: u64 = 12;
