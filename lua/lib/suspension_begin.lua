-- How a suspension begins. `suspension.plan` reads and decides; the other functions write what it
-- decided.

-- The refusal of a waitpoint that was created ahead, nil if this attempt may activate it.
local function pending_refusal(wp, a, now)
  if not wp then
    return err("waitpoint_not_found")
  elseif wp.state ~= "pending" then
    return err("waitpoint_not_pending")
  elseif wp.execution_id ~= a.execution_id or wp.attempt_index ~= a.attempt_index then
    return err("invalid_waitpoint_for_execution")
  elseif number.either(wp.expires_at, math.huge) <= now then
    return err("pending_waitpoint_expired")
  elseif not text.set(wp.waitpoint_token) then
    return err("waitpoint_not_token_bound")
  end
  return nil
end

-- The refusal if there is already an open waitpoint of another execution.
local function taken(one, execution_id)
  local wp = record.fields(one.record_key, "execution_id", "state")
  if text.set(wp.execution_id) and wp.execution_id ~= execution_id
    and (wp.state == "pending" or wp.state == "active") then
    return err("waitpoint_already_exists")
  end
  return nil
end

-- Gives each new waitpoint its token; nil and a refusal if that is not possible.
local function sign(k, a, bound, now)
  local signer, refused = waitpoint.signer(k.hmac)
  if not signer then
    return nil, refused
  end
  for _, one in ipairs(bound) do
    one.token = waitpoint.token(signer, one.id, one.key, now)
    refused = guard.any_mismatch({ { one.record_key, "hash" }, { one.condition_key, "hash" } })
      or taken(one, a.execution_id)
    if refused then
      return nil, refused
    end
  end
  return true
end

-- Passes the signals that were buffered before the suspension to its condition.
local function feed_buffered(wp_signals, cond, at)
  for _, entry in ipairs(call("XRANGE", wp_signals, "-", "+", "COUNT", signal.BUFFERED_MAX)) do
    local fields = {}
    for i = 1, #entry[2], 2 do
      fields[entry[2][i]] = entry[2][i + 1]
    end
    condition.take(cond, signal.of(fields), at)
  end
  -- A tree without any condition is not met while no signal has counted.
  return (not cond.tree or #cond.new_tokens > 0) and condition.met(cond)
end

-- The numbers of the call, all checked, or nil and a refusal.
local function numbers(a, dedup)
  local timeout_at, maxlen, ttl, refused
  timeout_at, refused = number.optional_far(a.timeout_at, "timeout_at", false)
  if timeout_at == nil then return nil, refused end
  -- Zero means no timeout.
  timeout_at = timeout_at ~= 0 and timeout_at
  maxlen, refused = number.optional(a.lease_history_maxlen, "lease_history_maxlen", 1000)
  if maxlen == nil then return nil, refused end
  ttl, refused = number.optional(dedup and a.dedup_ttl_ms, "dedup_ttl_ms", 0)
  if ttl == nil then return nil, refused end
  if maxlen < 0 then
    return nil, err("invalid_input", "lease_history_maxlen must not be negative")
  end
  return {
    timeout_at = timeout_at, history_maxlen = maxlen, dedup_ttl = ttl, dedup = dedup,
    expires_at = timeout_at and number.digits(timeout_at) or "",
  }
end

-- What the suspension will consist of, or nil and a refusal: its condition, its waitpoints
-- (`bound`, the primary one first), and whether buffered signals already meet it.
function suspension.plan(k, a, core, extras, now)
  local primary = {
    id = a.waitpoint_id, key = a.waitpoint_key,
    record_key = k.waitpoint, condition_key = k.wp_condition,
  }
  local pending, bound, refused = a.use_pending_waitpoint == "1", { primary }, nil
  text.append(bound, extras)
  if pending then
    local wp = record.read(k.waitpoint)
    refused = pending_refusal(wp, a, now)
      or (#extras > 0 and err("use_pending_with_extras_unsupported"))
    if not refused then
      primary.id, primary.key = text.either(wp.waitpoint_id, primary.id), wp.waitpoint_key or ""
      primary.token = wp.waitpoint_token
    end
  else
    refused = select(2, sign(k, a, bound, now))
  end
  refused = refused or attempt.locate(k, a.execution_id, core)
  if refused then return nil, refused end
  local cond, plan, stale_keys
  cond, refused = condition.parse(a.resume_condition_json)
  if not cond then return nil, refused end
  refused = condition.oversize(cond, #bound)
  if refused then return nil, refused end
  plan, refused = numbers(a, text.set(a.idempotency_key) and text.set(k.suspend_dedup))
  if not plan then return nil, refused end
  stale_keys, refused = lane.locate(k, core, { "active", "suspended" })
  if not stale_keys then return nil, refused end
  plan.condition, plan.bound, plan.pending, plan.stale_keys = cond, bound, pending, stale_keys
  plan.met = pending and feed_buffered(k.wp_signals, cond, primary)
  return plan
end

-- Deletes the previous, closed suspension; its waitpoint stays listed with the execution's.
function suspension.clear_closed(k, held)
  if held and text.set(held.waitpoint_id) then
    call("SADD", k.waitpoints, held.waitpoint_id)
  end
  call("DEL", k.suspension)
  suspension.forget_composite(k.suspension)
end

-- Creates or activates the waitpoints of the plan and writes their conditions. If the condition is
-- already met, the waitpoint is closed at once.
function suspension.open_waitpoints(k, a, plan, now)
  local held = condition.fields(plan.condition, now)
  for _, one in ipairs(plan.bound) do
    if plan.pending then
      record.write(one.record_key, {
        "suspension_id", a.suspension_id, "state", "active", "activated_at", now,
        "expires_at", plan.expires_at,
      })
    else
      one.state, one.suspension_id = "active", a.suspension_id
      one.activated_at, one.expires_at = now, plan.expires_at
      call("DEL", one.record_key)
      record.write(one.record_key, waitpoint.fields(one, a, now))
    end
    condition.create(one.condition_key, held)
    call("ZREM", k.pending_wp_expiry, one.id)
    call("SADD", k.waitpoints, one.id)
  end
  if plan.met then
    suspension.close({
      key = k.suspension, exists = false,
      waitpoints = { k.waitpoint }, conditions = { k.wp_condition },
    }, { reason = "resumed", condition_reason = "satisfied", satisfied = true }, now)
  end
end

-- The additional waitpoints as the JSON that the record keeps.
local function extras_json(bound)
  local items = {}
  for i = 2, #bound do
    items[i - 1] = '{"waitpoint_id":' .. cjson.encode(bound[i].id)
      .. ',"waitpoint_key":' .. cjson.encode(bound[i].key) .. "}"
  end
  return "[" .. table.concat(items, ",") .. "]"
end

local function write_record(k, a, plan, now)
  local primary = plan.bound[1]
  record.write(k.suspension, {
    "suspension_id", a.suspension_id, "execution_id", a.execution_id,
    "attempt_index", a.attempt_index, "waitpoint_id", primary.id, "waitpoint_key", primary.key,
    "additional_waitpoints_json", extras_json(plan.bound),
    "reason_code", a.reason_code, "requested_by", a.requested_by, "created_at", now,
    "timeout_at", plan.expires_at, "timeout_behavior", text.present(a.timeout_behavior, "fail"),
    "resume_condition_json", a.resume_condition_json, "resume_policy_json", a.resume_policy_json,
    "continuation_metadata_pointer", a.continuation_metadata_pointer,
    "buffered_signal_summary_json", '{"total_count":0,"matched_count":0,"signal_names":[]}',
    "last_signal_at", "", "satisfied_at", "", "closed_at", "", "close_reason", "",
  })
  if plan.condition.tree then
    local keys = suspension.composite_keys(k.suspension)
    local waitpoint_keys = {}
    for i, one in ipairs(plan.bound) do
      waitpoint_keys[i] = one.key
    end
    record.write(keys.members, condition.member_map(plan.condition, waitpoint_keys))
    condition.save(nil, plan.condition, keys)
  end
end

-- Releases the lease and suspends the execution.
function suspension.begin(k, a, core, plan, now)
  local id, waits_on = a.execution_id, plan.bound[1].id
  local fields = {
    "current_suspension_id", a.suspension_id, "current_waitpoint_id", waits_on,
    "last_transition_at", now, "last_mutation_at", now,
  }
  text.append(fields, lease.RELEASED, attempt.time_left(k, id, now))
  state.put(k.exec_core, state.suspended(suspension.blocking_reason(a.reason_code),
    "suspended: waitpoint " .. waits_on .. " awaiting " .. a.reason_code,
    "attempt_interrupted"), fields)
  attempt.pause(k.attempt, a.suspension_id, now)
  lease.release(k, id, core)
  lane.move(id, text.append({ k.active }, plan.stale_keys), k.suspended,
    plan.timeout_at or suspension.NEVER)
  local released = lease.current(core, now, "suspend")
  released.attempt_index = a.attempt_index
  lease.history(k.lease_history, "released", lease.EVENT.released_for_later, released,
    plan.history_maxlen)
  write_record(k, a, plan, now)
  if plan.timeout_at then
    call("ZADD", k.suspension_timeout, number.digits(plan.timeout_at), id)
    push.due(k.suspension_timeout, plan.timeout_at)
  else
    call("ZREM", k.suspension_timeout, id)
  end
end

-- What a suspend tells its caller, as texts: suspension, waitpoint, key, token, then the additional
-- ones.
function suspension.reply_fields(a, plan)
  local primary = plan.bound[1]
  local fields = {
    a.suspension_id, primary.id, primary.key, primary.token,
    number.digits(#plan.bound - 1),
  }
  for i = 2, #plan.bound do
    text.append(fields, { plan.bound[i].id, plan.bound[i].key, plan.bound[i].token })
  end
  return fields
end
