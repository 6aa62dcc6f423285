-- Purging a finished flow. Its members set shrinks with every step, so that a purge can be divided
-- into steps and continue where it stopped.

-- A group may be declared for a child that is not a member of the flow. It is recorded in the
-- summary, in fields with this prefix, since a purge finds all other groups through the members.
local NON_MEMBER = "group:"

-- Where the group at `group_key` has to be recorded: the key and the field, nil if its child is a
-- member; or nil and the refusal of a key of another type.
function flow.note_of_group(core_key, group_key)
  local prefix = flow.prefix_of(core_key)
  local child = group_key:sub(1, #prefix) == prefix and select(2, flow.parts_of_group(group_key))
  local members, summary = prefix .. ":members", prefix .. ":summary"
  local refused = guard.any_mismatch({ { members, "set" }, { summary, "hash" } })
  if refused or not child or call("SISMEMBER", members, child) == 1 then
    return nil, refused
  end
  return { key = summary, field = NON_MEMBER .. child }
end

-- Removes the groups of children that are not members, at most `limit`. Answers how many, and
-- whether any are left.
local function remove_non_member_groups(plan, flow_id, limit)
  local removed = 0
  for _, field in ipairs(call("HKEYS", plan.summary)) do
    local child = field:sub(1, #NON_MEMBER) == NON_MEMBER and field:sub(#NON_MEMBER + 1)
    if child and removed == limit then
      return removed, true
    elseif child then
      call("DEL", plan.prefix .. ":edgegroup:" .. child)
      call("SREM", plan.pending_groups, flow_id .. "|" .. child)
      call("HDEL", plan.summary, field)
      removed = removed + 1
    end
  end
  return removed, false
end

-- What a flow leaves behind besides the keys of its members, and the types to check.
function flow.purge_plan(tag, prefix, k)
  local plan = {
    prefix = prefix,
    members = k.members,
    summary = prefix .. ":summary",
    pending_groups = lane.partition_index(tag, "pending_cancel_groups"),
    backlog = lane.partition_index(tag, "cancel_backlog"),
  }
  plan.checks = {
    { plan.summary, "hash" }, { plan.pending_groups, "set" }, { plan.backlog, "zset" },
  }
  return plan
end

-- Removes the edges that lead to one member, at most `limit`, then the rest of what the flow stores
-- about it. Answers how many records were removed, and whether any are left.
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
  call("SREM", plan.pending_groups, flow_id .. "|" .. id)
  call("SREM", plan.members, id)
  return #edges + 1, false
end

-- Removes up to `limit` members, edges and groups. Answers how many, and whether any are left.
function flow.purge_members(plan, flow_id, limit)
  local removed, more = remove_non_member_groups(plan, flow_id, limit)
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

-- Removes the flow itself: first the index entries that lead to it, its record last.
function flow.purge_rest(plan, k, flow_id)
  local prefix = plan.prefix
  call("SREM", k.flow_index, flow_id)
  call("ZREM", plan.backlog, flow_id)
  call("DEL", k.members, prefix .. ":pending_cancels", prefix .. ":tags", plan.summary,
    prefix .. ":unsealed", prefix .. ":submission", k.flow_core)
end
