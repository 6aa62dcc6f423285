-- Makes an execution claimable again whose lease expired (it is marked here if necessary) or was
-- revoked; the next claim opens a new attempt. At the reclaim cap it ends failed instead, and a
-- member of a cancelled flow ends cancelled. For a lease that has not expired, the index entries
-- get its true expiry time. An added function.
-- Keys: exec_core (hash)
-- Arguments: execution_id, default_max_reclaim_count (100 unless given)
-- Replies: requeued, ended, not_due, not_lost
-- Errors: invalid_input
-- Bound: 93
-- Keeps: WorkComesBack, OneHome, AttemptsHonest, NotBeforeDue, VectorWhole

local function forget(k, id)
  call("ZREM", k.lease_expiry, id)
  return ok("not_lost")
end

-- Writes the true expiry time of a valid lease to the indexes.
local function still_held(k, id, expires_at)
  call("ZADD", k.lease_expiry, number.digits(expires_at), id)
  call("ZADD", k.active, "XX", number.digits(expires_at), id)
  return ok("not_due", expires_at)
end

local function requeue(k, id, lost)
  local core, now = lost.core, lost.now
  call("DEL", k.claim_grant)
  lease.close_lost(k, lost)
  lease.history(k.lease_history, "released", lease.EVENT.released_for_later,
    lease.current(core, now, "requeued"))
  state.put(k.exec_core, state.eligible("pending_retry_attempt"), text.append({
    "pending_retry_reason", lost.reason,
    "pending_previous_attempt_index", text.either(core.current_attempt_index, "0"),
    "current_attempt_id", "", "lease_reclaim_count", lost.count + 1,
    "last_transition_at", now, "last_mutation_at", now,
  }, lease.RELEASED, lease.CLEAR_LOST))
  lease.release(k, id, core)
  lane.move(id, text.append({ k.active }, lost.stale_keys), k.eligible, lane.eligible_score(core))
  return ok("requeued", lost.count + 1)
end

define("ff_requeue_lost_lease",
  { "exec_core!=hash" },
  { "execution_id!", "default_max_reclaim_count" },
  function(given, a)
    local default_cap, refused = number.optional(a.default_max_reclaim_count,
      "default_max_reclaim_count", 100)
    if not default_cap then return refused end
    local core = record.read(given.exec_core) or {}
    local id, now = a.execution_id, number.now()
    local k, plan
    k, refused = record.checked_keys(given.exec_core, id, core)
    if not k then return refused end
    if core.lifecycle_phase ~= "active" then return forget(k, id) end
    plan, refused = completion.prepare(k, id, core)
    if not plan then return refused end
    local barred = flow.cancel_covers(k.exec_core, core)
    local capped = lease.cap_reached(k, core, default_cap)
    local leased, expires_at = core.ownership_state == "leased",
      number.floor(core.lease_expires_at, 0)
    local meta
    meta, refused = lease.stream_to_close(k, core)
    if refused then return refused end
    -- write; nothing below can fail
    if leased and expires_at > now then return still_held(k, id, expires_at) end
    if not leased and not lease.is_lost(core) then return forget(k, id) end
    if leased then
      lease.write_expired(k, core, meta, now)
      core.ownership_state = "lease_expired_reclaimable"
    end
    if barred then
      completion.cancel(k, id, plan, "flow_cancelled", "flow_cascade", now)
      return ok("ended", "cancelled")
    end
    local lost = lease.takeover(core, plan.stale_keys, now)
    if capped then
      lease.end_at_cap(k, id, lost)
      return ok("ended", "failed")
    end
    return requeue(k, id, lost)
  end)
