-- Taking a finished flow apart. Its members set shrinks as the work proceeds, so that a purge can
-- be cut into steps and go on where it stopped.

-- Everything that a flow leaves behind besides its members' own keys, and the types to check.
function flow.remains(tag, prefix, k)
  local plan = {
    prefix = prefix,
    members = k.members,
    summary = prefix .. ":summary",
    debts = lane.partition_index(tag, "pending_cancel_groups"),
    backlog = lane.partition_index(tag, "cancel_backlog"),
  }
  plan.checks = {
    { plan.summary, "hash" }, { plan.debts, "set" }, { plan.backlog, "zset" },
  }
  return plan
end

-- Removes the edges that lead to one member, `limit` at most, then what else the flow knows about
-- it. Answers how many records went, and whether any are left.
local function remove_member(plan, flow_id, id, limit)
  local incoming = plan.prefix .. ":in:" .. id
  local edges = {}
  if guard.mismatch(incoming, "set") then
    call("DEL", incoming)
  else
    edges = call("SPOP", incoming, number.digits(limit))
  end
  for _, edge_id in ipairs(edges) do
    call("DEL", plan.prefix .. ":edge:" .. edge_id)
  end
  if call("EXISTS", incoming) == 1 then
    return #edges, true
  end
  call("DEL", plan.prefix .. ":out:" .. id, plan.prefix .. ":edgegroup:" .. id)
  call("SREM", plan.debts, flow_id .. "|" .. id)
  call("SREM", plan.members, id)
  return #edges + 1, false
end

-- Removes up to `limit` members and edges. Answers how many, and whether any are left.
function flow.take_apart(plan, flow_id, limit)
  local removed = 0
  while removed < limit do
    local id = call("SRANDMEMBER", plan.members)
    if not id then
      return removed, false
    end
    local gone, left = remove_member(plan, flow_id, id, limit - removed)
    removed = removed + gone
    if left then
      return removed, true
    end
  end
  return removed, call("EXISTS", plan.members) == 1
end

-- Removes the flow itself: first whatever leads to it, its record last.
function flow.forget(plan, k, flow_id)
  local prefix = plan.prefix
  call("SREM", k.flow_index, flow_id)
  call("ZREM", plan.backlog, flow_id)
  call("DEL", k.members, prefix .. ":pending_cancels", prefix .. ":tags", plan.summary,
    prefix .. ":unsealed", prefix .. ":submission", k.flow_core)
end
