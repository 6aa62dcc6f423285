-- Extends a lease that has not expired by the server's clock.
-- Keys: exec_core (hash), lease_current (hash), lease_history (stream), lease_expiry (zset)
-- Arguments: execution_id, attempt_index, attempt_id, lease_id, lease_epoch, lease_ttl_ms,
--   lease_history_grace_ms
-- Replies: OK
-- Errors: invalid_input, execution_not_found, partial_fence_triple, fence_required,
--   execution_not_active, lease_revoked, lease_expired, stale_lease
-- Bound: 21
-- Keeps: OneHolder, OneHome

-- A revocation that is older than the lease belongs to an earlier lease.
local function revoked(core)
  return core.ownership_state == "lease_revoked"
    or (text.set(core.lease_revoked_at)
      and number.either(core.lease_revoked_at, 0) >= number.either(core.lease_acquired_at, 0))
end

local function refusal(k, core, a, now)
  local fence, refused = lease.fence(core, a, false)
  if not fence then
    return refused
  elseif core.lifecycle_phase ~= "active" then
    return lease.not_active(core)
  elseif revoked(core) then
    return err("lease_revoked")
  elseif lease.lapsed(core, now) then
    return lease.mark_expired(k, core, now) or err("lease_expired")
  elseif core.current_attempt_index ~= a.attempt_index
    or core.current_attempt_id ~= a.attempt_id
    or core.current_lease_id ~= a.lease_id
    or core.current_lease_epoch ~= a.lease_epoch then
    return err("stale_lease")
  end
  return nil
end

define("ff_renew_lease",
  { "exec_core!=hash", "lease_current!:hash", "lease_history!:stream", "lease_expiry!:zset" },
  { "execution_id!", "attempt_index", "attempt_id", "lease_id", "lease_epoch", "lease_ttl_ms",
    "lease_history_grace_ms" },
  function(k, a)
    local ttl, refused = number.require_span(a.lease_ttl_ms, "lease_ttl_ms", 1)
    if not ttl then return refused end
    local grace
    grace, refused = number.require_span(a.lease_history_grace_ms, "lease_history_grace_ms", 0)
    if not grace then return refused end
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    local id, now = a.execution_id, number.now()
    local _
    refused = refusal(k, core, a, now)
    if refused then return refused end
    _, refused = lane.locate(k, core, { "active" })
    if refused then return refused end
    local held = lease.renewed(core, now, ttl)
    -- write; nothing below can fail
    record.write(k.exec_core, {
      "lease_last_renewed_at", now, "lease_renewal_deadline", held.renew_by,
      "lease_expires_at", held.expires_at, "last_mutation_at", now,
    })
    lease.rewrite_record(k.lease_current, id, held)
    call("PEXPIREAT", k.lease_current, number.digits(held.expires_at + grace))
    call("ZADD", k.lease_expiry, number.digits(held.expires_at), id)
    call("ZADD", k.active, "XX", number.digits(held.expires_at), id)
    return ok(held.expires_at)
  end)
