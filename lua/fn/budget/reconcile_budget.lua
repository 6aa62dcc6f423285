-- Sets or clears the breach mark (`breached_at` in the usage record) so that it agrees with usage
-- and limits, in one step. Only budgets that never reset carry the mark. An index entry without a
-- budget is removed. Also answers a page of the executions that have a ledger, so that the engine
-- can delete the ledgers of those that no longer exist (ff_forget_ledger). An added function: a
-- scan that reads first and writes later would act on outdated usage.
-- Keys: def (hash), limits (hash), usage (hash), policies (set of budget ids),
--   by_exec_index (set of executions with a ledger; unset for no page)
-- Arguments: budget_id, cursor (of the ledgers, first "0"), count (of ledgers, 1 to 1000)
-- Replies: marked, unmarked, unchanged, unknown_cleaned
-- Errors: invalid_input
-- Bound: 7
-- Keeps: LedgerAdds, QuietAtRest, BoundedWork

-- The next cursor and the executions of this page, or nil and a refusal.
local function page_of(index, a)
  local count, refused = number.optional(a.count, "count", 100)
  if count == nil then
    return nil, refused
  end
  local cursor = text.either(a.cursor, "0")
  if not text.is_cursor(cursor) then
    return nil, err("invalid_input", "cursor must be a number, got: " .. cursor)
  end
  if not text.set(index) then
    return { "0", {} }
  end
  return call("SSCAN", index, cursor, "COUNT", number.digits(math.max(1, math.min(count, 1000))))
end

-- Sets or clears the breach mark, and answers what it did.
local function mark(k, breached, usage)
  if breached and not text.set(usage.breached_at) then
    call("HSET", k.usage, "breached_at", number.digits(number.now()))
    return "marked"
  end
  if not breached and usage.breached_at then
    call("HDEL", k.usage, "breached_at")
    return "unmarked"
  end
  return "unchanged"
end

define("ff_reconcile_budget",
  { "def!=hash", "limits!=hash", "usage!=hash", "policies!:set", "by_exec_index=set" },
  { "budget_id!", "cursor", "count" },
  function(k, a)
    local page, refused = page_of(k.by_exec_index, a)
    if not page then return refused end
    local def = record.read(k.def)
    local limits, usage = record.read(k.limits) or {}, record.read(k.usage) or {}
    local breached = budget.interval(def) == 0 and budget.exhausted(limits, usage)
    -- write; nothing below can fail
    if def == nil then
      call("SREM", k.policies, a.budget_id)
      return text.append(ok("unknown_cleaned", page[1]), page[2])
    end
    return text.append(ok(mark(k, breached, usage), page[1]), page[2])
  end)
