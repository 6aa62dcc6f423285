-- Reads a page of a partition's executions and answers those whose index entries look wrong: an
-- entry is missing, misplaced or surplus, the record is missing or does not say where it belongs,
-- or the execution is suspended and has open edges. `ff_repair_index` decides about each of them.
-- An added function: most executions are as they should be, and cost one command.
--
-- Of an execution that ended before `ended_before` only the other indexes of its lane are looked
-- at: an earlier audit has read its record. Such executions are looked for in the given lanes; in
-- any other lane their records are read again. The reply is the time, the size of the set, the next
-- cursor, how many commands this took, and the executions.
-- Keys: all_executions (set)
-- Arguments: cursor, limit (at most 1000), ended_before (0: every record is read), then lanes
-- Replies: OK
-- Errors: invalid_input
-- Bound: 20 + 16 * n
-- Keeps: OneHome, NoOrphans
local LIMIT_MAX = 1000

define("ff_audit_executions",
  { "all_executions!:set" },
  { "cursor!", "limit!", "ended_before!" },
  function(k, a, _, args)
    local limit, before = number.whole(a.limit), number.whole(a.ended_before)
    if not text.is_cursor(a.cursor) or not limit or limit < 1 or not before then
      return err("invalid_input", "cursor, limit and ended_before must be whole numbers")
    end
    local scanned = call("SSCAN", k.all_executions, a.cursor,
      "COUNT", number.digits(math.min(limit, LIMIT_MAX)))
    local lanes = {}
    for i = 4, #args do
      lanes[#lanes + 1] = args[i]
    end
    local wrong, commands =
      lane.audit(text.tag(k.all_executions), scanned[2], lanes, before)
    -- The checked type, the page and the size are commands too.
    local told = { number.now(), call("SCARD", k.all_executions), scanned[1], commands + 3 }
    return with_list("OK", text.append(told, wrong))
  end,
  { reads_only = true, derives_keys = true })
