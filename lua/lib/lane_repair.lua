-- The index entries that a record requires, and the repair of those that differ.

-- Expects an entry at a stored time; if no time is stored, any score is accepted, and a new entry
-- gets `now`.
local function expect_at(expected, name, stored, now)
  local time = number.floor(stored, 0)
  expected[name], expected.at[name] = time > 0 and time or now, time > 0
end

-- Expects the lane index of a runnable execution. Answers why it is unknown, else nil.
local function expect_runnable(expected, core, now)
  local index = lane.INDEX_OF_ELIGIBILITY[core.eligibility_state]
    or core.eligibility_state == "blocked_by_lane_state" and lane.HELD_BY_LANE_BELONGS
  if not index then
    return "eligibility_state:" .. text.present(core.eligibility_state, "")
  end
  local name = index:gsub(":", "_")
  if name == "eligible" then
    expected[name], expected.at[name] = lane.eligible_score(core), true
  elseif name == "delayed" then
    expect_at(expected, name, core.delay_until, now)
  elseif name == "blocked_dependencies" then
    expected[name], expected.at[name] = number.floor(core.created_at, 0), true
  else
    -- The score is only shown to people: any value is accepted.
    expect_at(expected, name, core.last_transition_at, now)
    expected.at[name] = false
  end
  return nil
end

local function expect_active(expected, core, now)
  expect_at(expected, "active", core.lease_expires_at, now)
  expected.at.active = false
  if core.ownership_state ~= "lease_revoked" then
    expect_at(expected, "lease_expiry", core.lease_expires_at, now)
    -- The instance id of a holder may be empty, but not missing.
    expected.worker_leases = core.current_worker_instance_id ~= nil or nil
  end
end

local function expect_suspended(expected, k)
  local timeout_at = number.floor(call("HGET", k.suspension_current, "timeout_at"), 0)
  local timed = timeout_at ~= 0
  expected.suspended, expected.at.suspended = timed and timeout_at or suspension.NEVER, true
  expected.suspension_timeout, expected.at.suspension_timeout = timed and timeout_at or nil, timed
end

-- The index entries that a record requires: { name of a key in `k` = score }, and true for the
-- sets; `at` names those that need exactly that score. Without a record there are none. Nil and the
-- reason if the record's state is unknown.
function lane.expected_entries(k, core, now)
  local expected, phase = { at = {} }, core and core.lifecycle_phase
  if not core then
    return expected
  end
  expected.all_executions = true
  local unclear
  if phase == "runnable" then
    unclear = expect_runnable(expected, core, now)
  elseif phase == "active" then
    expect_active(expected, core, now)
  elseif phase == "suspended" then
    expect_suspended(expected, k)
  elseif phase == "terminal" then
    expect_at(expected, "terminal", core.completed_at, now)
  else
    unclear = "lifecycle_phase:" .. text.present(phase, "")
  end
  return not unclear and expected or nil, unclear
end

-- Whether an entry has another score than the one it is looked up by.
local function is_misplaced(name, expected, score)
  return score and expected.at[name] and math.floor(tonumber(score)) ~= math.floor(expected[name])
end

-- Whether an entry has to be removed that the record does not require. Timeouts of a live execution
-- are kept: they come from the policy or from a caller.
local function is_surplus(name, expected)
  local ended = expected.terminal or not expected.all_executions
  return expected[name] == nil
    and (ended or (name ~= "attempt_timeout" and name ~= "execution_deadline"))
end

-- What has to be done about an entry: `+` to add or move it, `-` to remove it, else nil.
local function change_of(name, expected, entry)
  if expected[name] and (not entry or is_misplaced(name, expected, entry)) then
    return "+"
  end
  return entry and is_surplus(name, expected) and "-" or nil
end

-- The indexes of a partition that list executions at a time.
lane.TIMES = { "lease_expiry", "suspension_timeout", "attempt_timeout", "execution_deadline" }
local SETS = { "worker_leases", "all_executions" }

-- The current entries of `id`: a value per key that lists it. Nil and the server's refusal if one
-- of the keys holds another type.
function lane.current_entries(k, id, stale_keys)
  local entries = {}
  local function look(command, key)
    local found = try(command, key, id)
    if type(found) == "table" then
      return redis.error_reply(found.err)
    end
    entries[key] = found ~= 0 and found
  end
  local function look_under(command, names)
    for _, name in ipairs(names) do
      local refused = look(command, k[name])
      if refused then
        return refused
      end
    end
  end
  local refused = look_under("ZSCORE", lane.ALL) or look_under("ZSCORE", lane.TIMES)
    or look_under("SISMEMBER", SETS)
  for _, key in ipairs(stale_keys) do
    refused = refused or look("ZSCORE", key)
  end
  if refused then
    return nil, refused
  end
  return entries
end

-- Whether entries differ from `expected`; `entry_of(key)` answers an entry. The set that lists
-- every execution is left out.
function lane.differs(k, expected, entry_of)
  for _, name in ipairs(lane.ALL) do
    if change_of(name, expected, entry_of(k[name])) then return true end
  end
  for _, name in ipairs(lane.TIMES) do
    if change_of(name, expected, entry_of(k[name])) then return true end
  end
  return (expected.worker_leases or false) ~= (entry_of(k.worker_leases) and true or false)
end

-- Makes the entries of `id` equal to `expected`. Answers the changes: `+` or `-` and the key.
function lane.repair_entries(k, id, expected, entries, stale_keys)
  local changes = {}
  local function note(sign, key)
    changes[#changes + 1] = sign .. key
  end
  local function settle_scored(names)
    for _, name in ipairs(names) do
      local key = k[name]
      local change = change_of(name, expected, entries[key])
      if change == "+" then
        lane.move(id, {}, key, expected[name])
        note("+", key)
      elseif change == "-" then
        lane.move(id, { key })
        note("-", key)
      end
    end
  end
  settle_scored(lane.ALL)
  settle_scored(lane.TIMES)
  for _, key in ipairs(stale_keys) do
    if entries[key] then
      call("ZREM", key, id)
      note("-", key)
    end
  end
  for _, name in ipairs(SETS) do
    local key = k[name]
    if expected[name] and not entries[key] then
      call("SADD", key, id)
      note("+", key)
    elseif entries[key] and not expected[name] then
      call("SREM", key, id)
      note("-", key)
    end
  end
  return changes
end
