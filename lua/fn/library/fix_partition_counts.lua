-- Stores the numbers of partitions of a deployment, once; later calls only compare. Answers the
-- stored numbers. An added function: a separate read and write could mix the numbers of two
-- deployments that start at the same time.
-- Keys: counts (hash: num_flow_partitions, num_budget_partitions, num_quota_partitions)
-- Arguments: flow, budget, quota
-- Replies: fixed, same, different
-- Errors: invalid_input
-- Bound: 3
local FIELDS = { "num_flow_partitions", "num_budget_partitions", "num_quota_partitions" }

define("ff_fix_partition_counts", { "counts!:hash" }, { "flow!", "budget!", "quota!" },
  function(k, a)
    local wanted = {}
    for i, name in ipairs({ "flow", "budget", "quota" }) do
      local count = number.whole(a[name])
      if not count or count < 1 or count > 65535 then
        return err("invalid_input", name .. " must be a whole number from 1 to 65535")
      end
      wanted[i] = number.digits(count)
    end
    local stored = call("HMGET", k.counts, unpack(FIELDS))
    local fresh, verdict = {}, "same"
    for i = 1, #FIELDS do
      if not stored[i] then
        fresh[#fresh + 1] = FIELDS[i]
        fresh[#fresh + 1] = wanted[i]
      elseif stored[i] ~= wanted[i] then
        verdict = "different"
      end
    end
    if verdict == "different" then
      return ok(verdict, stored[1] or "", stored[2] or "", stored[3] or "")
    end
    -- write; nothing below can fail
    if #fresh > 0 then
      call("HSET", k.counts, unpack(fresh))
      verdict = "fixed"
    end
    return ok(verdict, unpack(wanted))
  end)
