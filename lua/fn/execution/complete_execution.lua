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
    "stream_meta!=hash", "result!=string", "attempt_timeout!:zset", "execution_deadline!:zset" },
  { "execution_id!", "lease_id", "lease_epoch", "attempt_id", "result_payload", "source" },
  function(k, a)
    local act, refused = lease.begin_call(k, a, LANES)
    if not act then return refused end
    local id, core, now = a.execution_id, act.core, act.now
    refused = lease.add_released(k.lease_history, core, "completed", now)
    if refused then return refused end
    -- write; nothing below can fail
    attempt.finish(k.attempt, "ended_success", now)
    stream.close(k.stream_meta, "attempt_success", now)
    if text.set(a.result_payload) then
      call("SET", k.result, a.result_payload)
    end
    completion.finish(k, id, core, {
      outcome = "success",
      now = now,
      from = lane.leaving(k.active, act.stale_keys),
      fields = lease.clear_lost(core.current_lease_epoch),
    })
    return ok("completed")
  end)
