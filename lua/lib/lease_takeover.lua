-- Taking over from a lease that expired or was revoked.

-- Whether the lease of an execution is gone while it is still active.
function lease.is_lost(core)
  return core.lifecycle_phase == "active"
    and (core.ownership_state == "lease_expired_reclaimable"
      or core.ownership_state == "lease_revoked")
end

-- What taking over a lost lease needs: the record, why the lease was lost, how often before.
function lease.takeover(core, stale_keys, now)
  return {
    core = core,
    now = now,
    stale_keys = stale_keys,
    reason = "lease_" .. text.present(core.ownership_state, ""),
    count = math.max(0, number.floor(core.lease_reclaim_count, 0)),
  }
end

-- The reclaim cap that the execution has reached, nil while it may still be taken over.
function lease.cap_reached(k, core, default_cap)
  local cap = policy.reclaim_cap(policy.read(k.exec_core), default_cap)
  return number.floor(core.lease_reclaim_count, 0) >= cap and cap or nil
end

-- Closes the attempt that lost its lease, and its stream.
function lease.close_lost(k, lost)
  if text.set(k.attempt) then
    attempt.finish(k.attempt, "interrupted_reclaimed", lost.now,
      { "failure_reason", lost.reason })
  end
  stream.close(k.stream_meta, "reclaimed", lost.now)
end

-- Ends an execution that has reached the reclaim cap.
function lease.end_at_cap(k, id, lost)
  call("DEL", k.claim_grant)
  lease.close_lost(k, lost)
  lease.history(k.lease_history, "released", lease.EVENT.released,
    lease.current(lost.core, lost.now, "max_reclaims_exceeded"))
  completion.finish(k, id, lost.core, {
    outcome = "failed",
    now = lost.now,
    from = text.append({ k.active }, lost.stale_keys),
    fields = text.append({ "failure_reason", "max_reclaims_exceeded" }, lease.NO_RENEWAL),
  })
end
