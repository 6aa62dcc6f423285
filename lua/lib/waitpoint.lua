-- Waitpoints `ff:wp:<tag>:<wp>` and the signed tokens that let a caller signal one. A token is
-- `<kid>:<digest>`: HMAC-SHA1 over the waitpoint's id, key and creation time, with the secret that
-- the partition's keystore holds for that kid.

local SHA1_BLOCK = 64
local DIGEST_DIGITS = 40

-- The keys of a waitpoint: its record, its condition, its signals.
function waitpoint.keys(tag, id)
  local key = "ff:wp:" .. tag .. ":" .. id
  return key, key .. ":condition", key .. ":signals"
end

-- The set of all waitpoints that an execution ever had; a purge finds them there.
function waitpoint.set_of(core_key)
  return (core_key:gsub(":core$", ":waitpoints"))
end

-- The reason for closing a waitpoint whose suspension never began.
waitpoint.NEVER_COMMITTED = "never_committed"

-- Deletes an earlier waitpoint with the same id: its signals are not meant for the new one.
function waitpoint.clear(key)
  call("DEL", key, key .. ":condition", key .. ":signals")
end

function waitpoint.close(key, reason, now)
  record.write(key, { "state", "closed", "closed_at", now, "close_reason", reason })
end

-- The fields of a new waitpoint, in contract order. `one` = { id, key, token, state, suspension_id,
-- activated_at, expires_at }; `a` names the execution and its attempt.
function waitpoint.fields(one, a, now)
  return {
    "waitpoint_id", one.id, "execution_id", a.execution_id, "attempt_index", a.attempt_index,
    "suspension_id", one.suspension_id, "waitpoint_key", one.key, "waitpoint_token", one.token,
    "state", one.state, "created_at", now, "activated_at", one.activated_at,
    "expires_at", one.expires_at, "signal_count", "0", "matched_signal_count", "0",
    "last_signal_at", "",
  }
end

-- Whether a secret can be used at all: hex digits, at least one pair.
function waitpoint.is_secret(hex)
  return text.set(hex) and #hex % 2 == 0 and hex:find("^%x+$") ~= nil
end

local function from_hex(hex)
  return (hex:gsub("%x%x", function(pair)
    return string.char(tonumber(pair, 16))
  end))
end

local function xor_with(bytes, mask)
  return (bytes:gsub(".", function(byte)
    return string.char(bit.bxor(byte:byte(), mask))
  end))
end

-- HMAC-SHA1 as lower-case hex digits; `secret` is hex.
function waitpoint.hmac(secret, message)
  local key = from_hex(secret)
  if #key > SHA1_BLOCK then
    key = from_hex(redis.sha1hex(key))
  end
  key = key .. string.rep("\0", SHA1_BLOCK - #key)
  local inner = redis.sha1hex(xor_with(key, 0x36) .. message)
  return redis.sha1hex(xor_with(key, 0x5c) .. from_hex(inner))
end

local function digest(secret, id, key, created_at)
  return waitpoint.hmac(secret, id .. "|" .. key .. "|" .. created_at)
end

-- The kid and secret that sign new tokens of a partition, or nil and a refusal.
function waitpoint.signer(keystore)
  if not text.set(keystore) then
    return nil, err("invalid_keys_missing_hmac")
  end
  local kid = call("HGET", keystore, "current_kid")
  local secret = text.set(kid) and call("HGET", keystore, "secret:" .. kid)
  if not secret then
    return nil, err("hmac_secret_not_initialized")
  end
  if not waitpoint.is_secret(secret) then
    return nil, err("invalid_secret")
  end
  return { kid = kid, secret = secret }
end

-- A token for a waitpoint that is created now.
function waitpoint.token(signer, id, key, now)
  return signer.kid .. ":" .. digest(signer.secret, id, key, number.digits(now))
end

-- Compares in constant time, so that the duration does not show where two digests differ.
local function same_digest(one, other)
  local difference = #one - #other
  for i = 1, math.min(#one, #other) do
    difference = bit.bor(difference, bit.bxor(one:byte(i), other:byte(i)))
  end
  return difference == 0
end

-- The secret that must have signed a token of `kid`, or nil and the code of the refusal.
local function verifying_secret(keystore, kid, now)
  local current = call("HGET", keystore, "current_kid")
  if not text.set(current) then
    return nil, "hmac_secret_not_initialized"
  end
  local held = record.fields(keystore, "secret:" .. kid, "expires_at:" .. kid)
  local secret, expires_at = held["secret:" .. kid], held["expires_at:" .. kid]
  if secret == nil then
    return nil, "invalid_token"
  end
  if kid ~= current and not waitpoint.is_verifying(expires_at, now) then
    return nil, "token_expired"
  end
  if not waitpoint.is_secret(secret) then
    return nil, "invalid_secret"
  end
  return secret
end

-- Whether tokens of a previous key id with this expiry are still accepted.
function waitpoint.is_verifying(expires_at, now)
  local time = tonumber(expires_at)
  return time ~= nil and time > 0 and time >= now
end

-- The code of the refusal of a token for the waitpoint `id` with the record `wp`, nil when it fits.
function waitpoint.token_refusal(keystore, token, id, wp, now)
  if not text.set(keystore) then
    return "invalid_keys_missing_hmac"
  end
  if not text.set(token) then
    return "missing_token"
  end
  local kid, shown = token:match("^([^:]+):(.+)$")
  if kid == nil or #shown ~= DIGEST_DIGITS then
    return "invalid_token"
  end
  local secret, code = verifying_secret(keystore, kid, now)
  if not secret then
    return code
  end
  local signed = digest(secret, id, text.present(wp.waitpoint_key, ""), wp.created_at)
  if not same_digest(signed, shown) then
    return "invalid_token"
  end
  return nil
end
