-- Purges many ended executions of one index, each as ff_purge_execution does, until one of them has
-- more records than one step deletes or `limit` records are deleted. An added function.
--
-- The reply lists, in the order of the ids, what ff_purge_execution replies; the text of an error
-- in an array of its own stands for a key of another type. Executions for which there was no room
-- left have no element.
-- Keys: terminal (zset: where they were found)
-- Arguments: retention_ms, limit (records in all: 1000 unless given and at most), keep, then
--   execution ids, at most 256
-- Replies: OK
-- Errors: invalid_input
-- Bound: 10002 + 77 * n
-- Keeps: NoOrphans, NotBeforeDue, BoundedWork
local IDS_MAX = 256
local RECORDS_PER_EXECUTION = 100

define("ff_purge_executions",
  { "terminal!:zset" },
  { "retention_ms!", "limit!", "keep!" },
  function(k, a, _, arg_list)
    local numbers, refused = purge.numbers(
      { retention_ms = a.retention_ms, limit = text.either(a.limit, 1000), keep = a.keep })
    if not numbers then return refused end
    if #arg_list - 3 > IDS_MAX then
      return err("invalid_input", "at most " .. IDS_MAX .. " executions at a time")
    end
    local tag, reply, left = text.tag(k.terminal), { 1, "OK" }, numbers.limit
    for i = 4, #arg_list do
      if left < 1 then break end
      local id = arg_list[i]
      -- Each is read, decided and written on its own: the marker stands in purge.step.
      local answer, worked = purge.step("ff:exec:" .. tag .. ":" .. id .. ":core", k.terminal, id,
        numbers, math.min(left, RECORDS_PER_EXECUTION))
      reply[#reply + 1] = answer.err and { answer.err } or answer
      left = left - worked
    end
    return reply
  end)
