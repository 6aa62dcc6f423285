-- Creates a waitpoint that can be signalled before its execution suspends on it. The execution must
-- have a current lease.
-- Keys: exec_core (hash), waitpoint (hash), pending_wp_expiry (zset), hmac (hash)
-- Arguments: execution_id, attempt_index, waitpoint_id, waitpoint_key, expires_at
-- Replies: OK
-- Errors: invalid_input, execution_not_found, execution_not_active, no_active_lease,
--   lease_expired, stale_lease, waitpoint_already_exists, invalid_keys_missing_hmac,
--   hmac_secret_not_initialized, invalid_secret
-- Bound: 16
-- Keeps: OneHolder, NoOrphans, ErrorMeansUntouched
local function refusal(core, wp, a, now)
  if core.lifecycle_phase ~= "active" then
    return lease.not_active(core)
  elseif core.ownership_state ~= "leased" then
    return err("no_active_lease")
  elseif number.either(core.lease_expires_at, math.huge) <= now then
    return err("lease_expired")
  elseif core.current_attempt_index ~= a.attempt_index then
    return err("stale_lease")
  elseif wp and (wp.state == "pending" or wp.state == "active") then
    return err("waitpoint_already_exists")
  end
  return nil
end

define("ff_create_pending_waitpoint",
  { "exec_core!=hash", "waitpoint!=hash", "pending_wp_expiry!:zset", "hmac=hash" },
  { "execution_id!", "attempt_index!", "waitpoint_id!", "waitpoint_key!", "expires_at" },
  function(k, a)
    local core = record.read(k.exec_core)
    if not core then return err("execution_not_found") end
    local wp, now = record.read(k.waitpoint), number.now()
    local refused = refusal(core, wp, a, now)
    if refused then return refused end
    local signer
    signer, refused = waitpoint.signer(k.hmac)
    if not signer then return refused end
    -- Callers pass the largest 64-bit integer for "never", which no score holds exactly.
    if not (a.expires_at or ""):find("^%-?%d+$") or #a.expires_at > 20 then
      return err("invalid_input", "expires_at must be a number, got: " .. tostring(a.expires_at))
    end
    local known = waitpoint.set_of(k.exec_core)
    refused = guard.mismatch(known, "set")
    if refused then return refused end
    local token = waitpoint.token(signer, a.waitpoint_id, a.waitpoint_key, now)
    -- write; nothing below can fail
    waitpoint.clear(k.waitpoint)
    record.write(k.waitpoint, waitpoint.fields({
      id = a.waitpoint_id, key = a.waitpoint_key, token = token, state = "pending",
      suspension_id = "", activated_at = "", expires_at = a.expires_at,
    }, a, now))
    record.write(k.waitpoint, { "satisfied_at", "", "closed_at", "", "close_reason", "" })
    call("ZADD", k.pending_wp_expiry, a.expires_at, a.waitpoint_id)
    push.due(k.pending_wp_expiry, tonumber(a.expires_at))
    call("SADD", known, a.waitpoint_id)
    return ok(a.waitpoint_id, a.waitpoint_key, token)
  end)
