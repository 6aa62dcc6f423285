-- Gives back what one execution spent in the current period, and drops its ledger.
-- Keys: usage (hash), by_exec (hash, the execution's ledger), by_exec_index (set of executions)
-- Arguments: budget_id (not used), execution_id
-- Replies: released, noop
-- Errors: invalid_input
-- Bound: 12 + 2 * n
-- Keeps: LedgerAdds, RepeatIsHarmless, ErrorMeansUntouched
define("ff_release_budget",
  { "usage!:hash", "by_exec!=hash", "by_exec_index!:set" },
  { "budget_id", "execution_id!" },
  function(k, a)
    local def = k.usage:match("^(.*):usage$") or ""
    local refused = guard.any_mismatch({
      { def, "hash" }, { budget.period_of(k.by_exec), "string" },
    })
    if refused then
      return refused
    end
    local ledger = record.read(k.by_exec)
    if ledger == nil then
      return ok("noop")
    end
    local period = def ~= "" and budget.amount(call("HGET", def, "reset_count")) or 0
    local usage = record.read(k.usage) or {}
    local names, back = {}, {}
    for name, spent in pairs(ledger) do
      if budget.amount(spent) > 0 then
        names[#names + 1] = name
      end
    end
    table.sort(names)
    for _, name in ipairs(budget.is_stale(k.by_exec, period) and {} or names) do
      local left = budget.amount(usage[name]) - budget.amount(ledger[name])
      text.append(back, { name, math.max(0, left) })
    end
    -- write; nothing below can fail
    record.write(k.usage, back)
    budget.forget(k.by_exec)
    call("SREM", k.by_exec_index, a.execution_id)
    return ok("released")
  end)
