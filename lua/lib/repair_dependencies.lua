-- What a child keeps about its edges: the records of the edges say what belongs into its sets, its
-- counters and its group. An edge that the sets and its record disagree about is open: resolving it
-- again gives the same result.

local READ = { "state", "repeats_upstream", "upstream_execution_id" }

-- The outcome of an upstream as the state of an edge that was resolved by it, nil while it runs.
local function resolved_by(tag, upstream)
  local core = dependency.front(tag, upstream) .. ":core"
  local outcome = dependency.outcome_of({
    lifecycle_phase = record.peek(core, "lifecycle_phase"),
    terminal_outcome = record.peek(core, "terminal_outcome"),
  })
  return outcome and (outcome == "success" and "satisfied" or "impossible")
end

-- The record of an edge that lost its own, by what the flow knows about it; nil if that is nothing.
local function restored(c, edge_id, is_open)
  local edge = record.fields(c.prefix .. ":edge:" .. edge_id, "upstream_execution_id",
    "downstream_execution_id", "dependency_kind", "data_passing_ref")
  if edge.downstream_execution_id ~= c.id or not text.set(edge.upstream_execution_id) then
    return nil
  end
  return {
    restores = edge, upstream_execution_id = edge.upstream_execution_id,
    state = not is_open and resolved_by(c.tag, edge.upstream_execution_id) or "unsatisfied",
  }
end

-- The edge as it should be: { id, key, state, was = its stored state }, or nil and whether its
-- record is lost (else it is of no account).
local function look(c, edge_id)
  local is_open, listed = c.open[edge_id], c.all[edge_id]
  local key = c.front .. ":dep:" .. edge_id
  local refused = guard.mismatch(key, "hash")
  if refused then
    return nil, nil, refused
  end
  local dep = record.part(key, READ)
  if not dep or not text.set(dep.upstream_execution_id) then
    if not is_open and not listed then
      return nil, false
    end
    local state = dep and dep.state
    dep = restored(c, edge_id, is_open)
    if not dep then
      return nil, listed or state ~= nil
    end
  end
  local edge = {
    id = edge_id, key = key, was = dep.state, state = dep.state, restores = dep.restores,
    upstream = dep.upstream_execution_id, repeats = dep.repeats_upstream == "1",
  }
  if not dependency.RESOLVED[edge.state] or is_open and not c.ended then
    edge.state = "unsatisfied"
  end
  return edge
end

-- All edges that anybody names, in order, each once.
local function named(c, found)
  local seen, ids = {}, {}
  for _, list in ipairs({ c.all_list, c.open_list, found }) do
    for _, id in ipairs(list) do
      if not seen[id] then
        seen[id], ids[#ids + 1] = true, id
      end
    end
  end
  table.sort(ids)
  return ids
end

local function as_set(list)
  local set = {}
  for _, item in ipairs(list) do
    set[item] = true
  end
  return set
end

-- If the verdict over a child that still waits is that it cannot run, one lost edge is opened
-- again, so that resolving it ends the child.
local function reopen_one(c, edges)
  if not c.waits then
    return
  end
  for _, edge in ipairs(edges) do
    if edge.state == "impossible" and resolved_by(c.tag, edge.upstream) == "impossible" then
      edge.state = "unsatisfied"
      return
    end
  end
end

local function tally(edges)
  local sum = { n = #edges, unsatisfied = 0, satisfied = 0, impossible = 0, repeats = 0,
    repeats_satisfied = 0, repeats_impossible = 0 }
  for _, edge in ipairs(edges) do
    sum[edge.state] = sum[edge.state] + 1
    if edge.repeats then
      sum.repeats = sum.repeats + 1
      local name = "repeats_" .. edge.state
      sum[name] = (sum[name] or 0) + 1
    end
  end
  return sum
end

-- Plans the repair of what the child `core` keeps; nil and a refusal, or nil if it has no edges.
-- `found` = ids of edges that have a record.
function repair.plan_dependencies(k, core, front, tag, found, accepts)
  local c = {
    id = core.execution_id, front = front, tag = tag, accepts = accepts,
    ended = core.lifecycle_phase == "terminal",
    waits = core.lifecycle_phase == "runnable"
      and core.eligibility_state == "blocked_by_dependencies" and not text.set(core.unsealed),
    unsealed = text.set(core.unsealed),
    meta_key = front .. ":deps:meta", open_key = front .. ":deps:unresolved",
    all_key = front .. ":deps:all_edges",
  }
  c.flow_id = dependency.flow_of(k.exec_core, core)
  c.prefix = flow.prefix(tag, c.flow_id or "")
  c.group_key = c.prefix .. ":edgegroup:" .. c.id
  c.index_key = lane.partition_index(tag, "pending_cancel_groups")
  local refused = guard.any_mismatch({
    { c.meta_key, "hash" }, { c.open_key, "set" }, { c.all_key, "set" },
    { c.group_key, "hash" }, { c.index_key, "set" },
  })
  if refused then
    return nil, refused
  end
  c.all_list, c.open_list = record.members(c.all_key), record.members(c.open_key)
  c.all, c.open = as_set(c.all_list), as_set(c.open_list)
  c.edges, c.lost, c.strays = {}, {}, {}
  for _, id in ipairs(named(c, found)) do
    local edge, is_lost, other = look(c, id)
    if other then
      return nil, other
    end
    local list = edge and c.edges or is_lost and not accepts and c.lost or c.strays
    list[#list + 1] = edge or id
  end
  c.group = record.read(c.group_key)
  if tally(c.edges).impossible > 0 and not edge_group.counted(c.group) then
    reopen_one(c, c.edges)
  end
  c.sum = tally(c.edges)
  return c
end

local function change(report, what)
  report.changes[#report.changes + 1] = what
end

local function write_edges(c, now, report)
  for _, edge in ipairs(c.edges) do
    if edge.restores then
      dependency.write(edge.key, c.flow_id, c.id, {
        edge_id = edge.id, upstream_eid = edge.upstream,
        dependency_kind = text.either(edge.restores.dependency_kind, nil),
        data_passing_ref = edge.restores.data_passing_ref,
      }, edge.repeats)
      edge.was = "unsatisfied"
      change(report, "+" .. edge.key)
    end
    if edge.state ~= edge.was then
      local at = edge.state == "unsatisfied" and "" or now
      record.write(edge.key, { "state", edge.state, "last_resolved_at", at })
      change(report, edge.key .. " " .. edge.state)
    end
  end
end

local function settle(report, key, id, is, should)
  if is ~= should then
    call(should and "SADD" or "SREM", key, id)
    change(report, (should and "+" or "-") .. key .. " " .. id)
  end
end

local function write_sets(c, report)
  for _, edge in ipairs(c.edges) do
    settle(report, c.open_key, edge.id, c.open[edge.id] == true, edge.state == "unsatisfied")
    settle(report, c.all_key, edge.id, c.all[edge.id] == true, true)
  end
  for _, id in ipairs(c.strays) do
    settle(report, c.open_key, id, c.open[id] == true, false)
    settle(report, c.all_key, id, c.all[id] == true, false)
  end
end

-- Writes the fields of `wanted` = { name, value, … } that differ from `stored`.
local function write_fields(key, stored, wanted, report)
  for i = 1, #wanted, 2 do
    local name, value = wanted[i], number.text(wanted[i + 1])
    local is = stored[name]
    if is ~= value and not (value == "0" and not text.set(is)) then
      call("HSET", key, name, value)
      change(report, key .. " " .. name)
    end
  end
end

-- Rewrites the group of the child. Which of its edges suffice is written nowhere else: a group that
-- lost that needs all of them.
local function write_group(c, report)
  local sum, group = c.sum, c.group or {}
  if not text.set(group.policy_variant) then
    if #c.edges > 1 and not c.accepts then
      report.lost[#report.lost + 1] = "policy"
    end
    group.policy_variant = "all_of"
    call("HSET", c.group_key, "policy_variant", "all_of")
    change(report, "+" .. c.group_key)
  end
  local counted = edge_group.counted(group)
  local skipped = math.min(number.floor(group.skipped, 0), sum.impossible)
  local n = c.unsealed and math.max(sum.n, number.floor(group.n, 0)) or sum.n
  local wanted = { "n", n, "succeeded", sum.satisfied, "failed", sum.impossible - skipped }
  if group.skipped then
    text.append(wanted, { "skipped", skipped })
  end
  if counted then
    text.append(wanted, { "repeats", sum.repeats, "repeats_succeeded", sum.repeats_satisfied,
      "repeats_lost", sum.repeats_impossible })
  end
  write_fields(c.group_key, group, wanted, report)
  if not c.ended then
    local word = sum.impossible > 0 and "impossible"
      or sum.unsatisfied == 0 and "satisfied" or edge_group.PENDING
    if counted then
      word = edge_group.verdict_over(group, wanted)
    end
    write_fields(c.group_key, group, { "group_state", word }, report)
  end
end

-- Carries the plan out; notes what it changed, and what is lost.
function repair.write_dependencies(c, now, report)
  for _, id in ipairs(c.lost) do
    report.lost[#report.lost + 1] = "edge:" .. id
  end
  write_edges(c, now, report)
  write_sets(c, report)
  if #c.edges > 0 then
    local meta = record.read(c.meta_key) or {}
    local counts = { "unsatisfied_required_count", c.sum.unsatisfied,
      "impossible_required_count", c.sum.impossible }
    if not edge_group.counted(c.group) or not next(meta) then
      write_fields(c.meta_key, meta, counts, report)
    end
    if c.flow_id then
      write_fields(c.meta_key, meta, { "flow_id", c.flow_id }, report)
      write_group(c, report)
    end
  end
  if c.flow_id then
    local is_pending = record.peek(c.group_key, "cancel_siblings_pending_flag") == "true"
    local tuple = c.flow_id .. "|" .. c.id
    settle(report, c.index_key, tuple, call("SISMEMBER", c.index_key, tuple) == 1, is_pending)
  end
end
