//! All marks, one line each.

use selvedge_core::engine::Observation;
use selvedge_core::state::{LifecyclePhase, TerminalOutcome};

use super::{Glance, Mark};
use crate::event::{Actor, What};
use crate::oracle::call::Answer;
use crate::oracle::scene::Group;

macro_rules! marks {
    ($( $name:literal: $seen:expr; )+) => {
        /// All marks.
        pub const MARKS: &[Mark] = &[$( Mark { name: $name, seen: $seen }, )+];
    };
}

marks! {
    // Groups and the debts that they leave.
    "any-of group fired": |g| fires(g, |is| is.variant == "any_of" && is.state == "satisfied");
    "quorum group fired": |g| fires(g, |is| is.variant == "quorum" && is.state == "satisfied");
    "group became impossible": |g| fires(g, |is| is.state == "impossible");
    "group fired with siblings to cancel": |g| fires(g, |is| is.owes && !is.siblings.is_empty());
    "quorum fired while a sibling completed": sibling_won_too;
    "tuple drained": |g| g.did("drain_sibling_cancel_group_checked", "drained");
    "tuple drained by a second engine": drained_by_another;
    "drain refused while a sibling ran": |g| g.did("drain_sibling_cancel_group_checked", "unpaid");
    "reconciler finished a drain": |g| g.did("reconcile_sibling_cancel_group", "completed_drain");
    "reconciler left a group to the dispatcher":
        |g| g.did("reconcile_sibling_cancel_group", "no_op");
    "sibling had ended before its cancel":
        |g| g.by_engine() && g.refused("cancel_execution", "execution_not_active");
    "sibling cancelled by an engine": |g| g.by_engine() && g.did("cancel_execution", "cancelled");
    "running work cancelled under its worker": |g| g.done("cancel_execution") && g.scene.executions
        .iter().any(|change| change.was.as_ref().is_some_and(|was| was.is_leased()));
    "flow cancelled with members owed": |g| g.done("cancel_flow") && !g.scene.owed.is_empty();
    "cancel of a member acknowledged by an engine":
        |g| g.by_engine() && g.done("ack_cancel_member");

    // Leases.
    "lost lease brought back": |g| g.did("requeue_lost_lease", "requeued");
    "lost lease of a cancelled flow ended": |g| g.did("requeue_lost_lease", "cancelled");
    "lease marked as lapsed": |g| g.did("mark_lease_expired_if_due", "marked_expired");
    "lease looked at before its end": |g| g.did("requeue_lost_lease", "not_due")
        || g.did("mark_lease_expired_if_due", "not_yet_expired");
    "late report refused by the fence": |g| g.by_worker() && says_stale(g);
    "report of a lapsed lease refused": |g| g.by_worker()
        && matches!(g.answer, Answer::Refused(code) if code == "lease_expired");
    "report after the end refused": |g| g.by_worker()
        && matches!(g.answer, Answer::Refused(code) if code == "execution_not_active");
    "claim repeated with the same lease": |g| g.did("claim_next", "claimed")
        && g.call.is_some_and(|call| g.trail.leases.contains(call.argument("lease_id")));
    "second attempt started": |g| g.scene.executions.iter()
        .any(|change| change.got_a_lease().is_some_and(|is| is.attempts > 1));

    // Ends.
    "retry scheduled": |g| g.did("fail_execution", "retry_scheduled");
    "failed for good": |g| g.did("fail_execution", "terminal_failed");
    "child skipped": |g| ends(g, TerminalOutcome::Skipped);
    "skip that skips again": skipped_by_a_skip;
    "expired by its deadline": |g| g.did("expire_if_due", "expired");
    "expiry called off": |g| g.did("expire_if_due", "not_due")
        || g.did("expire_if_due", "already_terminal") || g.did("expire_if_due", "other_attempt");
    "cancel refused after the end":
        |g| !g.by_engine() && g.refused("cancel_execution", "execution_not_active");
    "ended work replayed": |g| g.done("replay_execution");
    "replay refused while it ran": |g| g.refused("replay_execution", "execution_not_terminal");

    // Waiting.
    "delayed work promoted": |g| g.did("promote_delayed", "promoted");
    "execution suspended": |g| moves(g, LifecyclePhase::Suspended);
    "suspension ended by a signal": |g| g.did("deliver_signal", "resume_condition_satisfied");
    "signal told to be a repeat": |g| g.did("deliver_signal", "DUPLICATE");
    "signal refused": |g| g.called("deliver_signal") && matches!(g.answer, Answer::Refused(_));
    "suspension timed out": |g| g.called("expire_suspension") && !g.scene.executions.is_empty();

    // Edges.
    "edge resolved that no push told of": |g| g.done("resolve_outgoing")
        && g.call.is_some_and(|call| !call.argument("only_edge").is_empty())
        && !g.scene.executions.is_empty();
    "edges resolved in several steps": |g| g.did("resolve_outgoing", "more");
    "edge resolved by one engine, found resolved by another": |g| g.by_engine()
        && g.done("resolve_outgoing") && g.scene.executions.is_empty() && g.trail.engine_deaths > 0;
    "submission made in several calls": |g| g.did("submit_flow", "open");
    "submission repeated": |g| g.did("submit_flow", "ALREADY_SATISFIED");
    "creation repeated": |g| g.did("create_execution", "DUPLICATE");

    // Housekeeping.
    "flow found finished": |g| g.did("project_flow", "finished");
    "poison set aside": |g| g.did("set_aside", "set_aside");
    "index repaired": |g| g.did("repair_index", "repaired");

    // Links, engines and servers.
    "ticket given up": |g| observed(g, |fact| matches!(fact, Observation::TicketExpired(_)));
    "answer to a closed ticket": |g| observed(g, |fact| matches!(fact, Observation::AnswerIgnored(_)));
    "dispatch handed over to the reconciler":
        |g| observed(g, |fact| matches!(fact, Observation::HandedOver { .. }));
    "partition could not be read":
        |g| observed(g, |fact| matches!(fact, Observation::PartitionFailed { .. }));
    "engine died with calls on their way": |g| matches!(g.event.what, What::Died)
        && g.trail.under_way.get(&g.event.actor).is_some_and(|calls| !calls.is_empty());
    "call applied after its sender died": |g| matches!(&g.event.what, What::Applied(applied)
        if g.trail.orphaned.contains(&applied.call));
    "call applied twice": |g| matches!(&g.event.what, What::Applied(applied)
        if g.trail.applied.contains(&applied.call));
    "acknowledged commits lost": |g| matches!(g.event.what, What::CommitsLost { .. });
    "work went on after a lossy failover": |g| g.trail.commits_lost
        && g.scene.executions.iter().any(|change| change.got_a_lease().is_some());
    "due work done beside a slow shard": done_beside_a_slow_shard;
    "two engines scanned at the same instant": |g| g.called("scan_partition")
        && matches!(g.trail.scanned, Some((actor, at_ms))
            if actor != g.event.actor && at_ms == g.event.at_ms);
}

fn fires(glance: &Glance<'_>, wanted: fn(&Group) -> bool) -> bool {
    glance.scene.groups.iter().any(|change| {
        let was = change.was.as_ref().is_none_or(|was| was.state == "pending");
        was && change.is.as_ref().is_some_and(|is| is.state != "pending" && wanted(is))
    })
}

/// The group of a child fires by one upstream while another has succeeded too, untold.
fn sibling_won_too(glance: &Glance<'_>) -> bool {
    fires(glance, |is| matches!(is.variant.as_str(), "quorum" | "any_of"))
        && glance.scene.executions.iter().filter_map(|change| change.is.as_ref()).any(|child| {
            child.edges.values().filter(|edge| edge.state == "unsatisfied").any(|edge| {
                edge.upstream.parse().is_ok_and(|id: selvedge_core::id::ExecutionId| {
                    let upstream = glance.view.of(id.partition()).execution(&id);
                    upstream
                        .is_some_and(|upstream| upstream.core.text("terminal_outcome") == "success")
                })
            })
        })
}

/// A note goes by the hand of an engine that came after the one that began to pay.
fn drained_by_another(glance: &Glance<'_>) -> bool {
    let drains = glance.did("drain_sibling_cancel_group_checked", "drained")
        || glance.did("reconcile_sibling_cancel_group", "completed_drain");
    drains
        && glance.scene.groups.iter().any(|change| {
            let since = glance.trail.fired.get(&change.of);
            since.is_some_and(|deaths| *deaths < glance.trail.engine_deaths)
                || glance
                    .trail
                    .cancels
                    .iter()
                    .any(|other| *other != glance.event.actor && matches!(other, Actor::Engine(_)))
        })
}

fn skipped_by_a_skip(glance: &Glance<'_>) -> bool {
    glance.scene.executions.iter().any(|change| {
        let outcome = change.is.as_ref().and_then(|is| is.vector).map(|vector| vector.outcome);
        let edges = change.is.iter().flat_map(|is| is.edges.values());
        outcome == Some(TerminalOutcome::Skipped)
            && change.vectors().is_some()
            && edges.filter(|edge| edge.state == "impossible").any(|edge| {
                edge.upstream.parse().is_ok_and(|id: selvedge_core::id::ExecutionId| {
                    let upstream = glance.view.of(id.partition()).execution(&id);
                    upstream
                        .is_some_and(|upstream| upstream.core.text("terminal_outcome") == "skipped")
                })
            })
    })
}

/// An engine did what was due while another shard was slow to answer.
fn done_beside_a_slow_shard(glance: &Glance<'_>) -> bool {
    let (view, now_ms) = (glance.view, glance.event.at_ms);
    let due = glance.did("promote_delayed", "promoted")
        || glance.did("mark_lease_expired_if_due", "marked_expired")
        || glance.did("expire_if_due", "expired");
    let is_slow = |shard: usize| (view.slow_until)(shard) > now_ms;
    let own = glance.call.and_then(|call| call.execution());
    let own = own.map(|id| (view.owners)(id.partition().slot()));
    due && own.is_some_and(|own| !is_slow(own) && (0..view.shards.len()).any(is_slow))
}

fn ends(glance: &Glance<'_>, outcome: TerminalOutcome) -> bool {
    glance.scene.executions.iter().any(|change| {
        change.vectors().is_some_and(|[_, is]| is.is_some_and(|is| is.outcome == outcome))
    })
}

fn moves(glance: &Glance<'_>, phase: LifecyclePhase) -> bool {
    glance.scene.executions.iter().any(|change| {
        change.vectors().is_some_and(|[was, is]| {
            is.is_some_and(|is| is.phase == phase) && was.is_none_or(|was| was.phase != phase)
        })
    })
}

fn says_stale(glance: &Glance<'_>) -> bool {
    matches!(glance.answer, Answer::Refused(code) if code == "stale_lease")
}

fn observed(glance: &Glance<'_>, wanted: fn(&Observation) -> bool) -> bool {
    matches!(&glance.event.what, What::Observed(fact) if wanted(fact))
}
