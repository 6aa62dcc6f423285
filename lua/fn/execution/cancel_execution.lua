-- Cancels an execution that has not ended, with its attempt, output stream, suspension and index
-- entries. If the caller passes a lease, that lease must be current.
-- Keys: exec_core (hash), attempt (hash), stream_meta (hash), lease_current (hash),
--   lease_history (stream), lease_expiry (zset), worker_leases (set), suspension_current (hash),
--   waitpoint (hash), wp_condition (hash), suspension_timeout (zset), terminal (zset),
--   attempt_timeout (zset), execution_deadline (zset), eligible, delayed, blocked_dependencies,
--   blocked_budget, blocked_quota, blocked_route, blocked_operator (zsets)
-- Arguments: execution_id, reason, source, lease_id, lease_epoch
-- Replies: cancelled
-- Errors: invalid_input, execution_not_found, execution_not_active, lease_revoked, stale_lease,
--   lease_expired
-- Bound: 99 + 6 * n
-- Keeps: OneHome, AttemptsHonest, VectorWhole, LegalTransition
local function refusal(k, core, a, now)
  if core.lifecycle_phase == "terminal" then
    return lease.not_active(core)
  elseif core.lifecycle_phase ~= "active" or a.source == "operator_override" then
    return nil
  elseif core.ownership_state == "lease_revoked" then
    return err("lease_revoked")
  elseif not text.set(a.lease_id) then
    return nil
  elseif core.current_lease_id ~= a.lease_id
    or (core.current_lease_epoch or "") ~= text.present(a.lease_epoch, "") then
    return err("stale_lease")
  elseif text.set(core.lease_expires_at) and lease.lapsed(core, now) then
    return lease.mark_expired(k, core, now) or err("lease_expired")
  end
  return nil
end

define("ff_cancel_execution",
  { "exec_core!=hash", "attempt!=hash", "stream_meta!:hash", "lease_current!=hash",
    "lease_history!:stream", "lease_expiry!:zset", "worker_leases!:set",
    "suspension_current!:hash", "waitpoint", "wp_condition", "suspension_timeout!:zset",
    "terminal!:zset", "attempt_timeout!:zset", "execution_deadline!:zset", "eligible!:zset",
    "delayed!:zset", "blocked_dependencies!:zset", "blocked_budget!:zset", "blocked_quota!:zset",
    "blocked_route!:zset", "blocked_operator!:zset" },
  { "execution_id!", "reason!", "source", "lease_id", "lease_epoch" },
  function(k, a)
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    local id, now = a.execution_id, number.now()
    local plan
    local refused = refusal(k, core, a, now)
    if refused then return refused end
    plan, refused = completion.prepare(k, id, core)
    if not plan then return refused end
    -- write; nothing below can fail
    completion.cancel(k, id, plan, a.reason, text.either(a.source, id), now)
    return ok("cancelled", core.lifecycle_phase)
  end)
