-- Starts a new period of a budget, whether or not a reset is due: sets usage to zero and schedules
-- the next reset. The checked form is ff_reset_budget_if_due.
-- Keys: def (hash), usage (hash), resets (zset of budget ids by next reset)
-- Arguments: budget_id, now_ms
-- Replies: OK
-- Errors: invalid_input
-- Bound: 8 + 1 * n
-- Keeps: LedgerAdds, ErrorMeansUntouched
define("ff_reset_budget",
  { "def!=hash", "usage!=hash", "resets!:zset" },
  { "budget_id!", "now_ms" },
  function(k, a)
    local now, refused = number.clock(a)
    if now == nil then
      return refused
    end
    local def = record.read(k.def)
    local interval = budget.interval(def)
    local next_reset_at = interval > 0 and math.min(now + interval, number.MAX) or 0
    local dimensions = call("HKEYS", k.usage)
    -- write; nothing below can fail
    budget.start_period(k, a.budget_id, def, dimensions, a.now_ms, next_reset_at)
    return ok(next_reset_at)
  end)
