-- Budgets: usage by dimension under hard and soft limits. Usage changes only here, and always by
-- the sum of the accepted deltas (LedgerAdds).

-- How long a report is remembered by its dedup key.
local DEDUP_MS = "86400000"

-- Fields of a usage record that are no dimensions: the mark of a breach, and one readers skip.
local RESERVED = { breached_at = true, _init = true }

-- A stored amount as a whole number. Missing or unreadable counts as nothing; what is too large to
-- be exact counts as the largest exact number, so that it never reads as free.
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

-- A limit: the number, nil where there is none (missing, empty, zero or less), or nil and a
-- refusal, for an unreadable limit must not read as none.
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

-- Some fields of a hash as a table, in chunks; `prefix` is put before each name.
local function fetch(key, names, prefix)
  local values = {}
  for first = 1, #names, 1000 do
    local chunk = {}
    for i = first, math.min(first + 999, #names) do
      chunk[#chunk + 1] = prefix .. names[i]
    end
    for i, value in ipairs(call("HMGET", key, unpack(chunk))) do
      values[names[first + i - 1]] = value
    end
  end
  return values
end

-- Adds the deltas to what `stored` holds. Answers a tally { names = in order of first mention,
-- before =, after = tables by name }, or nil and a refusal when a sum would not be exact.
local function add_up(deltas, stored_of)
  local tally = { names = {}, before = {}, after = {} }
  for _, entry in ipairs(deltas) do
    if tally.before[entry.dimension] == nil then
      tally.names[#tally.names + 1] = entry.dimension
      tally.before[entry.dimension] = 0
    end
  end
  local stored = stored_of(tally.names)
  for _, name in ipairs(tally.names) do
    tally.before[name] = budget.amount(stored[name])
    tally.after[name] = tally.before[name]
  end
  for _, entry in ipairs(deltas) do
    local sum = tally.after[entry.dimension] + entry.delta
    if math.abs(sum) > number.MAX then
      return nil, err("invalid_input", "delta is too large for " .. entry.dimension)
    end
    tally.after[entry.dimension] = sum
  end
  return tally
end

-- The first dimension that the deltas, taken one after the other, push over its hard limit: its
-- name and the stored limit, nil when all fit; or nil, nil and a refusal.
local function hard_breach(deltas, tally, limits)
  local running = {}
  for _, entry in ipairs(deltas) do
    local name = entry.dimension
    local limit, refused = budget.limit(limits[name], "hard limit")
    if refused then
      return nil, nil, refused
    end
    running[name] = (running[name] or tally.before[name]) + entry.delta
    if limit and running[name] > limit then
      return name, limits[name]
    end
  end
  return nil
end

-- The first dimension that ends over its soft limit: its name and the limit, nil when none does;
-- or nil, nil and a refusal.
local function soft_breach(tally, limits)
  local found, found_limit
  for _, name in ipairs(tally.names) do
    local limit, refused = budget.limit(limits[name], "soft limit")
    if refused then
      return nil, nil, refused
    end
    if limit and not found and tally.after[name] > limit then
      found, found_limit = name, limit
    end
  end
  return found, found_limit
end

-- The names and new amounts of a tally as { field, value, … }.
local function amounts(tally)
  local fields = {}
  for _, name in ipairs(tally.names) do
    fields[#fields + 1] = name
    fields[#fields + 1] = tally.after[name]
  end
  return fields
end

-- Remembers which budgets a dedup key was used for: the key itself has no budget in it, and one
-- report may concern several budgets.
local function budgets_of(dedup_key)
  return dedup_key .. "|budgets"
end

-- Whether this budget has taken the report already. A key that nobody wrote budgets for counts for
-- all of them.
local function taken(dedup_key, usage_key)
  if call("EXISTS", dedup_key) == 0 then
    return false
  end
  local budgets = budgets_of(dedup_key)
  return call("EXISTS", budgets) == 0 or call("SISMEMBER", budgets, usage_key) == 1
end

local function remember(dedup_key, usage_key)
  call("SET", dedup_key, "1", "PX", DEDUP_MS)
  call("SADD", budgets_of(dedup_key), usage_key)
  call("PEXPIRE", budgets_of(dedup_key), DEDUP_MS)
end

-- The period that a ledger was written in. A release in a later one gives nothing back, because
-- the reset has done so already.
function budget.period_of(by_exec)
  local period, found = by_exec:gsub(":by_exec:", ":by_exec_period:", 1)
  return found == 1 and period or by_exec .. ":period"
end

-- The tally of an execution's own ledger, or nil and a refusal. A ledger of an earlier period
-- counts as empty.
local function ledger_tally(k, deltas, period)
  local refused = guard.mismatch(budget.period_of(k.by_exec), "string")
  if refused then
    return nil, refused
  end
  local stale = budget.is_stale(k.by_exec, period)
  local tally
  tally, refused = add_up(deltas, function(names)
    local stored = fetch(k.by_exec, names, "")
    return stale and {} or stored
  end)
  if tally == nil then
    return nil, refused
  end
  tally.stale = stale
  return tally
end

-- Whether a ledger belongs to an earlier period than `period`.
function budget.is_stale(by_exec, period)
  local recorded = call("GET", budget.period_of(by_exec))
  return text.set(recorded) and budget.amount(recorded) ~= period
end

-- Drops a ledger; answers how many keys that were.
function budget.forget(by_exec)
  return call("DEL", by_exec, budget.period_of(by_exec))
end

-- Whether a report was applied before, nil and a refusal when its mark is something foreign.
local function applied(dedup_key, usage_key)
  if not text.set(dedup_key) then
    return false
  end
  local refused = guard.clash(dedup_key, "string")
    or guard.mismatch(budgets_of(dedup_key), "set")
  if refused then
    return nil, refused
  end
  return taken(dedup_key, usage_key)
end

-- Writes that a report was turned away by a hard limit, and answers it.
local function turn_away(k, def, dimension, before, limit, now_ms)
  record.write(k.def, {
    "breach_count", budget.amount(def.breach_count) + 1,
    "last_breach_at", now_ms, "last_breach_dim", dimension, "last_updated_at", now_ms,
  })
  return with_status("HARD_BREACH", dimension, before, limit)
end

-- Writes an accepted report: usage, the spender's ledger, its mark. A budget that nobody defined is
-- counted, but no definition is left behind for it.
local function accept(k, tally, ledger, period, spender, dedup_key, now_ms)
  local known = call("EXISTS", k.def, k.limits) > 0
  record.write(k.usage, amounts(tally))
  if ledger then
    budget.write_ledger(k, ledger, period, spender)
  end
  if known then
    record.write(k.def, { "last_updated_at", now_ms })
  end
  if text.set(dedup_key) then
    remember(dedup_key, k.usage)
  end
end

-- Checks a report against the limits and adds it: the whole of ff_report_usage_and_check, and with
-- `spender` of ff_record_spend.
function budget.report(k, deltas, now_ms, dedup_key, spender)
  local now, refused = number.require_whole(now_ms, "now_ms")
  if now == nil then return refused end
  now_ms = number.digits(now)
  local before
  before, refused = applied(dedup_key, k.usage)
  if refused then return refused end
  if before then return with_status("ALREADY_APPLIED") end
  local tally, breached, limit
  tally, refused = add_up(deltas, function(names) return fetch(k.usage, names, "") end)
  if tally == nil then return refused end
  breached, limit, refused =
    hard_breach(deltas, tally, fetch(k.limits, tally.names, "hard:"))
  if refused then return refused end
  local def = record.fields(k.def, "breach_count", "soft_breach_count", "reset_count")
  if breached then
    return turn_away(k, def, breached, tally.before[breached], limit, now_ms)
  end
  local soft, soft_limit
  soft, soft_limit, refused = soft_breach(tally, fetch(k.limits, tally.names, "soft:"))
  if refused then return refused end
  local period, ledger = budget.amount(def.reset_count), nil
  if text.set(spender) then
    ledger, refused = ledger_tally(k, deltas, period)
    if ledger == nil then return refused end
  end
  -- write; nothing below can fail
  accept(k, tally, ledger, period, spender, dedup_key, now_ms)
  if soft then
    record.write(k.def, { "soft_breach_count", budget.amount(def.soft_breach_count) + 1 })
    return with_status("SOFT_BREACH", soft, tally.after[soft], soft_limit)
  end
  return ok()
end

function budget.write_ledger(k, ledger, period, execution_id)
  if ledger.stale then
    budget.forget(k.by_exec)
  end
  if #ledger.names > 0 then
    record.write(k.by_exec, amounts(ledger))
    call("SET", budget.period_of(k.by_exec), number.digits(period))
  end
  call("SADD", k.by_exec_index, execution_id)
end

-- Whether some dimension has used up its hard limit. This is the one definition: admission stops
-- here, and a report that would go further is refused.
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
  else
    call("ZREM", k.resets, id)
  end
end
