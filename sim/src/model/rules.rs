//! The rules of the model: what each operation does, and which replies are possible.

use super::{End, Operation, Reply, Status};

/// The effects of an operation without a known result.
pub(super) fn effects(operation: Operation, status: Status) -> Vec<Status> {
    [Reply::Done, Reply::DoneForGood]
        .into_iter()
        .filter_map(|reply| apply(operation, reply, status))
        .filter(|next| *next != status)
        .collect()
}

/// The replies of an operation that change nothing.
pub(super) fn idle_answers(operation: Operation, status: Status) -> impl Iterator<Item = Reply> {
    [Reply::Done, Reply::Already, Reply::NoSuch, Reply::HasEnded, Reply::HasNotEnded]
        .into_iter()
        .filter(move |reply| apply(operation, *reply, status) == Some(status))
}

/// The status after an operation with this reply; none if the reply is not possible.
pub(super) fn apply(operation: Operation, reply: Reply, status: Status) -> Option<Status> {
    use Operation as O;
    match (operation, reply, status) {
        (_, Reply::Refused, _) => Some(status),
        (_, Reply::NoSuch, status) => (status == Status::Absent).then_some(status),
        (O::Create, Reply::Done, Status::Absent) => Some(Status::Live),
        (O::Create, Reply::Already, Status::Live | Status::Ended(_)) => Some(status),
        (O::Claim, Reply::Done, Status::Live) => Some(Status::Live),
        (O::Complete, Reply::Done, Status::Live) => Some(Status::Ended(End::Success)),
        (O::Fail, Reply::Done, Status::Live) => Some(Status::Live),
        (O::Fail, Reply::DoneForGood, Status::Live) => Some(Status::Ended(End::Failed)),
        (O::Cancel, Reply::Done, Status::Live) => Some(Status::Ended(End::Cancelled)),
        (O::Cancel, Reply::HasEnded, Status::Ended(_)) => Some(status),
        (O::Replay, Reply::Done, Status::Ended(_)) => Some(Status::Live),
        (O::Replay, Reply::HasNotEnded, Status::Live) => Some(status),
        // A worker that lost its lease may be told that the execution had ended at any earlier
        // time.
        (O::Complete | O::Fail | O::Claim, Reply::HasEnded, _) => Some(status),
        (
            O::Create | O::Claim | O::Complete | O::Fail | O::Cancel | O::Replay,
            Reply::Done
            | Reply::DoneForGood
            | Reply::Already
            | Reply::HasEnded
            | Reply::HasNotEnded,
            _,
        ) => None,
    }
}
