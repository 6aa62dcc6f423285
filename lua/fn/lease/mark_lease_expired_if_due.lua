-- Marks an expired lease as reclaimable. The index entry stays until the lease is reclaimed.
-- Keys: exec_core (hash), lease_current (unused), lease_expiry (zset), lease_history (stream)
-- Arguments: execution_id
-- Replies: marked_expired, execution_not_found, not_active, already_expired, already_revoked,
--   unowned, not_yet_expired
-- Errors: invalid_input
-- Bound: 13
-- Keeps: NotBeforeDue, OneHolder
local function forget(k, a, why)
  call("ZREM", k.lease_expiry, a.execution_id)
  return already_satisfied(why)
end

define("ff_mark_lease_expired_if_due",
  { "exec_core!=hash", "lease_current", "lease_expiry!:zset", "lease_history!=stream" },
  { "execution_id!" },
  function(k, a)
    local core = record.read(k.exec_core)
    if not core then
      return forget(k, a, "execution_not_found")
    elseif core.lifecycle_phase ~= "active" then
      return forget(k, a, "not_active")
    elseif core.ownership_state == "lease_expired_reclaimable" then
      return already_satisfied("already_expired")
    elseif core.ownership_state == "lease_revoked" then
      return already_satisfied("already_revoked")
    elseif core.ownership_state == "unowned" then
      return forget(k, a, "unowned")
    end
    local now = number.now()
    if number.either(core.lease_expires_at, 0) > now then
      return already_satisfied("not_yet_expired")
    end
    return lease.mark_expired(k, core, now) or ok("marked_expired")
  end)
