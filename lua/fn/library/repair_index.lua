-- Makes the index entries of one execution agree with its record, and answers what it changed. A
-- record whose state is unknown is reported and left alone; entries without a record are removed.
-- Also reports a suspended execution that has unresolved edges: it is not in the index of blocked
-- children, so no other scan finds it. An added function.
-- Keys: exec_core (hash)
-- Arguments: execution_id, lane_id (where an entry without a record was found; optional)
-- Replies: consistent, awaits, repaired, unknown
-- Errors: invalid_input
-- Bound: 83
-- Keeps: OneHome, NoOrphans

-- The fields that decide about the index entries. The function is called for every execution, so it
-- reads no others.
local FIELDS = {
  "lane_id", "current_lane", "lifecycle_phase", "eligibility_state", "ownership_state",
  "current_worker_instance_id", "created_at", "priority", "delay_until", "lease_expires_at",
  "completed_at", "last_transition_at",
}

define("ff_repair_index",
  { "exec_core!=hash" },
  { "execution_id!", "lane_id" },
  function(given, a)
    local core, refused = record.select(given.exec_core, FIELDS)
    local id, entries = a.execution_id, nil
    refused = refused or record.misnamed(given.exec_core, id)
    if refused then return refused end
    local k = record.indexes(given.exec_core, core or {})
    local stale_keys = lane.point(k, core or { lane_id = a.lane_id }, lane.ALL)
    entries, refused = lane.current_entries(k, id, stale_keys)
    if not entries then return refused end
    if core and core.lifecycle_phase == "suspended" then
      k.suspension_current = given.exec_core:gsub(":core$", ":suspension:current")
      refused = guard.mismatch(k.suspension_current, "hash")
      if refused then return refused end
    end
    local expected, why = lane.expected_entries(k, core, number.now())
    if not expected then return ok("unknown", why) end
    -- write; nothing below can fail
    local changes = lane.repair_entries(k, id, expected, entries, stale_keys)
    if #changes == 0 then
      local edges = given.exec_core:gsub(":core$", ":deps:unresolved")
      local awaits = k.suspension_current and call("EXISTS", edges) == 1
      return ok(awaits and "awaits" or "consistent")
    end
    return ok("repaired", unpack(changes))
  end)
