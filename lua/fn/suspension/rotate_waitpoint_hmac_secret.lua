-- Installs a new signing key on one partition; tokens of the previous one verify for a grace time.
-- Older keys whose grace time is over are removed, but never the key that has signed until now.
-- Keys: hmac (hash)
-- Arguments: new_kid, new_secret_hex, grace_ms
-- Replies: rotated, noop
-- Errors: invalid_input, invalid_kid, invalid_secret_hex, invalid_grace_ms, rotation_conflict
-- Bound: 4 + 1 * n
-- Keeps: RepeatIsHarmless, ErrorMeansUntouched

-- The previous key ids that no longer verify, sorted.
local function outlived(keystore, current, now)
  local kids = {}
  for field, value in pairs(keystore) do
    local kid = field:match("^expires_at:(.*)$")
    if kid and kid ~= current and not waitpoint.is_verifying(value, now) then
      kids[#kids + 1] = kid
    end
  end
  table.sort(kids)
  return kids
end

define("ff_rotate_waitpoint_hmac_secret",
  { "hmac!=hash" },
  { "new_kid", "new_secret_hex", "grace_ms" },
  function(k, a)
    local kid, secret, grace = a.new_kid, a.new_secret_hex, number.whole(a.grace_ms)
    if not text.set(kid) or kid:find(":", 1, true) then return err("invalid_kid") end
    if not waitpoint.is_secret(secret) then return err("invalid_secret_hex") end
    if not grace or grace < 0 then return err("invalid_grace_ms") end
    local keystore, now = record.read(k.hmac) or {}, number.now()
    local current = text.either(keystore.current_kid, nil)
    local held = keystore["secret:" .. kid]
    if current == kid then
      if text.set(held) and held ~= secret then return err("rotation_conflict", kid) end
      if not text.set(held) then call("HSET", k.hmac, "secret:" .. kid, secret) end
      return ok("noop", kid)
    end
    local gone = outlived(keystore, current, now)
    local dropped = { "expires_at:" .. kid }
    for _, old in ipairs(gone) do
      text.append(dropped, { "expires_at:" .. old, "secret:" .. old })
    end
    -- write; nothing below can fail
    record.each_chunk("HDEL", k.hmac, dropped)
    if current then
      local expires_at = math.min(now + grace, number.MAX)
      record.write(k.hmac, {
        "previous_kid", current, "previous_expires_at", expires_at,
        "expires_at:" .. current, expires_at,
      })
    end
    record.write(k.hmac, { "current_kid", kid, "secret:" .. kid, secret })
    return ok("rotated", current, kid, #gone)
  end)
