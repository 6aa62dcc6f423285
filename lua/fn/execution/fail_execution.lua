-- Ends the running attempt as failed. The retry policy decides whether another attempt follows
-- after a delay or the execution ends. A category that the policy does not list as retryable ends
-- it.
-- Keys: exec_core (hash), attempt (hash), lease_expiry (zset), worker_leases (set),
--   terminal (zset), delayed (zset), lease_current (hash), lease_history (stream), active (zset),
--   stream_meta (hash), attempt_timeout (zset), execution_deadline (zset)
-- Arguments: execution_id, lease_id, lease_epoch, attempt_id, failure_reason, failure_category,
--   retry_policy_json, source
-- Replies: retry_scheduled, terminal_failed
-- Errors: invalid_input, execution_not_found, partial_fence_triple, fence_required,
--   execution_not_active, lease_revoked, lease_expired, stale_lease
-- Bound: 50
-- Keeps: OneHolder, OneHome, AttemptsHonest, VectorWhole
local LANES = { "active", "terminal", "delayed" }

define("ff_fail_execution",
  { "exec_core!=hash", "attempt!=hash", "lease_expiry!:zset", "worker_leases!:set",
    "terminal!:zset", "delayed!:zset", "lease_current!=hash", "lease_history!=stream",
    "active!:zset", "stream_meta!=hash", "attempt_timeout!:zset", "execution_deadline!:zset" },
  { "execution_id!", "lease_id", "lease_epoch", "attempt_id", "failure_reason",
    "failure_category", "retry_policy_json", "source" },
  function(k, a)
    local act, refused = lease.begin_call(k, a, LANES)
    if not act then return refused end
    local id, core, now = a.execution_id, act.core, act.now
    local reason = text.present(a.failure_reason, "")
    local category = text.present(a.failure_category, "")
    local retry_at = attempt.retry_at(id, core, policy.object(text.json(a.retry_policy_json)),
      category, now)
    local from = lane.leaving(k.active, act.stale_keys)
    refused = lease.add_released(k.lease_history, core,
      retry_at and "failed_retry_scheduled" or "failed_terminal", now)
    if refused then return refused end
    -- write; nothing below can fail
    attempt.finish(k.attempt, "ended_failure", now,
      { "failure_reason", reason, "failure_category", category })
    stream.close(k.stream_meta, "attempt_failure", now)
    if not retry_at then
      completion.finish(k, id, core,
        { outcome = "failed", now = now, from = from, fields = { "failure_reason", reason } })
      return ok("terminal_failed")
    end
    attempt.schedule_retry(k, id, core, from, retry_at, reason, now)
    return ok("retry_scheduled", retry_at)
  end)
