-- Brings the mark of a breach (`breached_at` in the usage record) in step with usage and limits, in
-- one step. Only budgets that never reset carry it; an index entry without a budget goes. An added
-- function: a scan that reads first and writes later marks what has changed in between.
-- Keys: def (hash), limits (hash), usage (hash), policies (set of budget ids)
-- Arguments: budget_id
-- Replies: marked, unmarked, unchanged, unknown_cleaned
-- Errors: invalid_input
-- Bound: 6
-- Keeps: LedgerAdds, QuietAtRest
define("ff_reconcile_budget",
  { "def!=hash", "limits!=hash", "usage!=hash", "policies!:set" },
  { "budget_id!" },
  function(k, a)
    local def = record.read(k.def)
    local limits, usage = record.read(k.limits) or {}, record.read(k.usage) or {}
    local breached = budget.interval(def) == 0 and budget.exhausted(limits, usage)
    -- write; nothing below can fail
    if def == nil then
      call("SREM", k.policies, a.budget_id)
      return ok("unknown_cleaned")
    end
    if breached and not text.set(usage.breached_at) then
      call("HSET", k.usage, "breached_at", number.digits(number.now()))
      return ok("marked")
    end
    if not breached and usage.breached_at then
      call("HDEL", k.usage, "breached_at")
      return ok("unmarked")
    end
    return ok("unchanged")
  end)
