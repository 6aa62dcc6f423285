-- Adds usage to a budget as ff_report_usage_and_check does, and records what this execution spent
-- in a ledger, so that it can be given back.
-- Keys: usage (hash), limits (hash), def (hash), by_exec (hash, the execution's ledger),
--   by_exec_index (set of executions with a ledger)
-- Arguments: pair_count, then dimension and delta in turn, now_ms, dedup_key (a full key,
--   optional), execution_id (optional: none, no ledger)
-- Replies: OK, ALREADY_APPLIED, SOFT_BREACH, HARD_BREACH
-- Errors: invalid_input
-- Bound: 24 + 2 * n
-- Keeps: LedgerAdds, RepeatIsHarmless, ErrorMeansUntouched
define("ff_record_spend",
  { "usage!=hash", "limits!=hash", "def!=hash", "by_exec!:hash", "by_exec_index!:set" },
  { "pair_count" },
  function(k, a, _, arguments)
    return budget.report_of_execution(k, a.pair_count, arguments)
  end)
