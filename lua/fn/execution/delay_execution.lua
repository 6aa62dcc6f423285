-- Gives up a lease until a given time. The same attempt continues afterwards, under a resumed
-- claim.
-- Keys: exec_core (hash), attempt (hash), lease_current (hash), lease_history (stream),
--   lease_expiry (zset), worker_leases (set), active (zset), delayed (zset),
--   attempt_timeout (zset)
-- Arguments: execution_id, lease_id, lease_epoch, attempt_id, delay_until, source
-- Replies: OK
-- Errors: invalid_input, execution_not_found, partial_fence_triple, fence_required,
--   execution_not_active, lease_revoked, lease_expired, stale_lease
-- Bound: 41
-- Keeps: OneHolder, OneHome, VectorWhole
define("ff_delay_execution",
  { "exec_core!=hash", "attempt!:hash", "lease_current!=hash", "lease_history!:stream",
    "lease_expiry!:zset", "worker_leases!:set", "active!:zset", "delayed!:zset",
    "attempt_timeout!:zset" },
  { "execution_id!", "lease_id", "lease_epoch", "attempt_id", "delay_until", "source" },
  function(k, a)
    local act, refused = lease.begin_call(k, a, { "active", "delayed" }, true)
    if not act then return refused end
    local due
    due, refused = number.require_whole(a.delay_until, "delay_until")
    if not due then return refused end
    local until_text = number.digits(due)
    -- write; nothing below can fail
    lease.give_up(k, a.execution_id, act, {
      row = state.delayed("waiting_for_delay", "delayed until " .. until_text,
        "attempt_interrupted"),
      fields = { "delay_until", until_text },
      cause = "worker_delay",
      to = k.delayed,
      score = due,
    })
    return ok(until_text)
  end)
