-- Ends an active execution successfully. The caller must hold its lease.
-- Keys: exec_core (hash), attempt (hash), lease_expiry (zset), worker_leases (set),
--   terminal (zset), lease_current (hash), lease_history (stream), active (zset),
--   stream_meta (hash), result (string), attempt_timeout (zset), execution_deadline (zset)
-- Arguments: execution_id, lease_id, lease_epoch, attempt_id, result_payload, source
-- Replies: completed
-- Errors: invalid_input, execution_not_found, partial_fence_triple, fence_required,
--   execution_not_active, lease_revoked, lease_expired, stale_lease
-- Bound: 48
-- Keeps: OneHolder, OneHome, AttemptsHonest, VectorWhole
local LANES = { "active", "terminal" }

define("ff_complete_execution",
  { "exec_core!=hash", "attempt!=hash", "lease_expiry!:zset", "worker_leases!:set",
    "terminal!:zset", "lease_current!=hash", "lease_history!=stream", "active!:zset",
    "stream_meta!=hash", "result!=string", "attempt_timeout!=zset", "execution_deadline!=zset" },
  { "execution_id!", "lease_id", "lease_epoch", "attempt_id", "result_payload", "source" },
  function(k, a)
    local act, refused = lease.begin_end(k, a, LANES)
    if not act then return refused end
    refused = guard.mismatch(k.attempt, "hash") or completion.look_up(k)
    if refused then return refused end
    lease.add_released(k.lease_history, act.core, "completed", act.now)
    -- write; nothing below can fail
    completion.succeed(k, a.execution_id, act, a.result_payload)
    return { 1, "OK", "completed" }
  end)
