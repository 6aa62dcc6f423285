-- Adds usage to a budget, unless a dimension would exceed its hard limit: then nothing is added.
-- Keys: usage (hash), limits (hash), def (hash)
-- Arguments: dim_count, then all dimensions, all deltas, now_ms, dedup_key (a full key, optional)
-- Replies: OK, ALREADY_APPLIED, SOFT_BREACH, HARD_BREACH
-- Errors: invalid_input
-- Bound: 17 + 1 * n
-- Keeps: LedgerAdds, RepeatIsHarmless, ErrorMeansUntouched
define("ff_report_usage_and_check",
  { "usage!=hash", "limits!=hash", "def!=hash" },
  { "dim_count" },
  function(k, a, _, arguments)
    local count, refused = budget.count(a.dim_count, "dim_count", arguments, 1, 2, 1)
    if count == nil then
      return refused
    end
    local deltas
    deltas, refused = budget.deltas(arguments, count, 2, 2 + count, 1)
    if deltas == nil then
      return refused
    end
    return budget.report(k, deltas, arguments[2 * count + 2], arguments[2 * count + 3])
  end)
