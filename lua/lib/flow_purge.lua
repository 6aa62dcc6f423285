-- Taking a finished flow apart. Its members set shrinks as the work proceeds, so that a purge can
-- be cut into steps and go on where it stopped.

-- A group may be declared for a child that is no member of the flow. It is noted in the summary, in
-- fields that start so, for a purge finds all others through the members.
local STRANGER = "group:"

-- Where the group at `group_key` has to be noted: the key and the field, nil when its child is a
-- member; or nil and the refusal of a foreign key.
function flow.note_of_group(core_key, group_key)
  local prefix = flow.prefix_of(core_key)
  local child = group_key:sub(1, #prefix) == prefix and select(2, flow.parts_of_group(group_key))
  local members, summary = prefix .. ":members", prefix .. ":summary"
  local refused = guard.any_mismatch({ { members, "set" }, { summary, "hash" } })
  if refused or not child or call("SISMEMBER", members, child) == 1 then
    return nil, refused
  end
  return { key = summary, field = STRANGER .. child }
end

-- Removes the groups of children that were no members, `limit` at most. Answers how many, and
-- whether any are left.
local function remove_strangers(plan, flow_id, limit)
  local removed = 0
  for _, field in ipairs(call("HKEYS", plan.summary)) do
    local child = field:sub(1, #STRANGER) == STRANGER and field:sub(#STRANGER + 1)
    if child and removed == limit then
      return removed, true
    elseif child then
      call("DEL", plan.prefix .. ":edgegroup:" .. child)
      call("SREM", plan.debts, flow_id .. "|" .. child)
      call("HDEL", plan.summary, field)
      removed = removed + 1
    end
  end
  return removed, false
end

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

-- Removes up to `limit` members, edges and groups. Answers how many, and whether any are left.
function flow.take_apart(plan, flow_id, limit)
  local removed, more = remove_strangers(plan, flow_id, limit)
  if more then
    return removed, true
  end
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
