-- Makes what surrounds the record of a flow agree with the records that are left: its index entry,
-- its members, the sets of edges at both their ends, the records of edges, its counts, and the
-- pending cancels of its members. Everything is decided inside the call. An added function.
-- Keys: flow_core (hash)
-- Arguments: flow_id, graph_revision (that the caller has seen), edge_count (of the edges that it
--   counted then; empty leaves the count), members (how many members follow), found (ids of
--   executions, then EDGE|CHILD|UPSTREAM for each edge, as far as the caller knows it)
-- Replies: unchanged, repaired
-- Errors: flow_not_found, invalid_input
-- Bound: 30 + 10 * n
-- Keeps: GroupCounts, OneHome, PendingCancelsIndexed

-- The call: keys, id and what it has changed; `set` puts a member into a set or takes it out.
local function begin(core_key, flow_id)
  local c = {
    prefix = flow.prefix_of(core_key), tag = text.tag(core_key), id = flow_id, changes = {},
    writes = {},
  }
  c.members, c.pending = c.prefix .. ":members", c.prefix .. ":pending_cancels"
  c.index = lane.partition_index(c.tag, "flow_index")
  c.backlog = lane.partition_index(c.tag, "cancel_backlog")
  return c, guard.any_mismatch({
    { c.members, "set" }, { c.pending, "set" }, { c.index, "set" }, { c.backlog, "zset" },
  })
end

-- Plans that `member` is in the set `key`, or is not.
local function plan_set(c, key, member, should)
  if guard.mismatch(key, "set") then
    return
  end
  if (call("SISMEMBER", key, member) == 1) ~= should then
    c.writes[#c.writes + 1] = { should and "SADD" or "SREM", key, member }
    c.changes[#c.changes + 1] = (should and "+" or "-") .. key .. " " .. member
  end
end

-- Plans what an edge needs: to be listed at both its ends, and its record if the child still has
-- one. A child may have edges that the flow never listed.
local function plan_edge(c, edge_id, child, upstream)
  local key = c.prefix .. ":edge:" .. edge_id
  local into, out = c.prefix .. ":in:" .. child, c.prefix .. ":out:" .. upstream
  if guard.mismatch(key, "hash") then
    return
  end
  local edge = record.fields(key, "upstream_execution_id", "downstream_execution_id")
  if text.set(edge.upstream_execution_id) and text.set(edge.downstream_execution_id) then
    plan_set(c, c.prefix .. ":in:" .. edge.downstream_execution_id, edge_id, true)
    plan_set(c, c.prefix .. ":out:" .. edge.upstream_execution_id, edge_id, true)
    return
  end
  local dep = dependency.front(c.tag, child) .. ":dep:" .. edge_id
  local from = record.peek(dep, "upstream_execution_id")
  out = text.set(from) and c.prefix .. ":out:" .. from or out
  local listed = guard.reply("SISMEMBER", into, edge_id) == 1
    or guard.reply("SISMEMBER", out, edge_id) == 1
  if text.set(from) and listed then
    c.writes[#c.writes + 1] = { edge = key, dep = dep, id = edge_id, from = from, to = child }
    c.changes[#c.changes + 1] = "+" .. key
    plan_set(c, into, edge_id, true)
    plan_set(c, out, edge_id, true)
  elseif not text.set(from) then
    plan_set(c, into, edge_id, false)
    plan_set(c, out, edge_id, false)
  end
end

-- Plans what a member needs. Answers whether it has not ended.
local function plan_member(c, id)
  local core = dependency.front(c.tag, id) .. ":core"
  if record.peek(core, "flow_id") ~= c.id then
    return false
  end
  plan_set(c, c.members, id, true)
  return record.peek(core, "lifecycle_phase") ~= "terminal"
end

-- Plans the pending cancels of a cancelled flow, and the index entry.
local function plan_cancels(c, core, alive)
  local pending = call("SCARD", c.pending)
  if pending == 0 and core.cancellation_policy == "cancel_all" and flow.covers_members(core) then
    for _, id in ipairs(alive) do
      plan_set(c, c.pending, id, true)
      pending = pending + 1
    end
  end
  local listed = call("ZSCORE", c.backlog, c.id)
  if pending > 0 and not listed then
    c.writes[#c.writes + 1] = { "ZADD", c.backlog, number.digits(number.now()), c.id }
    c.changes[#c.changes + 1] = "+" .. c.backlog
  elseif pending == 0 and listed then
    c.writes[#c.writes + 1] = { "ZREM", c.backlog, c.id }
    c.changes[#c.changes + 1] = "-" .. c.backlog
  end
end

local function write(c, core_key, core, a)
  for _, step in ipairs(c.writes) do
    if step.edge then
      local dep = record.fields(step.dep, "dependency_kind", "data_passing_ref")
      flow.write_edge(step.edge, c.id, {
        edge_id = step.id, upstream_eid = step.from, downstream_eid = step.to,
        dependency_kind = text.either(dep.dependency_kind, nil),
        data_passing_ref = dep.data_passing_ref,
      }, text.present(core.created_at, "0"))
    else
      call(unpack(step))
    end
  end
  local counts = { "node_count", number.digits(call("SCARD", c.members)) }
  if text.set(a.edge_count) and a.graph_revision == text.present(core.graph_revision, "") then
    text.append(counts, { "edge_count", a.edge_count })
  end
  for i = 1, #counts, 2 do
    if core[counts[i]] ~= counts[i + 1] then
      call("HSET", core_key, counts[i], counts[i + 1])
      c.changes[#c.changes + 1] = counts[i]
    end
  end
end

define("ff_repair_flow",
  { "flow_core!=hash" },
  { "flow_id!", "graph_revision", "edge_count", "members", "found" },
  function(k, a, _, args)
    local refused = flow.misnamed(k.flow_core, a.flow_id)
    if refused then return refused end
    if text.set(a.edge_count) and not number.whole(a.edge_count) then
      return err("invalid_input", "edge_count must be a whole number")
    end
    local core = record.read(k.flow_core)
    if not core then
      return err("flow_not_found")
    end
    local c
    c, refused = begin(k.flow_core, a.flow_id)
    if refused then return refused end
    if text.set(record.peek(c.prefix .. ":summary", "purge")) then
      return ok("unchanged")
    end
    local count, alive = number.whole(a.members) or 0, {}
    for i = 5, #args do
      local edge, child, upstream = args[i]:match("^([^|]*)|([^|]*)|([^|]*)$")
      if i - 4 <= count and plan_member(c, args[i]) then
        alive[#alive + 1] = args[i]
      elseif i - 4 > count and edge then
        plan_edge(c, edge, child, upstream)
      end
    end
    plan_set(c, c.index, a.flow_id, true)
    plan_cancels(c, core, alive)
    -- write; nothing below can fail
    write(c, k.flow_core, core, a)
    return text.append(ok(#c.changes > 0 and "repaired" or "unchanged"), c.changes)
  end)
