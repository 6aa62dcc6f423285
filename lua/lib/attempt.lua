-- Attempt records: `ff:attempt:<tag>:<eid>:<index>`.

local NOTHING = {}

function attempt.key(tag, execution_id, index)
  return "ff:attempt:" .. tag .. ":" .. execution_id .. ":" .. (index or "")
end

-- Points k.attempt and k.stream_meta at the current attempt of `core`, since the caller's keys come
-- from an earlier read. Without a current attempt they stay.
function attempt.point(k, id, core)
  local index = core.current_attempt_index
  if text.set(index) then
    local tag = text.tag(k.exec_core)
    k.attempt = attempt.key(tag, id, index)
    k.stream_meta = stream.meta(tag, id, index)
  end
end

-- The same, and answers the refusal of a key of another type.
function attempt.locate(k, id, core)
  attempt.point(k, id, core)
  return guard.mismatch(k.attempt, "hash") or guard.mismatch(k.stream_meta, "hash")
end

-- Closes an attempt; `more` = { field, value, … } as texts (optional).
function attempt.finish(key, attempt_state, now, more)
  call("HSET", key, "attempt_state", attempt_state, "ended_at", number.text(now),
    unpack(more or NOTHING))
end

-- Pauses an attempt whose lease is given up; `cause` stands in for a suspension id.
function attempt.pause(key, cause, now)
  record.write(key,
    { "attempt_state", "suspended", "suspended_at", now, "suspension_id", cause })
end

-- Continues a paused attempt under a new lease.
function attempt.resume(key, held)
  record.write(key, {
    "attempt_state", "started", "resumed_at", held.at,
    "lease_id", held.lease_id, "lease_epoch", held.lease_epoch,
    "worker_id", held.worker_id, "worker_instance_id", held.worker_instance_id,
    "suspended_at", "", "suspension_id", "",
  })
end

-- What the record says about the attempt that comes next: its type and lineage fields.
function attempt.lineage(core)
  local previous = text.present(core.pending_previous_attempt_index, "")
  if core.attempt_state == "pending_retry_attempt" then
    return "retry", {
      "retry_reason", text.present(core.pending_retry_reason, ""),
      "previous_attempt_index", previous,
    }
  end
  if core.attempt_state == "pending_replay_attempt" then
    return "replay", {
      "replay_reason", text.present(core.pending_replay_reason, ""),
      "replay_requested_by", text.present(core.pending_replay_requested_by, ""),
      "replayed_from_attempt_index", previous,
    }
  end
  return "initial", NOTHING
end

-- Plans the next attempt of an execution: its index, keys and frozen policy, all checked. Answers
-- the plan, or nil and a refusal. `policy_json` unset or `{}` means no policy record.
function attempt.plan(k, id, core, policy_json)
  local fields, refused = attempt.policy_fields(policy_json)
  if not fields then
    return nil, refused
  end
  local index = number.digits(math.max(0, number.floor(core.total_attempt_count, 0)))
  local key = attempt.key(text.tag(k.exec_core), id, index)
  local usage = key .. ":usage"
  refused = guard.mismatch(key, "hash") or guard.mismatch(usage, "hash")
    or fields[1] and guard.mismatch(key .. ":policy", "hash")
  if refused then
    return nil, refused
  end
  return { index = index, key = key, usage = usage, policy_fields = fields }
end

-- Opens the planned attempt under the lease `held` (lease.terms); `lineage` = further fields as
-- texts. `list_key` lists the attempts of the execution.
function attempt.open(list_key, id, plan, held, kind, lineage)
  call("HSET", plan.key,
    "attempt_id", held.attempt_id, "execution_id", id, "attempt_index", plan.index,
    "attempt_type", kind, "attempt_state", "started",
    "created_at", held.at, "started_at", held.at,
    "lease_id", held.lease_id, "lease_epoch", held.lease_epoch,
    "worker_id", held.worker_id, "worker_instance_id", held.worker_instance_id,
    unpack(lineage))
  call("ZADD", list_key, held.at, plan.index)
  if plan.policy_fields[1] then
    record.write(plan.key .. ":policy", plan.policy_fields)
  end
end

-- Writes the usage record of an opened attempt: no function and no reader uses it, but the
-- contract's claims write it.
function attempt.open_usage(plan)
  call("HSET", plan.usage, "last_usage_report_seq", "0")
end

-- When a failed attempt is tried again by the retry policy `retry`, nil when it is not.
function attempt.retry_at(id, core, retry, category, now)
  local count = number.floor(core.retry_count, 0)
  if not policy.allows_retry(retry, count, category) then
    return nil
  end
  return now + policy.backoff_ms(retry, count, id .. ":" .. number.text(core.current_lease_epoch))
end

-- Schedules another attempt at `retry_at` after the last one ended for `reason`: writes state,
-- lease and indexes, and moves the execution from the indexes `from` to k.delayed; `more` = further
-- core fields (optional).
function attempt.schedule_retry(k, id, core, from, retry_at, reason, now, more)
  local index = text.either(core.current_attempt_index, "0")
  local due = number.digits(retry_at)
  state.put(k.exec_core,
    state.delayed("waiting_for_retry_backoff",
      "retry backoff until " .. due .. " (attempt " .. index .. " failed: " .. reason .. ")",
      "pending_retry_attempt"),
    text.append({
      "pending_retry_reason", reason, "pending_previous_attempt_index", index,
      "retry_count", number.floor(core.retry_count, 0) + 1, "delay_until", due,
      "failure_reason", reason, "current_attempt_id", "",
      "last_transition_at", now, "last_mutation_at", now,
    }, lease.RELEASED, more or NOTHING))
  lease.release(k, id, core)
  lane.move(id, from, k.delayed, retry_at)
end

-- When the next attempt and the whole execution have to end, nil without a limit: the caller's
-- arguments first, then the stored policy (`policy_text`, read unless it is passed). An existing
-- deadline is kept unless the caller passes one. Answers { timeout_at, clears, deadline_at }, or
-- nil and a refusal.
function attempt.limits(k, id, core, a, now, policy_text)
  local timeout, refused = number.optional_span(a.attempt_timeout_ms, "attempt_timeout_ms")
  if refused then
    return nil, refused
  end
  local deadline_at
  deadline_at, refused = number.optional_time(a.execution_deadline_at, "execution_deadline_at")
  if refused then
    return nil, refused
  end
  policy_text = policy_text or call("GET", policy.key(k.exec_core))
  if text.set(policy_text) and policy_text ~= "{}" then
    local stored = policy.object(text.json(policy_text))
    timeout = timeout or policy.attempt_timeout_ms(stored)
    local span = policy.execution_deadline_ms(stored)
    refused = span and guard.mismatch(k.execution_deadline, "zset")
    if refused then
      return nil, refused
    end
    if not deadline_at and span and not call("ZSCORE", k.execution_deadline, id) then
      deadline_at = number.floor(call("HGET", k.exec_core, "created_at"), now) + span
    end
  end
  -- Before the first attempt there is no entry of an earlier one.
  local clears = not timeout and core.total_attempt_count ~= "0"
  refused = (timeout or clears) and guard.mismatch(k.attempt_timeout, "zset")
    or deadline_at and guard.mismatch(k.execution_deadline, "zset")
  if refused then
    return nil, refused
  end
  return { timeout_at = timeout and now + timeout, clears = clears, deadline_at = deadline_at }
end

-- Writes the limits of an attempt; `clears` = the entry of an earlier attempt may be there.
function attempt.write_limits(k, id, limits)
  if limits.timeout_at then
    call("ZADD", k.attempt_timeout, number.digits(limits.timeout_at), id)
    push.due(k.attempt_timeout, limits.timeout_at)
  elseif limits.clears then
    call("ZREM", k.attempt_timeout, id)
  end
  if limits.deadline_at then
    call("ZADD", k.execution_deadline, number.digits(limits.deadline_at), id)
    push.due(k.execution_deadline, limits.deadline_at)
  end
end

-- Removes the limits of an execution from the indexes.
function attempt.clear_limits(k, id)
  call("ZREM", k.attempt_timeout, id)
  call("ZREM", k.execution_deadline, id)
end

-- Core fields that store the rest of the attempt's timeout while no lease runs; empty without a
-- timeout. To be called before the timeout entry is removed.
function attempt.time_left(k, id, now)
  local due = number.finite(call("ZSCORE", k.attempt_timeout, id) or nil)
  return { "attempt_time_left_ms", due and math.max(1, math.floor(due - now)) or "" }
end

-- When a resumed attempt times out: by the remaining time the caller passes, else by what was left
-- when it was paused, else by the policy. Nil without a timeout; nil and a refusal for an invalid
-- time.
function attempt.resumed_timeout(k, core, remaining_ms, now)
  local left, refused = number.optional(remaining_ms, "remaining_attempt_timeout_ms", 0)
  if left == nil then
    return nil, refused
  end
  if left <= 0 then
    left = policy.span(core.attempt_time_left_ms)
      or policy.attempt_timeout_ms(policy.read(k.exec_core))
  end
  return left and now + math.min(left, number.SPAN_MAX)
end

-- Core fields of a freshly opened attempt. Before the first, no retry or replay was pending.
function attempt.current_fields(core, plan, held)
  if plan.index == "0" then
    return {
      "current_attempt_index", "0", "total_attempt_count", "1",
      "current_attempt_id", held.attempt_id, "started_at", text.either(core.started_at, held.at),
    }
  end
  return {
    "current_attempt_index", plan.index, "total_attempt_count", number.digits(plan.index + 1),
    "current_attempt_id", held.attempt_id, "started_at", text.either(core.started_at, held.at),
    "pending_retry_reason", "", "pending_replay_reason", "", "pending_replay_requested_by", "",
    "pending_previous_attempt_index", "",
  }
end

-- The fields of a stored attempt policy as { field, value, … }: nested values as JSON, nulls left
-- out. Nil and a refusal if the text is not a JSON object.
function attempt.policy_fields(policy_json)
  if not text.set(policy_json) or policy_json == "{}" then
    return NOTHING
  end
  local members = text.json(policy_json)
  if type(members) ~= "table" then
    return nil, err("invalid_input", "attempt_policy_json must be a JSON object")
  end
  return record.from_json(members)
end

-- The policy text of a caller that may pass anything: "" unless it is a JSON object.
function attempt.usable_policy(policy_json)
  return type(text.json(policy_json)) == "table" and policy_json or ""
end
