-- Deletes a terminal execution after its retention time, with all its keys, in bounded steps:
-- answers `partial` until nothing is left. Once a step has deleted something, the execution cannot
-- be replayed. It is kept (`needed`) while children still wait for its outcome. Its flow counts how
-- it ended and is put back into the flow index, because the projector purges a flow after its last
-- member. If the time of the end is unknown, it is set to now. An added function.
-- Keys: exec_core (hash), terminal (zset: where it was found)
-- Arguments: execution_id, retention_ms (a day unless given; the policy's own comes first),
--   limit (records, or children asked, per step: 100 unless given, 1000 at most)
-- Replies: purged, partial, not_due, needed, not_found_cleaned
-- Errors: invalid_input, execution_not_terminal
-- Bound: 66 + 10 * n
-- Keeps: NoOrphans, NotBeforeDue, BoundedWork
local DAY_MS = 86400000
local LIMIT_MAX = 1000

-- The fields of the record that a purge needs. Most calls are too early and read nothing else.
local FIELDS = {
  "flow_id", "lifecycle_phase", "public_state", "completed_at", "purging_since", "purge_asked",
  "current_attempt_index", "lane_id", "current_lane", "current_worker_instance_id",
  "last_transition_at", "last_mutation_at",
}

-- When the execution ended. If its record does not say, the latest time before now in the record or
-- the index; nil if there is none.
local function ended_at(k, id, core, now)
  local at = number.floor(core.completed_at, 0)
  if at > 0 then
    return at
  end
  for _, noted in ipairs({ core.last_transition_at or 0, core.last_mutation_at or 0,
    call("ZSCORE", k.terminal, id) or 0 }) do
    local time = number.floor(noted, 0)
    at = time <= now and math.max(at, time) or at
  end
  return at > 0 and at or nil
end

-- When the execution may be purged.
local function due_at(core_key, ended, retention_ms)
  local stored = policy.object(policy.read(core_key).stream_policy)
  return ended + (policy.span(stored.retention_ttl_ms) or retention_ms)
end

define("ff_purge_execution",
  { "exec_core!=hash", "terminal!:zset" },
  { "execution_id!", "retention_ms", "limit" },
  function(given, a)
    local retention_ms, refused = number.require_span(text.either(a.retention_ms, DAY_MS),
      "retention_ms", 0)
    if not retention_ms then return refused end
    local limit, k, stale_keys
    limit, refused = number.require_span(text.either(a.limit, 100), "limit", 1)
    if not limit then return refused end
    local core
    core, refused = record.select(given.exec_core, FIELDS)
    local id = a.execution_id
    refused = refused or record.misnamed(given.exec_core, id)
    if refused then return refused end
    if core and core.lifecycle_phase ~= "terminal" then return err("execution_not_terminal") end
    local now, begun = number.now(), core and text.set(core.purging_since)
    -- Most calls are for executions that are not due yet, so this is decided first.
    local ended = core and ended_at(given, id, core, now)
    local due = core and not begun and due_at(given.exec_core, ended or now, retention_ms)
    if due and not ended then
      call("HSET", given.exec_core, "completed_at", number.digits(now))
    end
    if due and (due > now or not ended) then return ok("not_due", due) end
    k, refused = record.checked_keys(given.exec_core, id, core or {})
    if not k then return refused end
    k.terminal = given.terminal
    refused = purge.type_refusal(k)
    if refused then return refused end
    if not core then
      -- write; nothing below can fail
      local removed, left = purge.records(k, id, math.min(limit, LIMIT_MAX))
      if left then return ok("partial", removed) end
      purge.remove_rest(k, id, {}, {})
      return ok("not_found_cleaned")
    end
    stale_keys, refused = lane.locate(k, core, { "terminal" })
    if not stale_keys then return refused end
    local note
    note, refused = purge.flow_update(text.tag(k.exec_core), id, core)
    if refused then return refused end
    limit = math.min(limit, LIMIT_MAX)
    local asked = purge.children(k, id, core, limit)
    if asked.child then return ok("needed", asked.child) end
    -- write; nothing below can fail
    if asked.left then
      call("HSET", k.exec_core, "purge_asked", asked.left)
      return ok("partial", 0)
    end
    local removed, left = purge.records(k, id, limit)
    if left then
      call("HSET", k.exec_core, "purging_since",
        text.either(core.purging_since, number.digits(now)))
      return ok("partial", removed)
    end
    if note then purge.update_flow(note, core.public_state) end
    purge.remove_rest(k, id, core, stale_keys)
    return ok("purged", removed)
  end)
