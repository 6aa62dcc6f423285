-- The comparison of many executions with the indexes of their partition, by one command per index
-- instead of one per execution and index.

-- The fields that decide about the index entries.
local FIELDS = {
  "lane_id", "current_lane", "lifecycle_phase", "eligibility_state", "ownership_state",
  "current_worker_instance_id", "created_at", "priority", "delay_until", "lease_expires_at",
  "completed_at", "last_transition_at",
}
local PER_COMMAND = 1000

-- The reply to a command of an audit, nil if its key holds another type.
local function ask(audit, ...)
  audit.commands = audit.commands + 1
  return guard.reply(...)
end

-- Notes the entries of `ids` in an index, in audit.found[key][id]. An index of another type holds
-- none.
local function look(audit, command, key, ids)
  local entries = audit.found[key] or {}
  audit.found[key] = entries
  for first = 1, #ids, PER_COMMAND do
    local last = math.min(first + PER_COMMAND - 1, #ids)
    local answers = ask(audit, command, key, unpack(ids, first, last))
    for i = first, answers and last or 0 do
      local entry = answers[i - first + 1]
      entries[ids[i]] = entry and entry ~= 0 and entry or nil
    end
  end
  return entries
end

-- Adds to the list under `name`.
local function add(lists, name, item)
  local list = lists[name] or {}
  list[#list + 1], lists[name] = item, list
end

-- Takes the executions that ended before a time out of `ids`: they are added to their lanes.
local function take_ended(audit, ids, lanes, before)
  for _, of in ipairs(before > 0 and lanes or {}) do
    local rest, key = {}, lane.index(audit.tag, of, "terminal")
    local entries = #ids > 0 and look(audit, "ZMSCORE", key, ids)
    for _, id in ipairs(ids) do
      if entries[id] and tonumber(entries[id]) < before then
        add(audit.lanes, of, id)
        audit.ended[id] = true
      else
        rest[#rest + 1] = id
      end
    end
    ids = rest
  end
  return ids
end

-- Reads the records of `ids`, and adds them to their lanes. One without a record is wrong.
local function read_records(audit, ids)
  local holders = {}
  for _, id in ipairs(ids) do
    local core = record.select("ff:exec:" .. audit.tag .. ":" .. id .. ":core", FIELDS)
    audit.commands = audit.commands + 1
    if core then
      audit.cores[id] = core
      add(audit.lanes, lane.of(core), id)
      local holder = core.current_worker_instance_id
      if holder and (holder ~= "" or core.lifecycle_phase == "active") then
        add(holders, lane.worker_leases(audit.tag, holder), id)
      end
    else
      audit.is_wrong[id] = true
    end
  end
  for key, of_holder in pairs(holders) do
    look(audit, "SMISMEMBER", key, of_holder)
  end
end

-- What a record demands; nil if it does not say, or if a part of it cannot be read.
local function expected_of(audit, k, id, core)
  if core.lifecycle_phase == "suspended" then
    local front = "ff:exec:" .. audit.tag .. ":" .. id
    k.suspension_current = front .. ":suspension:current"
    local size = ask(audit, "HLEN", k.suspension_current)
    local awaits = ask(audit, "EXISTS", front .. ":deps:unresolved")
    audit.commands = audit.commands + 1
    if not size or awaits == 1 then
      return nil
    end
  end
  return (lane.expected_entries(k, core, audit.now))
end

-- Whether the entries of an execution are what its record demands.
local function is_right(audit, k, id)
  local core = audit.cores[id]
  local expected = audit.ended[id] and { terminal = 0, at = {}, all_executions = true }
    or expected_of(audit, k, id, core)
  local claimed = core and core.current_lane
  if claimed and claimed ~= "" and claimed ~= lane.of(core) and
    ask(audit, "ZSCORE", lane.index(audit.tag, claimed, "active"), id) then
    return false
  end
  k.worker_leases = lane.worker_leases(audit.tag, core and core.current_worker_instance_id)
  return expected and not lane.differs(k, expected, function(key)
    local entries = audit.found[key]
    return entries and entries[id]
  end)
end

-- Compares the executions `ids` of a partition with its indexes. Answers those whose entries look
-- wrong, and how many commands it took.
function lane.audit(tag, ids, lanes, before)
  local audit = {
    tag = tag, now = number.now(), commands = 1,
    found = {}, cores = {}, ended = {}, lanes = {}, is_wrong = {},
  }
  read_records(audit, take_ended(audit, ids, lanes, before))
  local k = record.indexes("ff:exec:" .. tag .. ":", {})
  for _, name in ipairs(lane.TIMES) do
    look(audit, "ZMSCORE", k[name], ids)
  end
  for of, of_lane in pairs(audit.lanes) do
    for i, name in ipairs(lane.ALL) do
      k[name] = lane.index(tag, of, lane.INDEXES[i])
      look(audit, "ZMSCORE", k[name], of_lane)
    end
    for _, id in ipairs(of_lane) do
      audit.is_wrong[id] = not is_right(audit, k, id)
    end
  end
  local wrong = {}
  for _, id in ipairs(ids) do
    wrong[#wrong + 1] = audit.is_wrong[id] and id or nil
  end
  return wrong, audit.commands
end
