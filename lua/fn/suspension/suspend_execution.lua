-- Releases the lease of an active execution and suspends it on one or more waitpoints: new ones, or
-- one that was created ahead. If buffered signals already meet the condition, the lease stays and
-- nothing is suspended. A repeated call with the same idempotency key gets the first outcome again,
-- unless the caller holds a newer lease.
-- Keys: exec_core (hash), attempt (hash), lease_current (hash), lease_history (stream),
--   lease_expiry (zset), worker_leases (set), suspension (hash), waitpoint (hash),
--   wp_signals (stream), suspension_timeout (zset), pending_wp_expiry (zset), active (zset),
--   suspended (zset), waitpoints (set), wp_condition (hash), attempt_timeout (zset), hmac (hash),
--   suspend_dedup (hash); then per additional waitpoint its record, its signals, its condition
-- Arguments: execution_id, attempt_index, attempt_id, lease_id, lease_epoch, suspension_id,
--   waitpoint_id, waitpoint_key, reason_code, requested_by, timeout_at, resume_condition_json,
--   resume_policy_json, continuation_metadata_pointer, use_pending_waitpoint, timeout_behavior,
--   lease_history_maxlen, idempotency_key, dedup_ttl_ms, num_extra_waitpoints; then per additional
--   waitpoint its id and key
-- Replies: OK, ALREADY_SATISFIED
-- Errors: invalid_input, additional_waitpoint_binding_malformed, execution_not_found,
--   partial_fence_triple, fence_required, execution_not_active, lease_revoked, lease_expired,
--   stale_lease, invalid_lease_for_suspend, already_suspended, waitpoint_not_found,
--   waitpoint_not_pending, invalid_waitpoint_for_execution, pending_waitpoint_expired,
--   waitpoint_not_token_bound, invalid_keys_missing_hmac, hmac_secret_not_initialized,
--   invalid_secret, use_pending_with_extras_unsupported, waitpoint_already_exists
-- Bound: 61 + 8 * n
-- Keeps: VectorWhole, OneHome, OneHolder, SignalCountsOnce, RepeatIsHarmless
local KEYS_BEFORE_EXTRAS, ARGS_BEFORE_EXTRAS = 18, 20

-- Arguments that are only stored, or for which empty means the same as missing.
local TEXTS = {
  "suspension_id", "waitpoint_id", "waitpoint_key", "reason_code", "requested_by",
  "resume_policy_json", "continuation_metadata_pointer",
}

-- Notes a key that is overwritten; answers whether the call already has it.
local function comes_twice(seen, key)
  local before = seen[key]
  seen[key] = true
  return before
end

-- The additional waitpoints of the call, each with its id, key and key names.
local function extras_of(a, key_list, arg_list)
  local count, refused = number.optional(a.num_extra_waitpoints, "num_extra_waitpoints", 0)
  if count == nil then
    return nil, refused
  end
  local extras, seen, keys = {}, { [a.waitpoint_id] = true }, {}
  for i = 1, KEYS_BEFORE_EXTRAS do
    keys[key_list[i] or ""] = true
  end
  for i = 1, count do
    local id = arg_list[ARGS_BEFORE_EXTRAS + 2 * i - 1]
    local key = arg_list[ARGS_BEFORE_EXTRAS + 2 * i]
    if not text.set(id) or not text.set(key) or seen[id] then
      return nil, err("additional_waitpoint_binding_malformed")
    end
    seen[id] = true
    extras[i] = {
      id = id, key = key,
      record_key = key_list[KEYS_BEFORE_EXTRAS + 3 * i - 2],
      condition_key = key_list[KEYS_BEFORE_EXTRAS + 3 * i],
    }
    refused = guard.missing(extras[i], "record_key", "condition_key")
    if refused then
      return nil, refused
    end
    if comes_twice(keys, extras[i].record_key) or comes_twice(keys, extras[i].condition_key) then
      return nil, err("additional_waitpoint_binding_malformed")
    end
  end
  return extras
end

-- The stored outcome of the call that this one repeats, or nil.
local function earlier_outcome(k, a, core, now)
  if not text.set(a.idempotency_key) or not text.set(k.suspend_dedup) then
    return nil
  end
  local reply = suspension.remembered(k.suspend_dedup)
  -- A suspend gives up its lease: a caller with a valid lease asks for another suspension.
  if reply and reply[2] == "OK" and core and lease.holds(core, a, now) then
    return nil
  end
  return reply
end

define("ff_suspend_execution",
  { "exec_core!=hash", "attempt!:hash", "lease_current!=hash", "lease_history!:stream",
    "lease_expiry!:zset", "worker_leases!:set", "suspension!=hash", "waitpoint!:hash",
    "wp_signals!=stream", "suspension_timeout!:zset", "pending_wp_expiry!:zset", "active!:zset",
    "suspended!:zset", "waitpoints!:set", "wp_condition!:hash", "attempt_timeout!:zset",
    "hmac=hash", "suspend_dedup=hash" },
  { "execution_id!", "attempt_index!", "attempt_id", "lease_id", "lease_epoch", "suspension_id",
    "waitpoint_id", "waitpoint_key", "reason_code", "requested_by", "timeout_at",
    "resume_condition_json", "resume_policy_json", "continuation_metadata_pointer",
    "use_pending_waitpoint", "timeout_behavior", "lease_history_maxlen", "idempotency_key",
    "dedup_ttl_ms", "num_extra_waitpoints" },
  function(k, a, key_list, arg_list)
    text.fill(a, TEXTS)
    local extras, refused = extras_of(a, key_list, arg_list)
    if not extras then return refused end
    local core, now = record.read(k.exec_core), number.now()
    local earlier = earlier_outcome(k, a, core, now)
    if earlier then return earlier end
    if not core then return err("execution_not_found") end
    local fence
    local history_maxlen = math.max(0, number.floor(a.lease_history_maxlen, 1000))
    fence, refused = lease.holder(k, core, a, now, false, history_maxlen)
    if not fence then return refused end
    if text.present(core.current_attempt_index, "") ~= a.attempt_index then
      return err("invalid_lease_for_suspend")
    end
    local held = record.read(k.suspension)
    if held and not text.set(held.closed_at) then return err("already_suspended") end
    local plan
    plan, refused = suspension.plan(k, a, core, extras, now)
    if not plan then return refused end
    -- write; nothing below can fail
    suspension.clear_closed(k, held)
    suspension.open_waitpoints(k, a, plan, now)
    local outcome = { plan.met and "ALREADY_SATISFIED" or "OK" }
    if not plan.met then
      suspension.begin(k, a, core, plan, now)
    end
    text.append(outcome, suspension.reply_fields(a, plan))
    if plan.dedup then
      suspension.remember(k.suspend_dedup, outcome, plan.dedup_ttl)
    end
    return with_list(outcome[1], outcome, 2)
  end)
