-- Suspension records `ff:exec:<tag>:<eid>:suspension:current`, and everything that closes with one:
-- its waitpoints, their conditions and the sets of a composite condition. All of them close in one
-- place, so that no waitpoint of an ended suspension can ever resume a later one.

-- The score for "no timeout" in the suspended index: later than every real time.
suspension.NEVER = 9999999999999

-- The blocking reason for each reason to suspend; any other waits for a signal.
local BLOCKING_REASONS = {
  waiting_for_approval = "waiting_for_approval",
  waiting_for_callback = "waiting_for_callback",
  waiting_for_tool_result = "waiting_for_tool_result",
  paused_by_policy = "paused_by_policy",
  waiting_for_operator_review = "paused_by_operator",
  manual_pause = "paused_by_operator",
  paused_by_budget = "waiting_for_budget",
}

function suspension.blocking_reason(reason_code)
  return BLOCKING_REASONS[reason_code] or "waiting_for_signal"
end

-- The sets and the map of a composite condition.
function suspension.composite_keys(key)
  return {
    satisfied = key .. ":satisfied_set",
    signals = key .. ":satisfied_set:signals",
    members = key .. ":member_map",
  }
end

function suspension.forget_composite(key)
  local keys = suspension.composite_keys(key)
  call("DEL", keys.satisfied, keys.signals, keys.members)
end

function suspension.is_open(held)
  return held ~= nil and text.set(held.suspension_id) and not text.set(held.closed_at)
end

-- The ids of the additional waitpoints of a suspension, in order.
function suspension.extra_ids(held)
  local ids = {}
  local extras = text.json(held.additional_waitpoints_json)
  for _, extra in ipairs(type(extras) == "table" and extras or {}) do
    local id = type(extra) == "table" and extra.waitpoint_id
    if type(id) == "string" and id ~= "" then
      ids[#ids + 1] = id
    end
  end
  return ids
end

-- Whether a waitpoint belongs to this suspension; hand-made records may not say.
function suspension.binds(held, waitpoint_id, wp)
  if text.set(wp.suspension_id) and text.set(held.suspension_id)
    and wp.suspension_id ~= held.suspension_id then
    return false
  end
  if not text.set(held.waitpoint_id) or held.waitpoint_id == waitpoint_id then
    return true
  end
  for _, id in ipairs(suspension.extra_ids(held)) do
    if id == waitpoint_id then
      return true
    end
  end
  return false
end

-- What has to close with a suspension, all keys checked: to be called before the first write and
-- passed to `suspension.close`. The record names the waitpoints it waits on, since the caller's
-- keys come from an earlier read; `given` = { waitpoint = key, condition = key } is for records
-- that name none. `held` is the record if it was already read. Answers nil and a refusal if a key
-- holds a value of another type.
function suspension.closing(key, given, held)
  held = held or record.read(key)
  local tag, targets = text.tag(key), {}
  if held and text.set(held.waitpoint_id) then
    targets[1] = { waitpoint.keys(tag, held.waitpoint_id) }
  else
    targets[1] = { text.present(given.waitpoint, ""), text.present(given.condition, "") }
  end
  for _, id in ipairs(held and suspension.extra_ids(held) or {}) do
    targets[#targets + 1] = { waitpoint.keys(tag, id) }
  end
  local closing = { key = key, exists = held ~= nil, waitpoints = {}, conditions = {} }
  for _, target in ipairs(targets) do
    for i, list in ipairs({ closing.waitpoints, closing.conditions }) do
      local refused = guard.mismatch(target[i], "hash")
      if refused then
        return nil, refused
      end
      if text.set(target[i]) and target[i] ~= key then
        list[#list + 1] = target[i]
      end
    end
  end
  return closing
end

-- Closes what `suspension.closing` found, as far as it exists. `how` = { reason = …,
-- condition_reason = … (the reason unless given), satisfied = whether the wait was met,
-- more = { field, value, … } for the suspension record }.
function suspension.close(closing, how, now)
  local closed = { "closed_at", now, "close_reason", how.reason }
  if how.satisfied then
    text.append(closed, { "satisfied_at", now })
  end
  for _, key in ipairs(closing.waitpoints) do
    if call("EXISTS", key) == 1 then
      record.write(key, text.append({ "state", "closed" }, closed))
    end
  end
  for _, key in ipairs(closing.conditions) do
    if call("EXISTS", key) == 1 then
      record.write(key, {
        "closed", "1", "closed_at", now, "closed_reason", how.condition_reason or how.reason,
      })
    end
  end
  if closing.exists then
    record.write(closing.key, text.append(closed, how.more or {}))
  end
  suspension.forget_composite(closing.key)
end

-- How long a resume waits: as the call says, else by the resume policy of the suspension. Answers
-- milliseconds (0 for at once), or nil and a refusal.
function suspension.delay(given, held)
  local delay, refused = number.optional(given, "resume_delay_ms", 0)
  if delay == nil then
    return nil, refused
  end
  if delay > number.SPAN_MAX then
    return nil, err("invalid_input", "resume_delay_ms is too long")
  end
  if delay > 0 then
    return delay
  end
  local asked = held and text.json(held.resume_policy_json)
  return type(asked) == "table" and policy.span(asked.resume_delay_ms) or 0
end

-- Makes a suspended execution runnable again, at once or after `delay`; `detail` then says why it
-- waits. The time is also written to `delay_until`: without it the execution could not be promoted.
-- Answers the new public state. Needs k.exec_core, suspended, eligible, delayed,
-- suspension_timeout.
function suspension.resume(k, id, core, now, delay, detail)
  local vector, target = state.eligible("attempt_interrupted"), k.eligible
  local score = lane.eligible_score(core)
  local fields = {
    "current_suspension_id", "", "current_waitpoint_id", "",
    "last_transition_at", now, "last_mutation_at", now,
  }
  if delay > 0 then
    vector = state.delayed("waiting_for_resume_delay", detail, "attempt_interrupted")
    target, score = k.delayed, now + delay
    text.append(fields, { "delay_until", score })
  end
  state.put(k.exec_core, vector, fields)
  lane.move(id, { k.suspended }, target, score)
  call("ZREM", k.suspension_timeout, id)
  return vector.public_state
end

-- A dedup entry without a time to live of its own is kept this long: seven days.
local DEDUP_KEPT_MS = 604800000

-- Stores the outcome of a suspend = { status, field, … } under its idempotency key. The parts are
-- joined by tabs; if one contains a tab, a JSON list is stored too.
function suspension.remember(key, outcome, ttl)
  call("DEL", key)
  call("HSET", key, "outcome", table.concat(outcome, "\t"))
  for _, piece in ipairs(outcome) do
    if piece:find("\t", 1, true) then
      call("HSET", key, "outcome_list", cjson.encode(outcome))
      break
    end
  end
  call("PEXPIRE", key, number.digits(ttl > 0 and ttl or DEDUP_KEPT_MS))
end

-- The outcome stored under an idempotency key, as a reply, or nil.
function suspension.remembered(key)
  local held = record.fields(key, "outcome", "outcome_list")
  local pieces = text.json(held.outcome_list)
  if type(pieces) ~= "table" then
    pieces = {}
    for piece in (text.present(held.outcome, "") .. "\t"):gmatch("([^\t]*)\t") do
      pieces[#pieces + 1] = piece
    end
  end
  if #pieces < 5 then
    return nil
  end
  return with_list(pieces[1], pieces, 2)
end
