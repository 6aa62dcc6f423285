-- Adds usage that has happened to a budget, whatever its limits say, and records in a ledger what
-- this execution spent. A limit that is passed is told, and counted as a breach. An added function:
-- the contract's reports reject what would pass a hard limit, so that it would go uncounted.
-- Keys: usage (hash), limits (hash), def (hash), by_exec (hash, the execution's ledger; unset for
--   no ledger), by_exec_index (set of executions with a ledger; unset likewise)
-- Arguments: pair_count, then dimension and delta in turn, now_ms, dedup_key (a full key,
--   optional), execution_id (optional: none, no ledger)
-- Replies: OK, ALREADY_APPLIED, SOFT_BREACH, HARD_BREACH
-- Errors: invalid_input
-- Bound: 24 + 2 * n
-- Keeps: LedgerAdds, RepeatIsHarmless, ErrorMeansUntouched
define("ff_record_usage",
  { "usage!=hash", "limits!=hash", "def!=hash", "by_exec:hash", "by_exec_index:set" },
  { "pair_count" },
  function(k, a, _, arguments)
    return budget.report_of_execution(k, a.pair_count, arguments, true)
  end)
