-- Deletes a terminal execution after its retention time, with all its keys, in bounded steps:
-- answers `partial` until nothing is left. Once a step has deleted something, the execution cannot
-- be replayed. It is kept (`needed`) while children still wait for its outcome. Its flow counts how
-- it ended and is put back into the flow index, because the projector purges a flow after its last
-- member. If the time of the end is unknown, it is set to now. An added function.
-- Keys: exec_core (hash), terminal (zset: where it was found)
-- Arguments: execution_id, retention_ms (a day unless given; the policy's own comes first),
--   limit (records, or children asked, per step: 100 unless given, 1000 at most),
--   keep (if given, an execution after whose end at least so many others of the index ended is due
--   whatever its retention says)
-- Replies: purged, partial, not_due, needed, not_found_cleaned
-- Errors: invalid_input, execution_not_terminal
-- Bound: 67 + 10 * n
-- Keeps: NoOrphans, NotBeforeDue, BoundedWork
define("ff_purge_execution",
  { "exec_core!=hash", "terminal!:zset" },
  { "execution_id!", "retention_ms", "limit", "keep" },
  function(k, a)
    local numbers, refused = purge.numbers(a)
    if not numbers then return refused end
    return (purge.step(k.exec_core, k.terminal, a.execution_id, numbers, numbers.limit))
  end)
