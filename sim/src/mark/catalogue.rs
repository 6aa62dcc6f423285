//! All marks, one line each.

use selvedge_core::call::budget::HoldReason;
use selvedge_core::engine::Observation;
use selvedge_core::id::ExecutionId;
use selvedge_core::state::{EligibilityState, LifecyclePhase, TerminalOutcome};
use selvedge_core::value::Value;
use selvedge_core::worker::{Observation as Fact, PANIC};

use super::{Mark, MarkContext};
use crate::event::{Actor, EventKind, HandlerStep};
use crate::fault::Fault;
use crate::oracle::call::Answer;
use crate::oracle::changes::{ExecutionState, Group};

macro_rules! marks {
    ($( $name:literal: $seen:expr; )+) => {
        /// All marks.
        pub const MARKS: &[Mark] = &[$( Mark { name: $name, seen: $seen }, )+];
    };
}

marks! {
    // Edge groups and the cancels that they cause.
    "any-of group fired": |g| fires(g, |is| is.variant == "any_of" && is.state == "satisfied");
    "quorum group fired": |g| fires(g, |is| is.variant == "quorum" && is.state == "satisfied");
    "group became impossible": |g| fires(g, |is| is.state == "impossible");
    "group fired with siblings to cancel": |g| fires(g, |is| is.cancels_pending && !is.siblings.is_empty());
    "quorum fired while a sibling completed": sibling_won_too;
    "tuple drained": |g| g.did("drain_sibling_cancel_group_checked", "drained");
    "tuple drained by a second engine": drained_by_another;
    "drain refused while a sibling ran": |g| g.did("drain_sibling_cancel_group_checked", "siblings_running");
    "reconciler finished a drain": |g| g.did("reconcile_sibling_cancel_group", "completed_drain");
    "reconciler left a group to the dispatcher":
        |g| g.did("reconcile_sibling_cancel_group", "no_op");
    "sibling had ended before its cancel":
        |g| g.by_engine() && g.refused("cancel_execution", "execution_not_active");
    "sibling cancelled by an engine": |g| g.by_engine() && g.did("cancel_execution", "cancelled");
    "running execution cancelled": |g| g.done("cancel_execution") && g.changes.executions
        .iter().any(|change| change.was.as_ref().is_some_and(|was| was.is_leased()));
    "flow cancelled with members to cancel": |g| g.done("cancel_flow") && !g.changes.pending_cancels.is_empty();
    "cancel of a member acknowledged by an engine":
        |g| g.by_engine() && g.done("ack_cancel_member");

    // Clients.
    "sealing continued by a caller": |g| g.by_caller() && g.did("submit_flow", "sealing");
    "chunk sent again by a restarted caller": |g| g.by_caller() && g.called("submit_flow")
        && g.history.callers_died.contains(&g.event.actor);
    "member cancelled by a caller": |g| g.by_caller() && g.done("cancel_execution")
        && g.call.is_some_and(|call| call.argument("source") == "flow_cascade");
    "cancel of a member acknowledged by a caller":
        |g| g.by_caller() && g.done("ack_cancel_member");
    "cancel of a cancelled flow refused":
        |g| g.by_caller() && g.refused("cancel_flow", "flow_already_terminal");
    "lanes registered by a caller": |g| matches!(&g.event.kind, EventKind::Applied(applied)
        if g.by_caller() && applied.argv.first().is_some_and(|verb| verb == b"SADD"));
    "signal kept for a pending waitpoint": |g| g.done("buffer_signal_for_pending_waitpoint");
    "end noticed by a waiter": |g| waited(g, |ended| ended.is_some_and(|ended| ended.len() == 1));
    "end of a flow noticed by a waiter":
        |g| waited(g, |ended| ended.is_some_and(|ended| ended.len() > 1));
    "wait failed, and was begun again": |g| waited(g, |ended| ended.is_none());

    // Workers.
    "claim repeated by a worker": |g| worker(g, |fact| matches!(fact, Fact::ClaimRepeated(_)));
    "claim given up by a worker": |g| worker(g, |fact| matches!(fact, Fact::ClaimGivenUp(_)));
    "claim failed at a worker": |g| worker(g, |fact| matches!(fact, Fact::ClaimFailed { .. }));
    "permits of a slow claim lent": |g| worker(g, |fact| matches!(fact, Fact::ClaimSlow(_)));
    "claimed execution waited for a permit": |g| worker(g, |fact| matches!(fact, Fact::NoPermit(_)));
    "claimed execution put back": |g| worker(g, |fact| matches!(fact, Fact::PutBack(_)));
    "push to a worker at capacity": |g| worker(g, |fact| matches!(fact, Fact::AtCapacity));
    "ready executions counted after a gap": |g| worker(g, |fact| matches!(fact, Fact::Surveyed));
    "execution admitted": |g| worker(g, |fact| matches!(fact, Fact::Admitted(_)));
    "execution not admitted by its budget": |g| worker(g, |fact| matches!(fact,
        Fact::NotAdmitted { reason: HoldReason::Budget, .. }));
    "execution not admitted by its quota": |g| worker(g, |fact| matches!(fact,
        Fact::NotAdmitted { reason: HoldReason::Quota, .. }));
    "execution changed before it was blocked":
        |g| worker(g, |fact| matches!(fact, Fact::NotBlocked { .. }));
    "admission failed": |g| worker(g, |fact| matches!(fact, Fact::AdmissionFailed { .. }));
    "renewal not answered": |g| worker(g, |fact| matches!(fact, Fact::RenewalFailed { .. }));
    "lease lost by a refused renewal":
        |g| worker(g, |fact| matches!(fact, Fact::LeaseLost { refusal: Some(_), .. }));
    "lease over by the clock of its worker":
        |g| worker(g, |fact| matches!(fact, Fact::LeaseLost { refusal: None, .. }));
    "report not answered": |g| worker(g, |fact| matches!(fact, Fact::ReportUnanswered { .. }));
    "earlier report found": |g| worker(g, |fact| matches!(fact, Fact::ReportFound(_)));
    "report rejected": |g| worker(g, |fact| matches!(fact, Fact::ReportRejected { .. }));
    "outcome of a handler discarded":
        |g| worker(g, |fact| matches!(fact, Fact::OutcomeDiscarded { outcome: Some(_), .. }));
    "outcome given up without a handler":
        |g| worker(g, |fact| matches!(fact, Fact::OutcomeDiscarded { outcome: None, .. }));
    "quota slot given back by a worker": |g| worker(g, |fact| matches!(fact, Fact::QuotaReleased(_)));
    "quota slot kept by a worker": |g| worker(g, |fact| matches!(fact, Fact::QuotaKept(_)));
    "quota slot left to the engine": |g| worker(g, |fact| matches!(fact, Fact::QuotaNotReleased { .. }));
    "slot taken back by an engine": |g| g.by_engine() && g.did("release_admission", "released");
    "drain time over": |g| worker(g, |fact| matches!(fact, Fact::DrainTimeOver));
    "worker drained": |g| worker(g, |fact| matches!(fact, Fact::Drained));
    "handler told to stop": |g| handler(g, HandlerStep::CancelRequested);
    "panic reported": |g| g.by_worker() && g.call.is_some_and(|call| call.argument("failure_category") == PANIC);
    "worker died with handlers running": |g| matches!(g.event.kind, EventKind::Died)
        && g.history.handlers.get(&g.event.actor).is_some_and(|running| *running > 0);
    "worker drained with calls in flight": |g| worker(g, |fact| matches!(fact, Fact::Drained))
        && g.history.under_way.get(&g.event.actor).is_some_and(|calls| !calls.is_empty());
    "handler ran on after it was told to stop": |g| handler(g, HandlerStep::Ended)
        && matches!(g.event.kind, EventKind::Handler { lease, .. }
            if g.history.told.get(&lease).is_some_and(|at_ms| at_ms + 500 < g.event.at_ms));

    // Leases.
    "lost lease requeued": |g| g.did("requeue_lost_lease", "requeued");
    "lost lease of a cancelled flow ended": |g| g.did("requeue_lost_lease", "cancelled");
    "lease checked before its end": |g| g.did("requeue_lost_lease", "not_due");
    "late report refused by the fence": |g| g.by_worker() && says_stale(g);
    "report with an expired lease refused": |g| g.by_worker()
        && matches!(g.answer, Answer::Refused(code) if code == "lease_expired");
    "report after the end refused": |g| g.by_worker()
        && matches!(g.answer, Answer::Refused(code) if code == "execution_not_active");
    "claim repeated with the same lease": |g| g.did("claim_many", "claimed") && repeats_leases(g);
    "several claimed in one call": |g| g.did("claim_many", "claimed")
        && g.changes.executions.iter().filter(|change| change.got_a_lease().is_some()).count() > 1;
    "claimed behind executions that were passed over": |g| g.did("claim_many", "claimed")
        && g.call.is_some_and(|call| !call.argument("offset").is_empty());
    "end claimed behind executions that were passed over": |g| g.did("end_and_claim", "claimed")
        && g.call.is_some_and(|call| !call.argument("offset").is_empty());
    "nothing that waits is for this worker": |g| g.did("claim_many", "none_claimable");
    "end claimed the next": |g| g.did("end_and_claim", "claimed");
    "end claimed a child that it had released": |g| g.did("end_and_claim", "claimed")
        && g.changes.executions.iter().any(|change| change.got_a_lease().is_some()
            && change.vectors().is_some_and(|[was, _]| was.is_some_and(|was|
                was.eligibility == EligibilityState::BlockedByDependencies)));
    "end found nothing to claim": |g| g.did("end_and_claim", "empty");
    "end found a candidate for admission": |g| g.did("end_and_claim", "needs_admission");
    "repeated end got its claim again": |g| g.did("end_and_claim", "claimed") && repeats_leases(g);
    "second attempt started": |g| g.changes.executions.iter()
        .any(|change| change.got_a_lease().is_some_and(|is| is.attempts > 1));

    // Ends.
    "retry scheduled": |g| g.did("fail_execution", "retry_scheduled")
        || g.did("end_and_claim", "retry_scheduled");
    "failed for good": |g| g.did("fail_execution", "terminal_failed")
        || g.did("end_and_claim", "terminal_failed");
    "child skipped": |g| ends(g, TerminalOutcome::Skipped);
    "skip that caused another skip": skipped_by_a_skip;
    "expired by its deadline": |g| g.did("expire_if_due", "expired");
    "expiry not due any more": |g| g.did("expire_if_due", "not_due")
        || g.did("expire_if_due", "already_terminal") || g.did("expire_if_due", "other_attempt");
    "cancel refused after the end":
        |g| !g.by_engine() && g.refused("cancel_execution", "execution_not_active");
    "ended execution replayed": |g| g.done("replay_execution");
    "replay refused while it ran": |g| g.refused("replay_execution", "execution_not_terminal");

    // Waiting.
    "delayed execution promoted": |g| g.did("promote_delayed", "promoted");
    "execution suspended": |g| moves(g, LifecyclePhase::Suspended);
    "suspension ended by a signal": |g| g.did("deliver_signal", "resume_condition_satisfied");
    "signal recognised as a repeat": |g| g.did("deliver_signal", "DUPLICATE");
    "signal refused": |g| g.called("deliver_signal") && matches!(g.answer, Answer::Refused(_));
    "suspension timed out": |g| g.called("expire_suspension") && !g.changes.executions.is_empty();

    // Edges.
    "edge resolved without a push": |g| g.done("resolve_outgoing")
        && g.call.is_some_and(|call| !call.argument("only_edge").is_empty())
        && !g.changes.executions.is_empty();
    "edge of a lost upstream resolved":
        |g| g.done("resolve_lost") && !g.changes.executions.is_empty();
    "edges resolved in several steps": |g| g.did("resolve_outgoing", "more");
    "edge resolved by one engine, found resolved by another": |g| g.by_engine()
        && g.done("resolve_outgoing") && g.changes.executions.is_empty() && g.history.engine_deaths > 0;
    "submission made in several calls": |g| g.did("submit_flow", "open");
    "submission repeated": |g| g.did("submit_flow", "ALREADY_SATISFIED");
    "creation repeated": |g| g.did("create_execution", "DUPLICATE");

    // Maintenance.
    "flow found finished": |g| g.did("project_flow", "finished");
    "unreadable entry set aside": |g| g.did("set_aside", "set_aside");
    "index repaired": |g| g.did("repair_index", "repaired");

    // The sleep of engines.
    "engine told what is due soon": |g| matches!(&g.event.kind, EventKind::Applied(applied)
        if applied.published.iter().any(|message| message.channel == b"ff:due"));
    "engine slept": |g| g.by_engine() && g.history.sleep.slept_since(g.event).is_some();
    "engine woken for what was told": |g| g.by_engine() && g.history.sleep.was_woken(g.event);
    "push lost while an engine slept":
        |g| g.by_engine() && g.history.sleep.slept_through(g.event, Fault::WakeupLost);
    "clock jumped while an engine slept":
        |g| g.by_engine() && g.history.sleep.slept_through(g.event, Fault::ServerClockJump);
    "failover while an engine slept":
        |g| g.by_engine() && g.history.sleep.slept_through(g.event, Fault::FailoverLosesSuffix);

    // Audits.
    "page audited": |g| g.done("audit_executions");
    "ended executions not read again": |g| g.done("audit_executions")
        && g.call.is_some_and(|call| call.argument("ended_before") != "0");

    // Links, engines and servers.
    "ticket given up": |g| observed(g, |fact| matches!(fact, Observation::BatchTimedOut(_)));
    "answer to a closed ticket": |g| observed(g, |fact| matches!(fact, Observation::AnswerIgnored(_)));
    "dispatch handed over to the reconciler":
        |g| observed(g, |fact| matches!(fact, Observation::HandedOver { .. }));
    "several executions purged in one call":
        |g| g.done("purge_executions") && purged(g).count() > 1;
    // No run takes the day of the default retention.
    "execution purged because newer ones ended": |g| g.by_engine()
        && purged(g).any(|was| was.retention_ms.is_none() && was.vector.is_some());
    "partition could not be read":
        |g| observed(g, |fact| matches!(fact, Observation::PartitionFailed { .. }));
    "engine died with calls in flight": |g| matches!(g.event.kind, EventKind::Died)
        && g.history.under_way.get(&g.event.actor).is_some_and(|calls| !calls.is_empty());
    "call applied after its sender died": |g| matches!(&g.event.kind, EventKind::Applied(applied)
        if g.history.orphaned.contains(&applied.call));
    "call applied twice": |g| matches!(&g.event.kind, EventKind::Applied(applied)
        if g.history.applied.contains(&applied.call));
    "acknowledged commits lost": |g| matches!(g.event.kind, EventKind::CommitsLost { .. });
    "work went on after a lossy failover": |g| g.history.commits_lost
        && g.changes.executions.iter().any(|change| change.got_a_lease().is_some());
    "due work done while another shard was slow": done_while_another_shard_is_slow;
    "command sent on while its slot moved key by key": |g| matches!(&g.event.kind,
        EventKind::Fault { fault: Fault::Ask, detail } if detail.ends_with("key by key"));
    "call refused while its slot moved key by key": |g| matches!(&g.event.kind,
        EventKind::Fault { fault: Fault::TryAgain, detail } if detail.ends_with("key by key"));
    "function found its slot moving": |g| matches!(&g.event.kind,
        EventKind::Applied(applied) if matches!(&applied.reply,
            Value::Error(text) if text.starts_with("TRYAGAIN")));
    "two engines scanned at the same time": |g| g.called("scan_partition")
        && matches!(g.history.scanned, Some((actor, at_ms))
            if actor != g.event.actor && at_ms == g.event.at_ms);
}

/// The executions that a call deleted, as they were.
fn purged<'a>(context: &MarkContext<'a>) -> impl Iterator<Item = &'a ExecutionState> {
    let purges = context.called("purge_execution") || context.called("purge_executions");
    let gone = context.changes.executions.iter().filter(|change| change.is.is_none());
    gone.filter_map(|change| change.was.as_ref()).filter(move |_| purges)
}

/// Whether a call asks for leases that an earlier call had asked for.
fn repeats_leases(context: &MarkContext<'_>) -> bool {
    let known = |lease: &&[u8]| context.history.leases.contains(*lease);
    context.call.is_some_and(|call| call.new_leases().iter().any(known))
}

fn fires(context: &MarkContext<'_>, wanted: fn(&Group) -> bool) -> bool {
    context.changes.groups.iter().any(|change| {
        let was = change.was.as_ref().is_none_or(|was| was.state == "pending");
        was && change.is.as_ref().is_some_and(|is| is.state != "pending" && wanted(is))
    })
}

/// A group fires because of one upstream, while another has also succeeded but was not resolved
/// yet.
fn sibling_won_too(context: &MarkContext<'_>) -> bool {
    fires(context, |is| matches!(is.variant.as_str(), "quorum" | "any_of"))
        && context.changes.executions.iter().filter_map(|change| change.is.as_ref()).any(|child| {
            child.edges.values().filter(|edge| edge.state == "unsatisfied").any(|edge| {
                edge.upstream.parse().is_ok_and(|id: selvedge_core::id::ExecutionId| {
                    let upstream = context.view.of(id.partition()).execution(&id);
                    upstream
                        .is_some_and(|upstream| upstream.core.text("terminal_outcome") == "success")
                })
            })
        })
}

/// The last step of a group's cancels is made by another engine than the one that began them.
fn drained_by_another(context: &MarkContext<'_>) -> bool {
    let drains = context.did("drain_sibling_cancel_group_checked", "drained")
        || context.did("reconcile_sibling_cancel_group", "completed_drain");
    drains
        && context.changes.groups.iter().any(|change| {
            let since = context.history.fired.get(&change.of);
            since.is_some_and(|deaths| *deaths < context.history.engine_deaths)
                || context
                    .history
                    .cancels
                    .iter()
                    .any(|other| *other != context.event.actor && matches!(other, Actor::Engine(_)))
        })
}

fn skipped_by_a_skip(context: &MarkContext<'_>) -> bool {
    context.changes.executions.iter().any(|change| {
        let outcome = change.is.as_ref().and_then(|is| is.vector).map(|vector| vector.outcome);
        let edges = change.is.iter().flat_map(|is| is.edges.values());
        outcome == Some(TerminalOutcome::Skipped)
            && change.vectors().is_some()
            && edges.filter(|edge| edge.state == "impossible").any(|edge| {
                edge.upstream.parse().is_ok_and(|id: selvedge_core::id::ExecutionId| {
                    let upstream = context.view.of(id.partition()).execution(&id);
                    upstream
                        .is_some_and(|upstream| upstream.core.text("terminal_outcome") == "skipped")
                })
            })
    })
}

/// An engine acted on due work while another shard was slow.
fn done_while_another_shard_is_slow(context: &MarkContext<'_>) -> bool {
    let (view, now_ms) = (context.view, context.event.at_ms);
    let due = context.did("promote_delayed", "promoted") || context.did("expire_if_due", "expired");
    let is_slow = |shard: usize| (view.slow_until)(shard) > now_ms;
    let own = context.call.and_then(|call| call.execution());
    let own = own.map(|id| (view.owners)(id.partition().slot()));
    due && own.is_some_and(|own| !is_slow(own) && (0..view.shards.len()).any(is_slow))
}

type EndedExecution = (ExecutionId, TerminalOutcome);

fn waited(context: &MarkContext<'_>, wanted: fn(Option<&[EndedExecution]>) -> bool) -> bool {
    matches!(&context.event.kind, EventKind::WaitOver { ended, .. } if wanted(ended.as_deref()))
}

fn ends(context: &MarkContext<'_>, outcome: TerminalOutcome) -> bool {
    context.changes.executions.iter().any(|change| {
        change.vectors().is_some_and(|[_, is]| is.is_some_and(|is| is.outcome == outcome))
    })
}

fn moves(context: &MarkContext<'_>, phase: LifecyclePhase) -> bool {
    context.changes.executions.iter().any(|change| {
        change.vectors().is_some_and(|[was, is]| {
            is.is_some_and(|is| is.phase == phase) && was.is_none_or(|was| was.phase != phase)
        })
    })
}

fn says_stale(context: &MarkContext<'_>) -> bool {
    matches!(context.answer, Answer::Refused(code) if code == "stale_lease")
}

fn worker(context: &MarkContext<'_>, wanted: fn(&Fact) -> bool) -> bool {
    matches!(&context.event.kind, EventKind::WorkerObserved(fact) if wanted(fact))
}

fn handler(context: &MarkContext<'_>, wanted: HandlerStep) -> bool {
    matches!(&context.event.kind, EventKind::Handler { step, .. } if *step == wanted)
}

fn observed(context: &MarkContext<'_>, wanted: fn(&Observation) -> bool) -> bool {
    matches!(&context.event.kind, EventKind::Observed(fact) if wanted(fact))
}
