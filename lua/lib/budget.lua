-- Budgets: usage by dimension under hard and soft limits. Usage changes only here, and always by
-- the sum of the accepted deltas (LedgerAdds).

-- Fields of a usage record that are not dimensions: the breach mark, and a field that readers skip.
local RESERVED = { breached_at = true, _init = true }

-- A stored amount as a whole number. A missing or unreadable one is 0; one that is too large to be
-- exact is the largest exact number, so that it never reads as unused.
function budget.amount(stored)
  local n = tonumber(stored)
  if n == nil or n ~= n then
    return 0
  end
  return math.floor(math.max(-number.MAX, math.min(n, number.MAX)))
end

-- The refusal of a name that cannot be a dimension, else nil.
function budget.not_a_dimension(name)
  if name == nil or RESERVED[name] then
    return err("invalid_input", "no such dimension: " .. tostring(name))
  end
  return nil
end

-- A limit: the number, nil if there is none (missing, empty, zero or less), or nil and a refusal,
-- since an unreadable limit must not count as none.
function budget.limit(stored, name)
  if not text.set(stored) then
    return nil
  end
  local n = tonumber(stored)
  if n == nil or n ~= n then
    return nil, err("invalid_input", name .. " must be a number, got: " .. stored)
  end
  return n > 0 and n or nil
end

-- A limit as it is stored, or nil and a refusal: strict readers take whole numbers in plain digits.
function budget.limit_text(given, name)
  if not text.set(given) then
    return ""
  end
  local n, refused = number.optional_far(given, name)
  return n and number.digits(n), refused
end

-- How many dimensions a call lists, or nil and a refusal. Each takes `width` arguments after the
-- first `before`; `after` more must follow.
function budget.count(listed, name, arguments, before, width, after)
  local n, refused = number.require_whole(listed, name)
  if n == nil then
    return nil, refused
  end
  if n < 0 or before + n * width + after > #arguments then
    return nil, err("invalid_input", name .. " does not fit the arguments, got: " .. listed)
  end
  return n
end

-- The deltas of a report in its own order: a list of { dimension, delta }, or nil and a refusal.
-- The i-th dimension stands at `dims_at + i * step`, its delta at `deltas_at + i * step`.
function budget.deltas(arguments, count, dims_at, deltas_at, step)
  local deltas = {}
  for i = 0, count - 1 do
    local dimension = arguments[dims_at + i * step]
    local refused = budget.not_a_dimension(dimension)
    if refused then
      return nil, refused
    end
    local delta
    delta, refused = number.require_whole(arguments[deltas_at + i * step], "delta")
    if delta == nil then
      return nil, refused
    end
    deltas[i + 1] = { dimension = dimension, delta = delta }
  end
  return deltas
end

-- The key of the period in which a ledger was written. A release in a later period gives nothing
-- back, because the reset has already cleared the usage.
function budget.period_of(by_exec)
  local period, found = by_exec:gsub(":by_exec:", ":by_exec_period:", 1)
  return found == 1 and period or by_exec .. ":period"
end

-- Whether a ledger belongs to an earlier period than `period`.
function budget.is_stale(by_exec, period)
  local recorded = call("GET", budget.period_of(by_exec))
  return text.set(recorded) and budget.amount(recorded) ~= period
end

-- Deletes a ledger; answers how many keys were deleted.
function budget.forget(by_exec)
  return call("DEL", by_exec, budget.period_of(by_exec))
end

-- Whether some dimension has reached its hard limit. This is the only definition: admission stops
-- at it, and a report that would exceed it is refused.
function budget.exhausted(limits, usage)
  for field, stored in pairs(limits) do
    local name = field:match("^hard:(.*)$")
    local limit = name and budget.limit(stored, field)
    if limit and budget.amount(usage[name]) >= limit then
      return true
    end
  end
  return false
end

-- How long a period of the budget lasts, 0 when it never resets.
function budget.interval(def)
  return math.max(0, number.floor(def and def.reset_interval_ms, 0))
end

-- Starts a new period: every dimension of `names` back to zero but kept, the mark of a breach
-- gone, the next reset scheduled (0: none). An undefined budget gets no definition.
function budget.start_period(k, id, def, names, now, next_reset_at)
  local zeroes = {}
  for _, name in ipairs(names) do
    text.append(zeroes, { name, "0" })
  end
  record.write(k.usage, zeroes)
  call("HDEL", k.usage, "breached_at")
  if def then
    record.write(k.def, {
      "reset_count", budget.amount(def.reset_count) + 1,
      "last_reset_at", now, "last_updated_at", now,
      "last_breach_at", "", "last_breach_dim", "",
    })
  end
  if next_reset_at > 0 then
    record.write(k.def, { "next_reset_at", next_reset_at })
    call("ZADD", k.resets, number.digits(next_reset_at), id)
    push.due(k.resets, next_reset_at)
  else
    call("ZREM", k.resets, id)
  end
end
