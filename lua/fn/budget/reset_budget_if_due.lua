-- Starts a new period of a budget whose scheduled reset is due by the server's clock. The next
-- reset is a multiple of the interval after the scheduled time, so it does not drift; missed
-- periods collapse into one. An added function: ff_reset_budget does not check whether a reset is
-- due.
-- Keys: def (hash), usage (hash), resets (zset of budget ids by next reset)
-- Arguments: budget_id
-- Replies: reset, not_yet_due, not_scheduled, unknown_cleaned, not_recurring_cleaned
-- Errors: invalid_input
-- Bound: 9 + 1 * n
-- Keeps: NotBeforeDue, LedgerAdds, RepeatIsHarmless
define("ff_reset_budget_if_due",
  { "def!=hash", "usage!=hash", "resets!=zset" },
  { "budget_id!" },
  function(k, a)
    local due = tonumber(call("ZSCORE", k.resets, a.budget_id))
    if due == nil then
      return ok("not_scheduled")
    end
    local now = number.now()
    if due > now then
      return ok("not_yet_due", math.ceil(math.min(due, number.MAX)))
    end
    local def, dimensions = record.read(k.def), call("HKEYS", k.usage)
    local interval = budget.interval(def)
    -- write; nothing below can fail
    if interval == 0 then
      call("ZREM", k.resets, a.budget_id)
      return ok(def and "not_recurring_cleaned" or "unknown_cleaned")
    end
    local base = math.max(due, 0)
    local next_reset_at = math.floor(base + (math.floor((now - base) / interval) + 1) * interval)
    next_reset_at = math.min(next_reset_at, number.MAX)
    budget.start_period(k, a.budget_id, def, dimensions, now, next_reset_at)
    return ok("reset", next_reset_at)
  end)
