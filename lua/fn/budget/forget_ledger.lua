-- Deletes the ledger of an execution that no longer exists. Its usage stays counted. An added
-- function: the execution's record is in another slot, so the engine checks there first.
-- Keys: by_exec (hash, the execution's ledger), by_exec_index (set of executions with a ledger)
-- Arguments: execution_id
-- Replies: forgotten, nothing
-- Errors: invalid_input
-- Bound: 3
-- Keeps: LedgerAdds, NoOrphans, RepeatIsHarmless
define("ff_forget_ledger",
  { "by_exec!=hash", "by_exec_index!:set" },
  { "execution_id!" },
  function(k, a)
    -- write; nothing below can fail
    local listed = call("SREM", k.by_exec_index, a.execution_id)
    return ok(listed + budget.forget(k.by_exec) > 0 and "forgotten" or "nothing")
  end)
