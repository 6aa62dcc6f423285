-- One step of purging an execution, for the functions that purge one or many.
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
local function ended_at(terminal, id, core, now)
  local at = number.floor(core.completed_at, 0)
  if at > 0 then
    return at
  end
  for _, noted in ipairs({ core.last_transition_at or 0, core.last_mutation_at or 0,
    call("ZSCORE", terminal, id) or 0 }) do
    local time = number.floor(noted, 0)
    at = time <= now and math.max(at, time) or at
  end
  return at > 0 and at or nil
end

-- When the execution may be purged, or nil and the refusal of a policy of another type.
local function due_at(core_key, ended, retention_ms)
  local stored = try("GET", policy.key(core_key))
  local refused = guard.refusal(stored)
  if refused then
    return nil, guard.named(refused, policy.key(core_key))
  end
  stored = policy.object(policy.object(text.json(stored)).stream_policy)
  return ended + (policy.span(stored.retention_ttl_ms) or retention_ms)
end

-- Members of flows are kept for so long after their end, however many there are: until then a
-- submission that was interrupted may go on, and would make them again.
local MEMBER_MS = 3600000

-- Whether the index lists more than `keep` executions that ended after this one.
local function is_surplus(terminal, id, numbers, core, ended)
  local keep = numbers.keep
  if not keep or text.set(core.flow_id) and (ended or numbers.now) + MEMBER_MS > numbers.now then
    return false
  end
  local newer = call("ZREVRANK", terminal, id)
  return newer and newer >= keep
end

-- The numbers of a call by name, or nil and a refusal.
function purge.numbers(a)
  local numbers, refused = { now = number.now() }
  numbers.retention_ms, refused = number.require_span(text.either(a.retention_ms, DAY_MS),
    "retention_ms", 0)
  if not numbers.retention_ms then return nil, refused end
  numbers.limit, refused = number.require_span(text.either(a.limit, 100), "limit", 1)
  if not numbers.limit then return nil, refused end
  numbers.limit = math.min(numbers.limit, LIMIT_MAX)
  if text.set(a.keep) then
    numbers.keep, refused = number.require_span(a.keep, "keep", 0)
    if not numbers.keep then return nil, refused end
  end
  return numbers
end

-- Deletes up to `limit` records of an execution if it is due. Answers the reply of
-- ff_purge_execution, and how many records were deleted or children asked.
function purge.step(core_key, terminal, id, numbers, limit)
  local core, refused = record.select(core_key, FIELDS)
  refused = refused or record.misnamed(core_key, id)
  if refused then return refused, 0 end
  if core and core.lifecycle_phase ~= "terminal" then return err("execution_not_terminal"), 0 end
  local now, begun = numbers.now, core and text.set(core.purging_since)
  -- Most calls are for executions that are not due yet, so this is decided first.
  local ended = core and ended_at(terminal, id, core, now)
  local due
  if core and not begun then
    due, refused = due_at(core_key, ended or now, numbers.retention_ms)
    if not due then return refused, 0 end
  end
  if due and not ended then
    call("HSET", core_key, "completed_at", number.digits(now))
  end
  if due and (due > now or not ended) and not is_surplus(terminal, id, numbers, core, ended) then
    return ok("not_due", due), 0
  end
  local k
  k, refused = record.checked_keys(core_key, id, core or {})
  if not k then return refused, 0 end
  k.terminal = terminal
  refused = purge.type_refusal(k)
  if refused then return refused, 0 end
  if not core then
    -- write; nothing below can fail
    local removed, left = purge.records(k, id, limit)
    if left then return ok("partial", removed), removed end
    purge.remove_rest(k, id, {}, {})
    return ok("not_found_cleaned"), removed
  end
  local stale_keys, note
  stale_keys, refused = lane.locate(k, core, { "terminal" })
  if not stale_keys then return refused, 0 end
  note, refused = purge.flow_update(text.tag(k.exec_core), id, core)
  if refused then return refused, 0 end
  local asked
  asked, refused = purge.children(k, id, core, limit)
  if not asked then return refused, 0 end
  if asked.child then return ok("needed", asked.child), 0 end
  -- write; nothing below can fail
  if asked.left then
    call("HSET", k.exec_core, "purge_asked", asked.left)
    return ok("partial", 0), limit
  end
  local removed, left = purge.records(k, id, limit)
  if left then
    call("HSET", k.exec_core, "purging_since",
      text.either(core.purging_since, number.digits(now)))
    return ok("partial", removed), removed
  end
  if note then purge.update_flow(note, core.public_state) end
  purge.remove_rest(k, id, core, stale_keys)
  return ok("purged", removed), removed
end
