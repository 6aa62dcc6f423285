-- The attempts of an execution: the list of their numbers and the count in its record follow from
-- the records of the attempts.

-- How an attempt stands whose own record is gone, by the record of the execution.
local function stub_state(core, index)
  local is_current = text.either(core.current_attempt_index, "0") == index
  if is_current and core.attempt_state == "running_attempt" then
    return "started"
  elseif is_current and core.attempt_state == "attempt_interrupted" then
    return core.lifecycle_phase == "active" and "started" or "suspended"
  end
  local succeeded = is_current and core.terminal_outcome == "success"
  return succeeded and "ended_success" or "ended_failure"
end

-- How many attempts there were: the record counts them, and none of those that are listed, or that
-- the caller has found, is missing from it.
local function count(core, listed, found)
  local total = math.max(0, number.floor(core.total_attempt_count, 0))
  for _, indexes in ipairs({ listed, found }) do
    for _, index in ipairs(indexes) do
      total = math.max(total, (number.whole(index) or -1) + 1)
    end
  end
  return total
end

local MOST = 1000

-- Plans the repair: { total, missing = numbers to list, stubs = numbers without a record }, or nil
-- and the refusal of a key of another type. `found` = numbers of attempts that have records.
function repair.plan_attempts(front, tag, core, found)
  local plan = { key = front .. ":attempts", missing = {}, stubs = {}, core = core, tag = tag }
  local refused = guard.mismatch(plan.key, "zset")
  if refused then
    return nil, refused
  end
  local existing = {}
  for _, index in ipairs(found) do
    if call("EXISTS", attempt.key(tag, core.execution_id, index)) == 1 then
      existing[#existing + 1] = index
    end
  end
  plan.total = math.min(MOST, count(core, call("ZRANGE", plan.key, 0, MOST), existing))
  for i = 0, plan.total - 1 do
    local index = number.digits(i)
    local key = attempt.key(tag, core.execution_id, index)
    refused = guard.mismatch(key, "hash")
    if refused then
      return nil, refused
    end
    if call("EXISTS", key) == 0 then
      plan.stubs[#plan.stubs + 1] = index
    end
    if not call("ZSCORE", plan.key, index) then
      plan.missing[#plan.missing + 1] = index
    end
  end
  return plan
end

-- Carries the plan out; notes what it changed, and what is lost.
function repair.write_attempts(plan, k, report)
  local core = plan.core
  for _, index in ipairs(plan.stubs) do
    record.write(attempt.key(plan.tag, core.execution_id, index), {
      "execution_id", core.execution_id, "attempt_index", index,
      "attempt_state", stub_state(core, index), "restored", "1",
    })
    report.lost[#report.lost + 1] = "attempt:" .. index
  end
  for _, index in ipairs(plan.missing) do
    local at = record.peek(attempt.key(plan.tag, core.execution_id, index), "started_at")
    call("ZADD", plan.key, number.digits(number.floor(at, 0)), index)
    report.changes[#report.changes + 1] = "+" .. plan.key .. " " .. index
  end
  if plan.total ~= number.floor(core.total_attempt_count, 0) then
    call("HSET", k.exec_core, "total_attempt_count", number.digits(plan.total))
    report.changes[#report.changes + 1] = "total_attempt_count"
  end
end
