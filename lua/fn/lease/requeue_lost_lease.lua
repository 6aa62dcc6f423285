-- Brings the work of a dead or dismissed worker back: an execution whose lease lapsed (marked here
-- if need be) or was revoked becomes claimable again, with a new attempt at the next claim. Over
-- the reclaim cap it ends failed instead, and a member of a cancelled flow ends cancelled. A lease
-- that still stands gets its true due time back in the indexes. An added function.
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

-- Shows when the standing lease runs out, wherever somebody may look for it.
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
  }, lease.RELEASED, lease.UNLOST))
  lease.release(k, id, core)
  lane.move(id, text.append({ k.active }, lost.strays), k.eligible, lane.eligible_score(core))
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
    k, refused = record.keyring(given.exec_core, id, core)
    if not k then return refused end
    if core.lifecycle_phase ~= "active" then return forget(k, id) end
    plan, refused = completion.prepare(k, id, core)
    if not plan then return refused end
    local barred = lease.barred(k.exec_core, core)
    local capped = lease.cap_reached(k, core, default_cap)
    -- write; nothing below can fail
    if core.ownership_state == "leased" then
      local expires_at = number.floor(core.lease_expires_at, 0)
      if expires_at > now then return still_held(k, id, expires_at) end
      refused = lease.mark_expired(k, core, now)
      if refused then return refused end
      core.ownership_state = "lease_expired_reclaimable"
    elseif not lease.is_lost(core) then
      return forget(k, id)
    end
    if barred then
      completion.cancel(k, id, plan, "flow_cancelled", "flow_cascade", now)
      return ok("ended", "cancelled")
    end
    local lost = lease.takeover(core, plan.strays, now)
    if capped then
      lease.end_at_cap(k, id, lost)
      return ok("ended", "failed")
    end
    return requeue(k, id, lost)
  end)
