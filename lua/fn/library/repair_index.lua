-- Makes the index entries of one execution equal to what its record demands, and says what it
-- changed. A record that does not say where it belongs is reported and left alone; entries without
-- any record go. Also says when a suspended execution has open edges: it does not stand with those
-- that wait for edges, so nobody else would find it. An added function.
-- Keys: exec_core (hash)
-- Arguments: execution_id, lane_id (where an entry without a record was found; optional)
-- Replies: consistent, awaits, repaired, unknown
-- Errors: invalid_input
-- Bound: 83
-- Keeps: OneHome, NoOrphans

-- What a record's place in the indexes depends on: asked of every execution again and again, so no
-- more is read.
local FIELDS = {
  "lane_id", "current_lane", "lifecycle_phase", "eligibility_state", "ownership_state",
  "current_worker_instance_id", "created_at", "priority", "delay_until", "lease_expires_at",
  "completed_at", "last_transition_at",
}

define("ff_repair_index",
  { "exec_core!=hash" },
  { "execution_id!", "lane_id" },
  function(given, a)
    local core, refused = record.part(given.exec_core, FIELDS)
    local id, stands = a.execution_id, nil
    refused = refused or record.misnamed(given.exec_core, id)
    if refused then return refused end
    local k = record.indexes(given.exec_core, core or {})
    local strays = lane.point(k, core or { lane_id = a.lane_id }, lane.ALL)
    stands, refused = lane.standing(k, id, strays)
    if not stands then return refused end
    if core and core.lifecycle_phase == "suspended" then
      k.suspension_current = given.exec_core:gsub(":core$", ":suspension:current")
      refused = guard.mismatch(k.suspension_current, "hash")
      if refused then return refused end
    end
    local demand, why = lane.demand(k, core, number.now())
    if not demand then return ok("unknown", why) end
    -- write; nothing below can fail
    local changes = lane.settle(k, id, demand, stands, strays)
    if #changes == 0 then
      local edges = given.exec_core:gsub(":core$", ":deps:unresolved")
      local awaits = k.suspension_current and call("EXISTS", edges) == 1
      return ok(awaits and "awaits" or "consistent")
    end
    return ok("repaired", unpack(changes))
  end)
