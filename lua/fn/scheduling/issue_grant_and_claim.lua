-- An operator's claim: grant and claim in one call, so that no grant is visible in between. An
-- interrupted execution continues its attempt, unless it is blocked.
-- Keys: exec_core (hash), claim_grant (hash), eligible (zset), lease_expiry (zset),
--   worker_leases (set), attempts (zset), lease_current (hash), lease_history (stream),
--   active (zset), attempt_timeout (zset), execution_deadline (zset)
-- Arguments: execution_id, worker_id, worker_instance_id, lane, capability_snapshot_hash (ignored),
--   lease_id, lease_ttl_ms, attempt_id, attempt_policy_json, attempt_timeout_ms,
--   execution_deadline_at
-- Replies: OK
-- Errors: invalid_input, execution_not_found, execution_not_eligible, lease_conflict,
--   active_attempt_exists, grant_already_exists, execution_not_in_eligible_set
-- Bound: 40 + 1 * n
-- Keeps: OneHolder, OneHome, FenceNeverRepeats, AttemptsHonest, NoRunBeforeParents
local function refusal(k, id, core, now)
  if core.lifecycle_phase ~= "runnable" then return err("execution_not_eligible") end
  if core.ownership_state ~= "unowned" then return err("lease_conflict") end
  if core.terminal_outcome ~= "none" then return err("execution_not_eligible") end
  if core.attempt_state == "running_attempt" then return err("active_attempt_exists") end
  local refused = not claim.is_untouched(k, id, core)
    and (guard.mismatch(k.claim_grant, "hash") or guard.mismatch(k.attempts, "zset")
      or guard.mismatch(k.lease_history, "stream"))
  if refused then return refused end
  if grant.stands(k.claim_grant, now) then return err("grant_already_exists") end
  local interrupted = core.attempt_state == "attempt_interrupted"
  refused = interrupted and guard.mismatch(k.eligible, "zset")
  if refused then return refused end
  if not interrupted and not call("ZSCORE", k.eligible, id) then
    return err("execution_not_in_eligible_set")
  end
  -- Hand-made records may hold any other value here, and are claimed.
  local held_back = core.eligibility_state ~= "eligible_now"
    and #lane.homes(k.exec_core, core) > 0
  if held_back or (not interrupted and core.eligibility_state ~= "eligible_now")
    or flow.cancel_covers(k.exec_core, core) then
    return err("execution_not_eligible")
  end
  return nil
end

define("ff_issue_grant_and_claim",
  { "exec_core!=hash", "claim_grant!=hash", "eligible!=zset", "lease_expiry!:zset",
    "worker_leases!:set", "attempts!=zset", "lease_current!=hash", "lease_history!=stream",
    "active!:zset", "attempt_timeout!=zset", "execution_deadline!=zset" },
  { "execution_id!", "worker_id!", "worker_instance_id!", "lane!", "capability_snapshot_hash",
    "lease_id!", "lease_ttl_ms", "attempt_id", "attempt_policy_json", "attempt_timeout_ms",
    "execution_deadline_at" },
  function(k, a)
    local ttl, refused = number.require_span(a.lease_ttl_ms, "lease_ttl_ms", 1)
    if not ttl then return refused end
    local core, now, id = nil, number.now(), a.execution_id
    core, refused = claim.read(k.exec_core, claim.FIRST)
    if refused then return refused end
    if not core then return err("execution_not_found") end
    refused = refusal(k, id, core, now)
    if refused then return refused end
    local planned
    planned, refused = claim.plan(k, id, core, a, now, ttl)
    if not planned then return refused end
    -- write; nothing below can fail
    claim.carry_out(k, id, planned, claim.BY_OPERATOR)
    return ok(planned.held.lease_id, planned.held.lease_epoch, planned.index)
  end)
