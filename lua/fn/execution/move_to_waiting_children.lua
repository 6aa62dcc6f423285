-- Gives up a lease until the dependencies of the execution are resolved. The same attempt continues
-- then.
-- Keys: exec_core (hash), attempt (hash), lease_current (hash), lease_history (stream),
--   lease_expiry (zset), worker_leases (set), active (zset), blocked_dependencies (zset),
--   attempt_timeout (zset)
-- Arguments: execution_id, lease_id, lease_epoch, attempt_id, source
-- Replies: OK
-- Errors: invalid_input, execution_not_found, partial_fence_triple, fence_required,
--   execution_not_active, lease_revoked, lease_expired, stale_lease
-- Bound: 41
-- Keeps: OneHolder, OneHome, VectorWhole
define("ff_move_to_waiting_children",
  { "exec_core!=hash", "attempt!:hash", "lease_current!=hash", "lease_history!:stream",
    "lease_expiry!:zset", "worker_leases!:set", "active!:zset", "blocked_dependencies!:zset",
    "attempt_timeout!:zset" },
  { "execution_id!", "lease_id", "lease_epoch", "attempt_id", "source" },
  function(k, a)
    local act, refused = lease.begin_call(k, a, { "active", "blocked_dependencies" }, true)
    if not act then return refused end
    -- write; nothing below can fail
    lease.give_up(k, a.execution_id, act, {
      row = state.waiting_children("waiting for child executions to complete",
        "attempt_interrupted"),
      fields = {},
      cause = "waiting_children",
      to = k.blocked_dependencies,
      score = number.floor(act.core.created_at, 0),
    })
    return ok()
  end)
