-- Takes over an expired or revoked lease with a new attempt, or ends the execution when the reclaim
-- cap is reached. The cap is checked before the grant.
-- Keys: exec_core (hash), claim_grant (hash), attempt (hash: the lost one), stream_meta (hash),
--   two ignored, attempts (zset), lease_current (hash), lease_history (stream),
--   lease_expiry (zset), worker_leases (set: of the new holder), active (zset),
--   attempt_timeout (zset), execution_deadline (zset)
-- Arguments: execution_id, worker_id, worker_instance_id, lane, lease_id, lease_ttl_ms,
--   attempt_id, attempt_policy_json, default_max_reclaim_count
-- Replies: OK
-- Errors: invalid_input, execution_not_found, execution_not_reclaimable, max_retries_exhausted,
--   invalid_claim_grant, claim_grant_expired
-- Bound: 62 + 1 * n
-- Keeps: OneHolder, OneHome, FenceNeverRepeats, AttemptsHonest, WorkComesBack

-- How long the lost attempt was allowed to run: the new one gets as long.
local function timeout_of_lost_attempt(k, id, core)
  local score = call("ZSCORE", k.attempt_timeout, id)
  local span = number.floor(score, 0) - number.floor(core.lease_acquired_at, 0)
  if text.set(call("HGET", k.attempt, "resumed_at")) then
    span = policy.attempt_timeout_ms(policy.read(k.exec_core)) or span
  end
  return score and span > 0 and span <= number.SPAN_MAX and number.digits(span) or nil
end

define("ff_reclaim_execution",
  { "exec_core!=hash", "claim_grant!:hash", "attempt!:hash", "stream_meta!:hash", "new_attempt",
    "new_attempt_usage", "attempts!:zset", "lease_current!=hash", "lease_history!:stream",
    "lease_expiry!:zset", "worker_leases!:set", "active!:zset", "attempt_timeout!:zset",
    "execution_deadline!:zset" },
  { "execution_id!", "worker_id", "worker_instance_id", "lane", "lease_id!", "lease_ttl_ms",
    "attempt_id!", "attempt_policy_json", "default_max_reclaim_count" },
  function(k, a)
    local ttl, refused = number.require_span(a.lease_ttl_ms, "lease_ttl_ms", 1)
    if not ttl then return refused end
    local default_cap
    default_cap, refused = number.optional(a.default_max_reclaim_count,
      "default_max_reclaim_count", 100)
    if not default_cap then return refused end
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    if not lease.is_lost(core) or flow.cancel_covers(k.exec_core, core) then
      return err("execution_not_reclaimable")
    end
    local id, now = a.execution_id, number.now()
    local stale_keys
    refused = attempt.locate(k, id, core)
    if refused then return refused end
    stale_keys, refused = lane.locate(k, core, { "active", "terminal" })
    if not stale_keys then return refused end
    local lost = lease.takeover(core, stale_keys, now)
    local capped = lease.cap_reached(k, core, default_cap)
    if capped then
      -- write; nothing below can fail
      lease.end_at_cap(k, id, lost)
      return err("max_retries_exhausted", capped)
    end
    refused = lease.grant_refusal(k.claim_grant, a.worker_id, now)
    if refused then return refused end
    local limits, plan
    limits, refused = attempt.limits(k, id, core,
      { attempt_timeout_ms = timeout_of_lost_attempt(k, id, core) }, now)
    if not limits then return refused end
    plan, refused = attempt.plan(k, id, core, attempt.usable_policy(a.attempt_policy_json))
    if not plan then return refused end
    local held = lease.terms(core, a, a.attempt_id, now, ttl)
    -- write; nothing below can fail
    lease.close_lost(k, lost)
    lease.leave_holder(k, id, core)
    attempt.open(k.attempts, id, plan, held, "reclaim", {
      "reclaim_reason", lost.reason,
      "previous_attempt_index", text.either(core.current_attempt_index, "0"),
    })
    attempt.open_usage(plan)
    lease.write_record(k.lease_current, id, held)
    lease.grant(k, id, held, text.append(attempt.current_fields(core, plan, held),
      { "lease_reclaim_count", number.digits(lost.count + 1) }), stale_keys)
    attempt.write_limits(k, id, limits)
    lease.history(k.lease_history, "reclaimed", lease.EVENT.reclaimed, {
      old_lease_epoch = core.current_lease_epoch, new_lease_id = held.lease_id,
      new_lease_epoch = held.lease_epoch, new_attempt_id = held.attempt_id,
      new_attempt_index = plan.index, worker_id = held.worker_id, ts = now,
    })
    return ok(held.lease_id, held.lease_epoch, held.expires_at, held.attempt_id, plan.index,
      "reclaim")
  end)
