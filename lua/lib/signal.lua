-- Signals: authenticated by the token of a waitpoint, recorded once, and passed to its condition. A
-- signal counts only for the execution and the suspension that its waitpoint belongs to
-- (SignalCountsOnce).

-- The most signals that may be buffered for one suspension. None of them is trimmed.
signal.BUFFERED_MAX = 10000

local DEDUP_TTL_MS = 86400000
local KEPT_PER_WAITPOINT = 1000
local MAX_PER_EXECUTION = 10000
local DELIVERIES_KEPT = 1000

-- Arguments of both signal functions for which empty means the same as missing.
local TEXTS = {
  "execution_id", "waitpoint_id", "signal_name", "signal_category", "source_type",
  "source_identity", "payload", "idempotency_key", "correlation_id", "waitpoint_token",
}

-- What a condition needs to know of a signal: from a call's arguments or a stored entry.
function signal.of(fields)
  return {
    id = text.present(fields.signal_id, ""), name = text.present(fields.signal_name, ""),
    source_type = text.present(fields.source_type, ""),
    source_identity = text.present(fields.source_identity, ""),
  }
end

-- Authenticates a call. Answers the execution's core and the waitpoint's record, or nil, nil and a
-- refusal; a bad token is stamped on the record. `unknown` is the code for a waitpoint that does
-- not exist.
function signal.authenticate(k, a, now, unknown)
  text.fill(a, TEXTS)
  local core = record.read(k.exec_core)
  if not core then
    return nil, nil, err("execution_not_found")
  end
  local wp = record.read(k.waitpoint)
  if not wp or not text.set(wp.created_at) then
    return nil, nil, err(unknown)
  end
  local code = waitpoint.token_refusal(k.hmac, a.waitpoint_token, a.waitpoint_id, wp, now)
  if code then
    call("HSET", k.exec_core, "last_hmac_validation_failed_at", number.digits(now))
    return nil, nil, err(code)
  end
  if (text.set(wp.execution_id) and wp.execution_id ~= a.execution_id)
    or (text.set(core.execution_id) and core.execution_id ~= a.execution_id) then
    return nil, nil, err("invalid_waitpoint_for_execution")
  end
  return core, wp
end

-- The numbers of a call, all checked, or nil and a refusal. An empty or non-positive time to live
-- turns the idempotency key off.
function signal.limits(a)
  local ttl, kept, most, refused
  ttl, refused = number.optional(a.dedup_ttl_ms, "dedup_ttl_ms",
    a.dedup_ttl_ms == nil and DEDUP_TTL_MS or 0)
  if ttl == nil then return nil, refused end
  kept, refused = number.optional(a.signal_maxlen, "signal_maxlen", KEPT_PER_WAITPOINT)
  if kept == nil then return nil, refused end
  most, refused = number.optional(a.max_signals_per_execution, "max_signals_per_execution",
    MAX_PER_EXECUTION)
  if most == nil then return nil, refused end
  if kept < 0 then
    return nil, err("invalid_input", "signal_maxlen must not be negative")
  end
  return { ttl = ttl, dedup = text.set(a.idempotency_key) and ttl > 0, kept = kept, most = most }
end

-- The reply to a signal that was accepted before, by its idempotency key or by its id; nil for a
-- new one. It is checked before the state, because the first delivery may have changed the state.
-- The id of another signal is refused: that signal's record is kept.
function signal.repeated(k, a, limits)
  local known = limits.dedup and call("GET", k.sigdedup)
  if known then
    return duplicate(known)
  end
  local held = record.fields(k.signal, "signal_id", "target_waitpoint_id", "target_execution_id")
  if not text.set(held.signal_id) then
    return nil
  end
  if held.signal_id == a.signal_id and held.target_waitpoint_id == a.waitpoint_id
    and text.either(held.target_execution_id, a.execution_id) == a.execution_id then
    return duplicate(a.signal_id)
  end
  return err("invalid_input", "signal_id was used for another signal")
end

-- The refusal if the execution has reached its limit of signals and this waitpoint already `had` as
-- many of the same kind (matching, or ignored). Signals of earlier waits and ignored signals do not
-- use up the limit of others.
function signal.crowded(k, limits, had)
  if limits.most > 0 and had >= limits.most and call("ZCARD", k.exec_signals) >= limits.most then
    return err("signal_limit_exceeded")
  end
  return nil
end

-- Writes a signal: its dedup entry, record and payload, and its entries with waitpoint and
-- execution. `trim` = about how many entries the waitpoint keeps; nil keeps all.
function signal.record(k, a, limits, now, effect, trim)
  if limits.dedup then
    call("SET", k.sigdedup, a.signal_id, "PX", number.digits(limits.ttl))
  end
  record.write(k.signal, {
    "signal_id", a.signal_id, "target_execution_id", a.execution_id,
    "target_waitpoint_id", a.waitpoint_id,
    "target_scope", text.present(a.target_scope, "waitpoint"),
    "signal_name", a.signal_name, "signal_category", a.signal_category,
    "source_type", a.source_type, "source_identity", a.source_identity,
    "correlation_id", a.correlation_id, "idempotency_key", a.idempotency_key,
    "created_at", text.either(a.created_at, number.digits(now)), "accepted_at", now,
    "matched_waitpoint_id", a.waitpoint_id,
    "payload_encoding", text.present(a.payload_encoding, "json"), "observed_effect", effect,
  })
  if a.payload ~= "" then
    call("SET", k.signal_payload, a.payload)
  end
  local entry = {
    "*", "signal_id", a.signal_id, "signal_name", a.signal_name,
    "signal_category", a.signal_category, "source_type", a.source_type,
    "source_identity", a.source_identity, "matched", "0", "accepted_at", number.digits(now),
  }
  if trim then
    call("XADD", k.wp_signals, "MAXLEN", "~", number.digits(trim), unpack(entry))
  else
    call("XADD", k.wp_signals, unpack(entry))
  end
  call("ZADD", k.exec_signals, number.digits(now), a.signal_id)
end

-- Adds a delivered signal to the partition's stream of deliveries.
local function announce(k, a, effect, now)
  call("XADD", k.signal_delivery, "MAXLEN", "~", number.digits(DELIVERIES_KEPT), "*",
    "signal_id", a.signal_id, "execution_id", a.execution_id, "waitpoint_id", a.waitpoint_id,
    "source_identity", a.source_identity, "effect", effect,
    "delivered_at_ms", number.digits(now))
end

-- Short calls leave out the stream of delivered signals; it is derived from the execution's key.
-- Answers the refusal of a key of another type.
function signal.locate_feed(k)
  if text.set(k.signal_delivery) then
    return nil
  end
  k.signal_delivery = "ff:part:" .. text.tag(k.exec_core) .. ":signal_delivery"
  return guard.mismatch(k.signal_delivery, "stream")
end

-- Adds the keys of a delivery to those of a buffering call. Answers the refusal of a key of another
-- type.
function signal.locate_suspension(k, core)
  local tag, lane_id = text.tag(k.exec_core), lane.of(core)
  k.suspension = k.exec_core:gsub(":core$", ":suspension:current")
  k.suspension_timeout = lane.partition_index(tag, "suspension_timeout")
  local checked = { { k.suspension, "hash" }, { k.suspension_timeout, "zset" } }
  for _, name in ipairs({ "eligible", "suspended", "delayed" }) do
    k[name] = lane.index(tag, lane_id, name)
    checked[#checked + 1] = { k[name], "zset" }
  end
  return guard.any_mismatch(checked) or signal.locate_feed(k)
end

-- The refusal if no execution waits at the waitpoint; else nil and what waits there: the suspension
-- (nil if a hand-made record has none) and the stored condition.
local function waiting(k, a, core, wp)
  if core.lifecycle_phase ~= "suspended" then
    if core.lifecycle_phase ~= "terminal" and wp.state == "pending" then
      return err("waitpoint_pending_use_buffer_script")
    end
    return err("target_not_signalable")
  end
  local stored = record.read(k.wp_condition)
  if not stored then
    return err("waitpoint_not_found")
  end
  local held = record.read(k.suspension)
  if stored.closed == "1" or (held and not suspension.binds(held, a.waitpoint_id, wp)) then
    return err("waitpoint_closed")
  end
  return nil, held, stored
end

-- How many of the waitpoint's `count` signals were of the same kind as this one: matching, or
-- ignored.
local function alike(effect, cond, stored, wp, count)
  local wanted = cond.tree and condition.counted_before(cond)
    or number.floor(stored.satisfied_count, 0)
  local noise = effect == condition.NO_MATCH or effect == condition.COUNTED_BEFORE
    or not condition.matched(effect)
  return noise and count - wanted or wanted
end

-- Resumes the execution: `closing` is everything that closes with its suspension.
local function resume(k, a, core, cond, closing, now, delay)
  suspension.resume(k, a.execution_id, core, now, delay,
    "resume delay " .. number.digits(delay) .. "ms after signal " .. a.signal_name)
  suspension.close(closing, {
    reason = "resumed", condition_reason = "satisfied", satisfied = true,
    more = cond.tree and {
      "closer_signal_id", a.signal_id, "all_satisfier_signals", condition.satisfiers(cond),
    },
  }, now)
end

-- Delivers an authenticated, new signal to the suspension that waits for it: records it, passes it
-- to the condition, and resumes the execution if that is met.
function signal.deliver(k, a, core, wp, limits, now)
  local refused, held, stored = waiting(k, a, core, wp)
  if refused then return refused end
  local delay, closing, stale_keys
  delay, refused = suspension.delay(a.resume_delay_ms, held)
  if not delay then return refused end
  closing, refused = suspension.closing(k.suspension,
    { waitpoint = k.waitpoint, condition = k.wp_condition }, held)
  if not closing then return refused end
  stale_keys, refused = lane.locate(k, core, { "eligible", "delayed", "suspended" })
  if not stale_keys then return refused end
  local tokens = suspension.composite_keys(k.suspension)
  local cond = condition.load(stored, tokens)
  local effect = condition.feed(cond, signal.of(a),
    { id = a.waitpoint_id, key = text.present(wp.waitpoint_key, "") })
  local met, count = effect == condition.MET, number.floor(wp.signal_count, 0)
  refused = signal.crowded(k, limits, alike(effect, cond, stored, wp, count))
  if refused then return refused end
  -- write; nothing below can fail
  signal.record(k, a, limits, now, effect, limits.kept)
  condition.save(k.wp_condition, cond, tokens)
  record.write(k.waitpoint, {
    "signal_count", count + 1,
    "matched_signal_count",
    number.floor(wp.matched_signal_count, 0) + (condition.matched(effect) and 1 or 0),
    "last_signal_at", now,
  })
  if held and not (met and cond.tree) then
    call("HSET", k.suspension, "last_signal_at", number.digits(now))
  end
  if met then
    resume(k, a, core, cond, closing, now, delay)
  end
  announce(k, a, effect, now)
  return ok(a.signal_id, effect)
end
