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
    "active!:zset", "stream_meta!=hash", "attempt_timeout!=zset", "execution_deadline!=zset" },
  { "execution_id!", "lease_id", "lease_epoch", "attempt_id", "failure_reason",
    "failure_category", "retry_policy_json", "source" },
  function(k, a)
    local act, refused = lease.begin_end(k, a, LANES)
    if not act then return refused end
    refused = guard.mismatch(k.attempt, "hash") or completion.look_up(k)
    if refused then return refused end
    local failure = completion.failure(a.execution_id, act, a.failure_reason, a.failure_category,
      a.retry_policy_json)
    lease.add_released(k.lease_history, act.core, completion.release_reason(failure), act.now)
    -- write; nothing below can fail
    completion.fail(k, a.execution_id, act, failure)
    if failure.retry_at then return ok("retry_scheduled", failure.retry_at) end
    return ok("terminal_failed")
  end)
