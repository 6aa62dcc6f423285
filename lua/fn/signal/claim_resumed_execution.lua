-- Uses a claim grant for a resumed execution: the same attempt continues under a new lease, with
-- the time its timeout had left. A repeated call with the same lease id gets the same answer while
-- that lease is current. An expired grant is refused but not deleted, since an error writes
-- nothing; the next grant overwrites it.
-- Keys: exec_core (hash), claim_grant (hash), eligible (zset), lease_expiry (zset),
--   worker_leases (set), attempt (hash), lease_current (hash), lease_history (stream),
--   active (zset), attempt_timeout (zset), execution_deadline (ignored)
-- Arguments: execution_id, worker_id, worker_instance_id, lane, capability_snapshot_hash (ignored),
--   lease_id, lease_ttl_ms, remaining_attempt_timeout_ms
-- Replies: resumed
-- Errors: invalid_input, execution_not_found, execution_not_leaseable, not_a_resumed_execution,
--   invalid_claim_grant, claim_grant_expired
-- Bound: 37
-- Keeps: OneHolder, OneHome, FenceNeverRepeats, AttemptsHonest, RepeatIsHarmless
local function refusal(k, a, core, now)
  if core.lifecycle_phase ~= "runnable" then
    return err("execution_not_leaseable")
  elseif core.attempt_state ~= "attempt_interrupted" then
    return err("not_a_resumed_execution")
  elseif text.either(core.ownership_state, "unowned") ~= "unowned"
    or text.either(core.eligibility_state, "eligible_now") ~= "eligible_now"
    or flow.cancel_covers(k.exec_core, core) then
    return err("execution_not_leaseable")
  end
  return lease.grant_refusal(k.claim_grant, a.worker_id, now)
end

define("ff_claim_resumed_execution",
  { "exec_core!=hash", "claim_grant!:hash", "eligible!:zset", "lease_expiry!:zset",
    "worker_leases!:set", "attempt!:hash", "lease_current!=hash", "lease_history!:stream",
    "active!:zset", "attempt_timeout!:zset", "execution_deadline" },
  { "execution_id!", "worker_id", "worker_instance_id", "lane", "capability_snapshot_hash",
    "lease_id!", "lease_ttl_ms", "remaining_attempt_timeout_ms" },
  function(k, a)
    local ttl, refused = number.require_span(a.lease_ttl_ms, "lease_ttl_ms", 1)
    if not ttl then return refused end
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    local id, now, index = a.execution_id, number.now(), core.current_attempt_index
    if lease.already_granted(core, a, now) then
      return ok(a.lease_id, core.current_lease_epoch, core.lease_expires_at,
        core.current_attempt_id, index, "resumed")
    end
    refused = refusal(k, a, core, now) or attempt.locate(k, id, core)
    if refused then return refused end
    local timeout_at, stale_keys
    timeout_at, refused = attempt.resumed_timeout(k, core, a.remaining_attempt_timeout_ms, now)
    if refused then return refused end
    stale_keys, refused = lane.locate(k, core, { "eligible", "active" })
    if not stale_keys then return refused end
    local held = lease.terms(core, a, core.current_attempt_id, now, ttl)
    -- write; nothing below can fail
    attempt.resume(k.attempt, held)
    lease.write_record(k.lease_current, id, held)
    lease.grant(k, id, held, { "attempt_time_left_ms", "" }, stale_keys)
    attempt.write_limits(k, id, { timeout_at = timeout_at, clears = true })
    lease.history(k.lease_history, "acquired", lease.EVENT.acquired_resumed,
      lease.acquired(held, index, "claim_resumed"))
    return ok(held.lease_id, held.lease_epoch, held.expires_at, held.attempt_id, index, "resumed")
  end)
