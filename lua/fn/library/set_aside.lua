-- Removes an index entry that cannot be processed and stores it with the reason for an operator. An
-- added function: dropping such an entry would lose the only trace of it.
-- Keys: index (sorted set or set), aside (hash: index and member to reason)
-- Arguments: member, reason
-- Replies: set_aside, already_gone, kept
-- Errors: invalid_input
-- Bound: 8
-- Keeps: UnreadableSetAside
local KEPT_MAX = 10000

define("ff_set_aside", { "index", "aside:hash" }, { "member", "reason" }, function(k, a)
  if not text.set(k.index) or not text.set(k.aside) or a.member == nil then
    return err("invalid_input", "index, aside and member are needed")
  end
  local kind = call("TYPE", k.index).ok
  local removal = ({ zset = "ZREM", set = "SREM" })[kind]
  if not removal then
    return ok("already_gone")
  end
  -- Beyond the limit entries stay in the index: losing them would be worse than a full index.
  local field = k.index .. " " .. a.member
  if call("HLEN", k.aside) >= KEPT_MAX and call("HEXISTS", k.aside, field) == 0 then
    return ok("kept")
  end
  -- write; nothing below can fail
  if call(removal, k.index, a.member) == 0 then
    return ok("already_gone")
  end
  call("HSET", k.aside, field, text.present(a.reason, ""))
  return ok("set_aside")
end)
