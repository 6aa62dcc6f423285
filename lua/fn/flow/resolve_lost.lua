-- Resolves one edge of a child whose upstream has lost its record for good: deleted by hand, or
-- evicted. The engine never deletes the record of an upstream that a child waits for. The last
-- attempt of the upstream says whether it succeeded; unless it did, the edge counts as failed, and
-- a child that this ends says why. An upstream that may never have had a record is not lost: it may
-- be created yet. An added function.
-- Keys: upstream_core (hash)
-- Arguments: execution_id (the upstream), edge_id, downstream_eid
-- Replies: resolved, skipped, released, left
-- Errors: invalid_input
-- Bound: 1510
-- Keeps: EdgeByTruth, GroupCounts, OneHome, RepeatIsHarmless

-- Whether an execution without a record once had one: it is a member of the flow of the edge, or
-- lists the edge, or is listed in its partition. A record is written before, or with, any of these.
local function had_record(tag, id, flow_id, edge_id)
  local prefix = flow.prefix(tag, text.present(flow_id, ""))
  return guard.reply("SISMEMBER", prefix .. ":members", id) == 1
    or record.peek(dependency.front(tag, id) .. ":deps:awaited", edge_id) ~= nil
    or guard.reply("SISMEMBER", lane.partition_index(tag, "all_executions"), id) == 1
end

-- How an execution ended that has no record.
local function last_outcome(tag, id)
  local attempts = guard.reply("ZRANGE", dependency.front(tag, id) .. ":attempts", -1, -1)
  local index = attempts and attempts[1]
  local ended = index and record.peek(attempt.key(tag, id, index), "attempt_state")
  return ended == "ended_success" and "success" or "failed"
end

-- Answers the function that reads the record of the child, as ff_resolve_outgoing does it.
local function child_reader(tag, upstream_result)
  return function(k)
    local core, refused = dependency.child(k.exec_core)
    if core then
      local own = dependency.lanes(tag, lane.of(core))
      k.eligible, k.terminal, k.blocked = own.eligible, own.terminal, own.blocked
      k.payload, k.upstream_result = k.exec_core:sub(1, -5) .. "payload", upstream_result
    end
    return core, refused
  end
end

define("ff_resolve_lost",
  { "upstream_core!=hash" },
  { "execution_id!", "edge_id!", "downstream_eid!" },
  function(k, a)
    local refused = record.misnamed(k.upstream_core, a.execution_id)
    if refused then
      return refused
    end
    local tag, id = text.tag(k.upstream_core), a.execution_id
    local dep_key = dependency.front(tag, a.downstream_eid) .. ":dep:" .. a.edge_id
    local flow_id = record.peek(dep_key, "flow_id")
    if call("EXISTS", k.upstream_core) == 1
      or record.peek(dep_key, "upstream_execution_id") ~= id
      or not had_record(tag, id, flow_id, a.edge_id) then
      return ok("left")
    end
    flow_id = text.present(flow_id, "")
    local own = dependency.keys(tag, flow.prefix(tag, flow_id), a.downstream_eid, a.edge_id)
    local found
    found, refused = dependency.records(own)
    if not found then
      return refused
    end
    local now, moves = number.digits(number.now()), {}
    -- The records are read and decided on before they are written in dependency.resolve.
    local reply, effect = dependency.resolve(own, {
      edge_id = a.edge_id, upstream_outcome = last_outcome(tag, id), now_ms = now,
      flow_id = flow_id, downstream_eid = a.downstream_eid,
    }, found, child_reader(tag, dependency.front(tag, id) .. ":result"), moves)
    if reply.err or reply[1] == 0 then
      return reply
    end
    if reply[3] == "already_resolved" then
      return ok("left")
    end
    lane.carry_out(moves)
    call("HSET", dep_key, "upstream_lost", "1")
    if effect == "skipped" then
      call("HSET", own.exec_core, "failure_reason", "upstream_lost:" .. id)
    end
    return ok(effect or "resolved")
  end)
