-- Policies stored with an execution: JSON from a caller, so any member may be missing or invalid.

-- `ff:exec:<tag>:<eid>:policy` beside the execution's core.
function policy.key(core_key)
  if core_key:sub(-5) == ":core" then
    return core_key:sub(1, -5) .. "policy"
  end
  return core_key
end

-- What an execution without a policy has; never changed.
policy.NONE = {}

-- The stored policy as a table; an empty one when there is none or it is no object.
function policy.read(core_key)
  return policy.object(text.json(call("GET", policy.key(core_key)) or nil))
end

-- A decoded JSON value as a table; an empty one when it is anything else.
function policy.object(value)
  if type(value) == "table" then
    return value
  end
  return {}
end

-- The number in a JSON member (numbers and numeric texts count), or `default`.
function policy.number(value, default)
  if type(value) ~= "number" and type(value) ~= "string" then
    return default
  end
  return number.nearest(value) or default
end

-- A span of the policy in whole milliseconds, nil when it is missing or not positive.
function policy.span(value)
  local span = math.floor(policy.number(value, 0))
  if span <= 0 then
    return nil
  end
  return math.min(span, number.SPAN_MAX)
end

-- How long an attempt may run, nil without a limit.
function policy.attempt_timeout_ms(stored)
  return policy.span(policy.object(stored.timeout_policy).attempt_timeout_ms)
end

-- How long after its creation an execution must have ended, nil without a limit.
function policy.execution_deadline_ms(stored)
  return policy.span(policy.object(stored.timeout_policy).execution_deadline_ms)
end

-- How often a lost lease may be taken over: the policy's own cap, else its timeout policy's, else
-- `default`. Whole and never negative.
function policy.reclaim_cap(stored, default)
  local cap = policy.number(stored.max_reclaim_count,
    policy.number(policy.object(stored.timeout_policy).max_reclaim_count, default))
  return math.max(0, math.floor(cap))
end

-- The core fields by which admission finds the budgets and the quota of an execution.
function policy.admission_fields(stored)
  local fields = {}
  local ids = {}
  for _, id in ipairs(policy.object(stored.budget_ids)) do
    if type(id) == "string" and id ~= "" and not id:find(",", 1, true) then
      ids[#ids + 1] = id
    end
  end
  if #ids > 0 then
    text.append(fields, { "budget_ids", table.concat(ids, ",") })
  end
  if type(stored.quota_policy_id) == "string" and stored.quota_policy_id ~= "" then
    text.append(fields, { "quota_policy_id", stored.quota_policy_id })
  end
  return fields
end

-- Whether a failure of `category` is worth another try: an empty or missing list allows all.
function policy.retries_category(retry, category)
  local listed = policy.object(retry.retryable_categories)
  for _, allowed in ipairs(listed) do
    if allowed == category then
      return true
    end
  end
  return #listed == 0
end

-- Whether the policy grants another attempt after `retry_count` retries.
function policy.allows_retry(retry, retry_count, category)
  return retry_count < policy.number(retry.max_retries, 0)
    and policy.retries_category(retry, category)
end

-- The delay before the next attempt in whole milliseconds. With jitter it is drawn between half of
-- it and all of it; `seed` makes executions differ.
function policy.backoff_ms(retry, retry_count, seed)
  local backoff = policy.object(retry.backoff)
  local delay = 1000
  if backoff.type == "fixed" then
    delay = policy.number(backoff.delay_ms, 1000)
  elseif backoff.type == "exponential" then
    local grown = policy.number(backoff.initial_delay_ms, 1000)
      * policy.number(backoff.multiplier, 2) ^ retry_count
    delay = math.min(grown, policy.number(backoff.max_delay_ms, 60000))
  end
  if delay ~= delay or delay < 0 then
    delay = 0
  end
  delay = math.floor(math.min(delay, number.SPAN_MAX))
  if backoff.jitter == true then
    delay = delay - math.floor(policy.draw(seed) * delay / 2)
  end
  return delay
end

-- A number in [0, 1) drawn from the server's clock and `seed`. Servers seed math.random the same in
-- every process, so that many retries would start at the same time.
function policy.draw(seed)
  local time = call("TIME")
  local digest = redis.sha1hex(time[1] .. ":" .. time[2] .. ":" .. seed)
  return tonumber(digest:sub(1, 8), 16) / 4294967296
end
