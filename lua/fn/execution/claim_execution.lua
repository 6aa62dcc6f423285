-- Uses a claim grant: opens the next attempt under a new lease. A repeated call with the same lease
-- and attempt id gets the same answer while that lease is current, so a lost reply does no harm.
-- The policy's timeouts apply where the caller passes none.
-- Keys: exec_core (hash), claim_grant (hash), eligible (zset), lease_expiry (zset),
--   worker_leases (set), three ignored, attempts (zset), lease_current (hash),
--   lease_history (stream), active (zset), attempt_timeout (zset), execution_deadline (zset)
-- Arguments: execution_id, worker_id, worker_instance_id, lane, capability_snapshot_hash (ignored),
--   lease_id, lease_ttl_ms, renew_before_ms, attempt_id, attempt_policy_json, attempt_timeout_ms,
--   execution_deadline_at
-- Replies: OK
-- Errors: invalid_input, execution_not_found, execution_not_leaseable, lease_conflict,
--   active_attempt_exists, use_claim_resumed_execution, invalid_claim_grant, claim_grant_expired
-- Bound: 51 + 1 * n
-- Keeps: OneHolder, OneHome, FenceNeverRepeats, AttemptsHonest
local function refusal(core)
  if core.lifecycle_phase ~= "runnable" then
    return err("execution_not_leaseable")
  elseif core.ownership_state ~= "unowned" then
    return err("lease_conflict")
  elseif core.eligibility_state ~= "eligible_now" or core.terminal_outcome ~= "none" then
    return err("execution_not_leaseable")
  elseif core.attempt_state == "running_attempt" then
    return err("active_attempt_exists")
  elseif core.attempt_state == "attempt_interrupted" then
    return err("use_claim_resumed_execution")
  end
  return nil
end

-- The answer of an earlier call with the same lease and attempt, nil when there was none.
local function earlier_answer(k, a, core, now)
  if not lease.already_granted(core, a, now) or core.current_attempt_id ~= a.attempt_id then
    return nil
  end
  local index = text.present(core.current_attempt_index, "")
  local kind = call("HGET", attempt.key(text.tag(k.exec_core), a.execution_id, index),
    "attempt_type")
  return ok(a.lease_id, core.current_lease_epoch, core.lease_expires_at, a.attempt_id, index, kind)
end

define("ff_claim_execution",
  { "exec_core!=hash", "claim_grant!:hash", "eligible!:zset", "lease_expiry!:zset",
    "worker_leases!:set", "attempt", "attempt_usage", "attempt_policy", "attempts!:zset",
    "lease_current!=hash", "lease_history!:stream", "active!:zset", "attempt_timeout!:zset",
    "execution_deadline!:zset" },
  { "execution_id!", "worker_id", "worker_instance_id", "lane", "capability_snapshot_hash",
    "lease_id!", "lease_ttl_ms", "renew_before_ms", "attempt_id!", "attempt_policy_json",
    "attempt_timeout_ms", "execution_deadline_at" },
  function(k, a)
    local ttl, refused = number.require_span(a.lease_ttl_ms, "lease_ttl_ms", 1)
    if not ttl then return refused end
    local renew_before
    renew_before, refused = number.require_span(a.renew_before_ms, "renew_before_ms", 0)
    if not renew_before then return refused end
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    local id, now = a.execution_id, number.now()
    local earlier = earlier_answer(k, a, core, now)
    if earlier then return earlier end
    refused = refusal(core)
      or (flow.cancel_covers(k.exec_core, core) and err("execution_not_leaseable"))
      or lease.grant_refusal(k.claim_grant, a.worker_id, now)
    if refused then return refused end
    local limits, plan, stale_keys
    limits, refused = attempt.limits(k, id, core, a, now)
    if not limits then return refused end
    limits.clears = true
    plan, refused = attempt.plan(k, id, core, a.attempt_policy_json)
    if not plan then return refused end
    stale_keys, refused = lane.locate(k, core, { "eligible", "active" })
    if not stale_keys then return refused end
    local held = lease.terms(core, a, a.attempt_id, now, ttl, renew_before)
    local kind, lineage = attempt.lineage(core)
    -- write; nothing below can fail
    attempt.open(k.attempts, id, plan, held, kind, lineage)
    attempt.open_usage(plan)
    lease.write_record(k.lease_current, id, held)
    lease.grant(k, id, held, attempt.current_fields(core, plan, held), stale_keys)
    attempt.write_limits(k, id, limits)
    lease.add_acquired(k.lease_history, held, plan.index)
    return ok(held.lease_id, held.lease_epoch, held.expires_at, held.attempt_id, plan.index, kind)
  end)
