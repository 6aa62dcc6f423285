-- Purging an execution. Its records are found through its own lists, which shrink with every step,
-- so that a purge can be divided into steps and continue where it stopped.

-- The id of a closed waitpoint may have been used again by another execution, and a signal id may
-- belong to another execution: then its keys are not ours.
local function waitpoint_keys(tag, id, waitpoint_id)
  local keys = { waitpoint.keys(tag, waitpoint_id) }
  return text.either(record.peek(keys[1], "execution_id"), id) == id and keys or {}
end

local function signal_keys(tag, id, signal_id)
  local key = "ff:signal:" .. tag .. ":" .. signal_id
  local ours = text.either(record.peek(key, "target_execution_id"), id) == id
  return ours and { key, key .. ":payload" } or {}
end

local function dependency_keys(tag, id, edge_id)
  return { "ff:exec:" .. tag .. ":" .. id .. ":dep:" .. edge_id }
end

local function attempt_keys(tag, id, index)
  local key = attempt.key(tag, id, index)
  local output = "ff:stream:" .. tag .. ":" .. id .. ":" .. index
  return { key, key .. ":usage", key .. ":policy", key .. ":summary", output, output .. ":meta" }
end

-- The lists of an execution: the key, its type, the keys of a member, and the index of the
-- partition that may list the member too.
local LISTS = {
  { name = "waitpoints", kind = "set", keys_of = waitpoint_keys,
    index = "pending_waitpoint_expiry" },
  { name = "signals", kind = "zset", keys_of = signal_keys },
  { name = "deps_all_edges", kind = "set", keys_of = dependency_keys },
  { name = "attempts", kind = "zset", keys_of = attempt_keys },
}

-- The refusal of a value of another type under one of the lists, else nil.
function purge.type_refusal(k)
  local tag, noted = text.tag(k.exec_core), guard.mismatch(k.deps_awaited, "hash")
  if noted then
    return noted
  end
  for _, list in ipairs(LISTS) do
    local refused = guard.mismatch(k[list.name], list.kind)
      or (list.index and guard.mismatch(lane.partition_index(tag, list.index), "zset"))
    if refused then
      return refused
    end
  end
  return nil
end

local function members(key, kind, count)
  if kind == "zset" then
    return call("ZRANGE", key, 0, count - 1)
  end
  return call("SRANDMEMBER", key, number.digits(count))
end

-- Removes up to `limit` records that the lists name. Answers how many, and whether any are left.
function purge.records(k, id, limit)
  local tag, removed = text.tag(k.exec_core), 0
  for _, list in ipairs(LISTS) do
    local key = k[list.name]
    for _, member in ipairs(members(key, list.kind, limit - removed + 1)) do
      if removed == limit then
        return removed, true
      end
      local keys = list.keys_of(tag, id, member)
      call(list.kind == "zset" and "ZREM" or "SREM", key, member)
      if #keys > 0 then
        call("DEL", unpack(keys))
      end
      if #keys > 0 and list.index then
        call("ZREM", lane.partition_index(tag, list.index), member)
      end
      removed = removed + 1
    end
  end
  return removed, false
end

-- What has to be updated in the flow of a purged execution: { summary, index, flow_id, group }, nil
-- if it has none; or nil and the refusal of a value of another type.
function purge.flow_update(tag, id, core)
  local prefix = text.set(core.flow_id) and flow.prefix(tag, core.flow_id)
  if not prefix or call("EXISTS", prefix .. ":core") == 0 then
    return nil
  end
  local note = {
    summary = prefix .. ":summary", index = lane.partition_index(tag, "flow_index"),
    flow_id = core.flow_id, group = prefix .. ":edgegroup:" .. id,
  }
  local refused = guard.any_mismatch({
    { note.summary, "hash" }, { note.index, "set" }, { note.group, "hash" },
  })
  if refused then
    return nil, refused
  end
  return note
end

-- Counts in the flow how its member ended, and puts the flow back into the index, since it is
-- purged after its last member. The member's group counts edges that are deleted now; it is kept
-- only while its siblings still have to be cancelled.
function purge.update_flow(note, public_state)
  if record.peek(note.group, "cancel_siblings_pending_flag") ~= "true" then
    call("DEL", note.group)
  end
  projection.count_purged(note.summary, public_state)
  projection.forget(note.summary)
  call("SADD", note.index, note.flow_id)
end

-- Removes the rest of an execution: its own keys, the core last, and its index entries.
function purge.remove_rest(k, id, core, stale_keys)
  if text.set(core.current_attempt_index) then
    call("DEL", unpack(attempt_keys(text.tag(k.exec_core), id, core.current_attempt_index)))
  end
  suspension.forget_composite(k.suspension_current)
  call("DEL", k.payload, k.result, k.policy, k.tags, k.claim_grant, k.attempts, k.lease_current,
    k.lease_history, k.suspension_current, k.waitpoints, k.signals, k.deps_meta,
    k.deps_unresolved, k.deps_all_edges, k.deps_awaited, k.exec_core)
  lane.move(id, text.append({ k.terminal, k.lease_expiry, k.attempt_timeout,
    k.execution_deadline, k.suspension_timeout }, stale_keys))
  call("SREM", k.all_executions, id)
end
