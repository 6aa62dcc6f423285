-- Reporting usage: adds deltas up, checks them against the limits, and writes what is accepted.

-- How long a report is remembered by its dedup key.
local DEDUP_MS = "86400000"

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

-- The set of budgets that a dedup key was used for: the key does not contain a budget, and one
-- report may concern several.
local function budgets_of(dedup_key)
  return dedup_key .. "|budgets"
end

-- Whether this budget has already counted the report. A dedup key without such a set counts for all
-- budgets.
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

-- Whether a report was applied before; nil and a refusal if its dedup key is a key of another type.
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

-- The fields of a definition after a report that met a hard limit.
local function breach(def, dimension, now_ms)
  return {
    "breach_count", budget.amount(def.breach_count) + 1,
    "last_breach_at", now_ms, "last_breach_dim", dimension, "last_updated_at", now_ms,
  }
end

-- Writes that a report was rejected by a hard limit, and answers it.
local function reject(k, def, dimension, before, limit, now_ms)
  record.write(k.def, breach(def, dimension, now_ms))
  return with_status("HARD_BREACH", dimension, before, limit)
end

-- Writes an accepted report: usage, the ledger of the spender, the dedup key. For an undefined
-- budget usage is counted, but no definition is created.
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
-- `spender` of ff_record_spend. With `has_happened` no limit rejects it, not even an unreadable one
-- (ff_record_usage).
function budget.report(k, deltas, now_ms, dedup_key, spender, has_happened)
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
  if refused and not has_happened then return refused end
  local def = record.fields(k.def, "breach_count", "soft_breach_count", "reset_count")
  if breached and not has_happened then
    return reject(k, def, breached, tally.before[breached], limit, now_ms)
  end
  local soft, soft_limit
  soft, soft_limit, refused = soft_breach(tally, fetch(k.limits, tally.names, "soft:"))
  if refused and not has_happened then return refused end
  local period, ledger = budget.amount(def.reset_count), nil
  if text.set(spender) and text.set(k.by_exec) and text.set(k.by_exec_index) then
    ledger, refused = ledger_tally(k, deltas, period)
    if ledger == nil then return refused end
  end
  -- write; nothing below can fail
  accept(k, tally, ledger, period, spender, dedup_key, now_ms)
  if breached then
    record.write(k.def, breach(def, breached, now_ms))
    return with_status("HARD_BREACH", breached, tally.after[breached], limit)
  end
  if soft then
    record.write(k.def, { "soft_breach_count", budget.amount(def.soft_breach_count) + 1 })
    return with_status("SOFT_BREACH", soft, tally.after[soft], soft_limit)
  end
  return ok()
end

-- A report of one execution, with the arguments of ff_record_spend.
function budget.report_of_execution(k, pair_count, arguments, has_happened)
  local count, refused = budget.count(pair_count, "pair_count", arguments, 1, 2, 1)
  if count == nil then
    return refused
  end
  local deltas
  deltas, refused = budget.deltas(arguments, count, 2, 3, 2)
  if deltas == nil then
    return refused
  end
  return budget.report(k, deltas, arguments[2 * count + 2], arguments[2 * count + 3],
    arguments[2 * count + 4], has_happened)
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
