-- Makes what surrounds the record of an execution agree with the records that are left: the sets,
-- counters and group of its edges, and the list of its attempts. Everything is decided inside the
-- call, so that it may run beside engines and workers. Answers what it changed and what is lost:
-- `edge:ID` (an edge that no record describes), `policy` (which of its edges suffice), `attempt:N`
-- (the record of an attempt; one that says only how it ended is put in its place). An added
-- function.
-- Keys: exec_core (hash), strays (any number of indexes that list it: it is removed from those that
--   its record does not name)
-- Arguments: execution_id, accept (1: edges that are lost hold it no longer), attempts (how many
--   numbers of attempts follow), found (those numbers, then ids of edges: those whose records the
--   caller has found)
-- Replies: unchanged, repaired
-- Errors: invalid_input
-- Bound: 48 + 12 * n
-- Keeps: GroupCounts, AttemptsHonest, PendingCancelsIndexed

local function split(args)
  local attempts, edges = {}, {}
  local count = number.whole(args[3]) or 0
  for i = 4, #args do
    local list = i - 3 <= count and attempts or edges
    list[#list + 1] = text.either(args[i], nil)
  end
  return attempts, edges
end

-- Removes the execution from the indexes of its partition that its record does not name.
local function remove_strays(k, core, keys, id, report)
  local own, front = {}, lane.partition_index(text.tag(k.exec_core), "")
  local named = core and record.indexes(k.exec_core, core) or { exec_core = k.exec_core }
  if core then
    lane.point(named, core, lane.ALL)
  end
  for _, key in pairs(named) do
    own[key] = true
  end
  for i = 2, #keys do
    local key = keys[i]
    local is_index = not own[key] and key:sub(1, #front) == front
    if is_index and (guard.reply("ZREM", key, id) == 1 or guard.reply("SREM", key, id) == 1) then
      report.changes[#report.changes + 1] = "-" .. key
    end
  end
end

local function answer(report)
  local word = #report.changes + #report.lost > 0 and "repaired" or "unchanged"
  return text.append(ok(word, #report.lost), report.lost, report.changes)
end

define("ff_repair_execution",
  { "exec_core!=hash", "strays" },
  { "execution_id!", "accept", "attempts", "found" },
  function(k, a, keys, args)
    local refused = record.misnamed(k.exec_core, a.execution_id)
    if refused then return refused end
    local core, report = record.read(k.exec_core), { changes = {}, lost = {} }
    if not core then
      -- write; nothing below can fail
      remove_strays(k, nil, keys, a.execution_id, report)
      return answer(report)
    end
    if text.set(core.purging_since) then
      return ok("unchanged", 0)
    end
    core.execution_id = a.execution_id
    local front, tag = k.exec_core:sub(1, -6), text.tag(k.exec_core)
    local attempts, edges = split(args)
    local plan, dependencies
    plan, refused = repair.plan_attempts(front, tag, core, attempts)
    if not plan then return refused end
    dependencies, refused =
      repair.plan_dependencies(k, core, front, tag, edges, text.set(a.accept))
    if not dependencies then return refused end
    -- write; nothing below can fail
    repair.write_attempts(plan, k, report)
    repair.write_dependencies(dependencies, number.digits(number.now()), report)
    remove_strays(k, core, keys, a.execution_id, report)
    return answer(report)
  end)
