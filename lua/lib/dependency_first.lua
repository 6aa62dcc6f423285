-- The usual end of an edge, spelled out: a success, for a child that waits for all of its edges,
-- never ran and is neither delayed nor paused. It decides and writes the same as
-- dependency.resolve, at half of the cost, and leaves everything unusual to it.

-- The reply of a command, empty for a key of another type. Any other failure is raised.
local NOTHING = {}
local function reply_of(reply)
  if reply.err then
    guard.refusal(reply)
    return NOTHING
  end
  return reply
end

-- Whether the call has used none of these keys so far.
local function is_fresh(core, meta, unresolved, dep, group)
  return not (known_keys[core] or known_keys[meta] or known_keys[unresolved] or known_keys[dep]
    or known_keys[group])
end

-- The indexes of the lane of a child, nil if one of them holds another type.
local function own_lane(all, lane_id)
  local own = all.lanes[lane_id]
  if own == nil then
    own = dependency.lanes(all.tag, lane_id)
    if guard.mismatch(own.eligible, "zset") or guard.mismatch(own.terminal, "zset")
      or guard.mismatch(own.blocked, "zset") then
      own = false
    end
    all.lanes[lane_id] = own
  end
  return own
end

-- Where a child goes whose last edge is met: the indexes of its lane, and its score. Nil if it is
-- not a usual one.
local function release(all, child, core_key)
  local v = reply_of(try("HMGET",
    core_key, "lifecycle_phase", "ownership_state", "eligibility_state", "terminal_outcome",
    "created_at", "attempt_state", "execution_id", "lane_id", "priority", "delay_until", "held_as",
    "unsealed"))
  local lane_id = v[8] or ""
  if v[1] ~= "runnable" or v[2] ~= "unowned" or v[3] ~= "blocked_by_dependencies"
    or v[4] ~= "none" or v[6] ~= "pending_first_attempt" or v[7] ~= child or lane_id == ""
    or (v[11] or "") ~= "" or (v[12] or "") ~= "" then
    return nil
  end
  local delay_until = v[10] or ""
  local own = (delay_until == "" or delay_until == "0") and own_lane(all, lane_id)
  if not own then return nil end
  return own, lane.score_of(number.floor(v[5], 0), lane.clamp_priority(number.either(v[9], 0)))
end

-- Resolves one staged edge of `all` (see dependency.outgoing) to `child` in the usual way. Answers
-- whether it did, and whether the child is eligible now.
function dependency.resolve_first(all, edge_id, child)
  local front = "ff:exec:" .. all.tag .. ":" .. child
  local core, meta, unresolved, dep, group =
    front .. ":core", front .. ":deps:meta", front .. ":deps:unresolved",
    front .. ":dep:" .. edge_id, all.flow_front .. ":edgegroup:" .. child
  if not is_fresh(core, meta, unresolved, dep, group) then return false end
  local edge = reply_of(try("HMGET", dep, "state", "data_passing_ref"))
  if edge[1] ~= "unsatisfied" or (edge[2] or "") ~= "" then return false end
  local counted = reply_of(try("HMGET", group, "policy_variant", "group_state", "succeeded"))
  if counted[1] ~= "all_of" or counted[2] ~= edge_group.PENDING then return false end
  local open = number.whole(reply_of(try("HMGET", meta, "unsatisfied_required_count"))[1])
  if not open then return false end
  local own, score
  if open == 1 then
    own, score = release(all, child, core)
    if not own then return false end
  end
  -- The first write checks the type of its key itself; the others have been read.
  if guard.refusal(try("SREM", unresolved, edge_id)) then return false end
  -- write; nothing below can fail
  call("HSET", dep, "state", "satisfied", "last_resolved_at", all.now)
  call("HSET", meta, "unsatisfied_required_count", number.digits(open - 1),
    "last_dependency_update_at", all.now)
  call("HSET", group, "succeeded", number.digits(number.floor(counted[3], 0) + 1),
    "group_state", own and "satisfied" or edge_group.PENDING)
  edge_group.child_changed(child)
  if own then
    state.write(core, state.eligible("pending_first_attempt"),
      "last_transition_at", all.now, "last_mutation_at", all.now)
    lane.collect(all.moves, child, own.blocked, own.eligible, score)
  end
  return true, own ~= nil
end
