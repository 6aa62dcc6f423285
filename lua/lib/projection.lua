-- The summary of a flow: exact counts over its members. A large flow is counted in several calls;
-- the counts so far are stored in the summary's field `projection` and start again when the graph
-- changes, a member is replayed or another server takes over.

local BUCKETS = {
  "completed", "failed", "cancelled", "expired", "skipped", "active", "suspended", "waiting",
  "delayed", "rate_limited", "waiting_children", "gone",
}

-- How a member can have ended, as its flow counts it when it is purged.
local ENDS = { "completed", "failed", "cancelled", "expired", "skipped" }

local PURGED = "purged_"

-- Whether members of a flow were purged. Then an execution may have been created again under the id
-- of a member, and does not belong to the flow.
function projection.has_purged(summary_key)
  local noted = try("HMGET", summary_key, PURGED .. "completed", PURGED .. "failed",
    PURGED .. "cancelled", PURGED .. "expired", PURGED .. "skipped")
  if guard.refusal(noted) then
    return false
  end
  for i = 1, #noted do
    if noted[i] then
      return true
    end
  end
  return false
end

-- Whether the record under a member's id belongs to another execution now.
function projection.was_recreated(core_key, flow_id)
  local of = record.peek(core_key, "flow_id")
  return of ~= nil and of ~= flow_id
end

-- The bucket of a member: its public state, `gone` without a record, `waiting` for an unknown one.
-- `flow_id` is given if an id may have been created again.
local function bucket_of(core_key, flow_id)
  if flow_id and projection.was_recreated(core_key, flow_id) then
    return "gone"
  end
  local public_state = record.peek(core_key, "public_state")
  for _, name in ipairs(BUCKETS) do
    if name == public_state then
      return name
    end
  end
  return call("EXISTS", core_key) == 0 and "gone" or "waiting"
end

-- A projection that has not counted any member yet.
local function afresh()
  local progress = { counted = 0 }
  for _, name in ipairs(BUCKETS) do
    progress[name] = 0
  end
  return progress
end

-- The counts so far, and the cursor to continue at; or a new start.
function projection.resume(summary_key, revision)
  local stored = text.json(call("HGET", summary_key, "projection"))
  local cursor = type(stored) == "table" and record.resume(stored.place, revision) or "0"
  local progress = afresh()
  if cursor == "0" then
    return progress, cursor
  end
  for name in pairs(progress) do
    progress[name] = number.whole(stored[name])
    if not progress[name] then
      return afresh(), "0"
    end
  end
  return progress, cursor
end

-- The buckets of members without a running attempt, and of those with one.
local WAITING = { waiting = true, delayed = true, rate_limited = true, waiting_children = true }

local STARTED = { active = true, suspended = true }

-- Counts the next members of the flow, about `limit` of them. Answers those that have not ended, {
-- waiting = ids, started = ids }, and the cursor to continue at.
function projection.count(progress, k, flow_id, cursor, limit)
  local found, members = { waiting = {}, started = {} }, nil
  local tag, may_be_recreated = text.tag(k.flow_core), projection.has_purged(k.summary) and flow_id
  cursor, members = unpack(call("SSCAN", k.members, cursor, "COUNT", number.digits(limit)))
  for _, id in ipairs(members) do
    local bucket = bucket_of(dependency.front(tag, id) .. ":core", may_be_recreated)
    progress[bucket] = progress[bucket] + 1
    local list = WAITING[bucket] and found.waiting or STARTED[bucket] and found.started
    if list then
      list[#list + 1] = id
    end
  end
  progress.counted = progress.counted + #members
  return found, cursor
end

-- Counts how a member ended that is purged now.
function projection.count_purged(summary_key, public_state)
  for _, name in ipairs(ENDS) do
    if name == public_state then
      local noted = number.floor(call("HGET", summary_key, PURGED .. name), 0)
      call("HSET", summary_key, PURGED .. name, number.digits(math.max(0, noted) + 1))
    end
  end
end

local MEMBER = { "flow_id", "purging_since", "lifecycle_phase", "terminal_outcome", "unsealed" }

-- Whether a member has no record any more in a flow whose members were purged, or a record that was
-- created again since and does not belong to the flow: an edge from it would never be resolved, and
-- it waits for none. (Members made by hand may never have had a record.) Also how it ended, if it
-- did, whatever flow its record belongs to; and the mark that holds it back until the seal of its
-- flow, if it has one.
function projection.is_purged(prefix, flow_id, id)
  local values = try("HMGET", dependency.front(text.tag(prefix), id) .. ":core", unpack(MEMBER))
  local core = {}
  -- A key of another type counts as no record.
  for i = 1, guard.refusal(values) and 0 or #values do
    core[MEMBER[i]] = values[i] or nil
  end
  local outcome = dependency.outcome_of(core)
  if core.flow_id == flow_id then
    return core.purging_since ~= nil, outcome, number.whole(core.unsealed)
  end
  return projection.has_purged(prefix .. ":summary"), outcome
end

-- Counts purged members by how they ended, as far as that was counted.
function projection.restore_purged(summary_key, progress)
  for _, name in ipairs(progress.gone > 0 and ENDS or {}) do
    local noted = number.floor(call("HGET", summary_key, PURGED .. name), 0)
    local recalled = math.max(0, math.min(noted, progress.gone))
    progress[name] = progress[name] + recalled
    progress.gone = progress.gone - recalled
  end
end

-- The state of the flow by these counts, and whether it has ended.
function projection.verdict(progress, flow_state)
  local unlucky = progress.failed + progress.cancelled + progress.expired
  local ended = progress.completed + progress.skipped + progress.gone + unlucky
  if ended == progress.counted and (progress.counted > 0
    or flow.closed({ public_flow_state = flow_state })) then
    return flow_state == "cancelled" and "cancelled" or unlucky > 0 and "failed" or "completed",
      true
  end
  if progress.active > 0 then
    return "running", false
  end
  local held = progress.suspended + progress.delayed + progress.rate_limited
    + progress.waiting_children
  return held > 0 and "blocked" or "open", false
end

-- Writes the finished summary.
function projection.write(summary_key, progress, word, now)
  local fields = { "total_members", progress.counted, "sampled_members", progress.counted }
  for _, name in ipairs(BUCKETS) do
    text.append(fields, { "members_" .. name, progress[name] })
  end
  record.write(summary_key,
    text.append(fields, { "public_flow_state", word, "last_summary_update_at", now }))
  projection.forget(summary_key)
end

-- Stores the counts so far for a call that continues at `cursor`.
function projection.keep(summary_key, progress, revision, cursor)
  progress.place = record.bookmark(revision, cursor)
  call("HSET", summary_key, "projection", cjson.encode(progress))
end

function projection.forget(summary_key)
  call("HDEL", summary_key, "projection")
end
