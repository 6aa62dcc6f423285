-- Makes the index entries of one execution equal to what its record demands, and says what it
-- changed. A record that does not say where it belongs is reported and left alone; entries without
-- any record go. An added function.
-- Keys: exec_core (hash)
-- Arguments: execution_id, lane_id (where an entry without a record was found; optional)
-- Replies: consistent, repaired, unknown
-- Errors: invalid_input
-- Bound: 82
-- Keeps: OneHome, NoOrphans
define("ff_repair_index",
  { "exec_core!=hash" },
  { "execution_id!", "lane_id" },
  function(given, a)
    local core = record.read(given.exec_core)
    local id = a.execution_id
    local k, refused = record.keyring(given.exec_core, id, core or {})
    if not k then return refused end
    local strays
    strays, refused = lane.locate(k, core or { lane_id = a.lane_id }, lane.ALL)
    if not strays then return refused end
    local demand, why = lane.demand(k, core, number.now())
    if not demand then return ok("unknown", why) end
    -- write; nothing below can fail
    local changes = lane.settle(k, id, demand, strays)
    if #changes == 0 then
      return ok("consistent")
    end
    return ok("repaired", unpack(changes))
  end)
