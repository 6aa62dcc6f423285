-- Deletes a finished flow whose members have all been purged, with all its keys, in bounded steps:
-- answers `partial` until nothing is left. It first checks that no member is left, then closes the
-- flow to new members, then deletes its parts, its record last. An added function.
-- Keys: flow_core (hash), members (set of execution ids), flow_index (set)
-- Arguments: flow_id, retention_ms (since the last change; a day unless given), limit (members or
--   edges per step, 200 unless given, 1000 at most)
-- Replies: purged, partial, not_due, needed, gone
-- Errors: invalid_input
-- Bound: 48 + 12 * n
-- Keeps: NoOrphans, NotBeforeDue, BoundedWork
local DAY_MS = 86400000
local LIMIT_MAX = 1000

-- Looks at the next members: the id of one that still exists, or nil and the next cursor.
local function living_member(k, plan, flow_id, cursor, limit)
  local next_cursor, members = unpack(call("SSCAN", k.members, cursor, "COUNT",
    number.digits(limit)))
  local may_be_recreated = projection.has_purged(plan.summary)
  for _, id in ipairs(members) do
    local core_key = dependency.front(text.tag(k.flow_core), id) .. ":core"
    if call("EXISTS", core_key) == 1
      and not (may_be_recreated and projection.was_recreated(core_key, flow_id)) then
      return id
    end
  end
  return nil, next_cursor
end

define("ff_purge_flow",
  { "flow_core!=hash", "members!:set", "flow_index!:set" },
  { "flow_id!", "retention_ms", "limit" },
  function(k, a)
    local retention_ms, refused = number.require_span(text.either(a.retention_ms, DAY_MS),
      "retention_ms", 0)
    if not retention_ms then return refused end
    local limit
    limit, refused = number.require_span(text.either(a.limit, 200), "limit", 1)
    refused = refused or flow.misnamed(k.flow_core, a.flow_id)
    if refused then return refused end
    limit = math.min(limit, LIMIT_MAX)
    local core = record.read(k.flow_core)
    if not core then
      call("SREM", k.flow_index, a.flow_id)
      return ok("gone")
    end
    local tag, prefix = text.tag(k.flow_core), flow.prefix_of(k.flow_core)
    local plan = flow.purge_plan(tag, prefix, k)
    refused = guard.any_mismatch(plan.checks)
    if refused then return refused end
    local due = number.floor(core.last_mutation_at, 0) + retention_ms
    if due > number.now() then return ok("not_due", due) end
    local revision = text.present(core.graph_revision, "0")
    -- Stored once every member is known to be purged; until then a bookmark is stored.
    local over, closed = revision .. "|over", flow.closed(core)
    local noted = call("HGET", plan.summary, "purge")
    if noted ~= over then
      if not closed and call("SCARD", k.members) == 0 then return ok("needed", "") end
      local from = record.resume(noted, revision)
      local living, cursor = living_member(k, plan, a.flow_id, from, limit)
      if living then return ok("needed", living) end
      noted = cursor == "0" and over or record.bookmark(revision, cursor)
    end
    -- write; nothing below can fail
    call("HSET", plan.summary, "purge", noted)
    if noted ~= over then return ok("partial", 0) end
    if not closed then
      call("HSET", k.flow_core, "public_flow_state", "completed")
    end
    local removed, left = flow.purge_members(plan, a.flow_id, limit)
    if left then return ok("partial", removed) end
    flow.purge_rest(plan, k, a.flow_id)
    return ok("purged", removed)
  end)
