-- Revokes a lease at once, for an operator. The execution stays active until the lease is
-- reclaimed; its score in the active index says that this is due now.
-- Keys: exec_core (hash), lease_current (hash), lease_history (stream), lease_expiry (zset),
--   worker_leases (set)
-- Arguments: execution_id, expected_lease_id, revoke_reason
-- Replies: revoked, already_revoked, already_expired
-- Errors: invalid_input, execution_not_found, execution_not_active, no_active_lease, stale_lease
-- Bound: 26
-- Keeps: OneHolder, OneHome, WorkComesBack
define("ff_revoke_lease",
  { "exec_core!=hash", "lease_current!=hash", "lease_history!:stream", "lease_expiry!:zset",
    "worker_leases!:set" },
  { "execution_id!", "expected_lease_id", "revoke_reason" },
  function(k, a)
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    if core.lifecycle_phase ~= "active" then return lease.not_active(core) end
    if core.ownership_state == "lease_revoked" then
      return already_satisfied("already_revoked")
    elseif core.ownership_state == "lease_expired_reclaimable" then
      return already_satisfied("already_expired")
    elseif core.ownership_state ~= "leased" then
      return err("no_active_lease")
    end
    local current = core.current_lease_id or ""
    if text.set(a.expected_lease_id) and a.expected_lease_id ~= current then
      return err("stale_lease", "expected " .. a.expected_lease_id .. " but current is " .. current)
    end
    local id, now, reason = a.execution_id, number.now(), text.present(a.revoke_reason, "operator")
    local meta = stream.meta_of_current_attempt(k.exec_core, core)
    local _, refused = lane.locate(k, core, { "active" })
    refused = refused or guard.mismatch(meta, "hash")
    if refused then return refused end
    -- write; nothing below can fail
    state.put(k.exec_core, state.ownerless(core, "lease_revoked", "lease revoked: " .. reason),
      { "lease_revoked_at", now, "lease_revoke_reason", reason, "last_mutation_at", now })
    call("DEL", k.lease_current)
    call("ZREM", k.lease_expiry, id)
    call("SREM", k.worker_leases, id)
    lease.leave_holder(k, id, core)
    push.lost(core, id)
    call("ZADD", k.active, "XX", number.digits(now), id)
    stream.close_if_open(meta, "lease_revoked", now)
    lease.history(k.lease_history, "revoked", lease.EVENT.revoked, lease.current(core, now, reason))
    return ok("revoked", current, core.current_lease_epoch)
  end)
