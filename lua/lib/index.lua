-- What a record demands of the indexes, and making it so.

-- A time for an entry that is missing: the stored one, or now where nothing is stored.
local function time_or(value, now)
  local time = number.floor(value, 0)
  return time > 0 and time or now
end

-- The lane index of a runnable execution with its score, or nil and why it cannot be told.
local function runnable_home(core, now)
  local index = lane.INDEX_OF_ELIGIBILITY[core.eligibility_state]
  if not index then
    return nil, "eligibility_state:" .. text.present(core.eligibility_state, "")
  end
  local name = index:gsub(":", "_")
  if name == "eligible" then
    return name, lane.eligible_score(core)
  elseif name == "delayed" then
    return name, time_or(core.delay_until, now)
  elseif name == "blocked_dependencies" then
    return name, number.floor(core.created_at, 0)
  end
  return name, time_or(core.last_transition_at, now)
end

local function suspended_home(k)
  local timeout_at = number.floor(call("HGET", k.suspension_current, "timeout_at"), 0)
  return "suspended", timeout_at ~= 0 and timeout_at or suspension.NEVER, timeout_at ~= 0
end

-- Which index entries a record demands: { name of a key in `k` = score }, and true for the sets.
-- No record demands nothing. Nil and the reason when the record does not say where it belongs.
function lane.demand(k, core, now)
  if not core then
    return {}
  end
  local demand, phase = { all_executions = true }, core.lifecycle_phase
  if phase == "runnable" then
    local home, score = runnable_home(core, now)
    if not home then
      return nil, score
    end
    demand[home] = score
  elseif phase == "active" then
    demand.active = time_or(core.lease_expires_at, now)
    if core.ownership_state ~= "lease_revoked" then
      demand.lease_expiry = demand.active
      -- A holder may have an empty name, but it has one.
      demand.worker_leases = core.current_worker_instance_id ~= nil or nil
    end
  elseif phase == "suspended" then
    local home, score, timed = suspended_home(k)
    demand[home] = score
    demand.suspension_timeout = timed and score or nil
  elseif phase == "terminal" then
    demand.terminal = time_or(core.completed_at, now)
  else
    return nil, "lifecycle_phase:" .. text.present(phase, "")
  end
  return demand
end

-- Whether an entry must go that the record does not demand. Timeouts of a live execution may
-- stand: not the record but the policy or a caller asked for them.
local function is_surplus(name, demand)
  local ended = demand.terminal or not demand.all_executions
  return demand[name] == nil
    and (ended or (name ~= "attempt_timeout" and name ~= "execution_deadline"))
end

local ZSETS = {
  "lease_expiry", "suspension_timeout", "attempt_timeout", "execution_deadline",
}
local SETS = { "worker_leases", "all_executions" }

-- Where `id` stands: a value per key that lists it. Nil and the server's refusal when one of the
-- keys holds something else.
function lane.standing(k, id, strays)
  local stands = {}
  local function look(command, key)
    local found = try(command, key, id)
    if type(found) == "table" then
      return redis.error_reply(found.err)
    end
    stands[key] = found ~= 0 and found
  end
  local function look_under(command, names)
    for _, name in ipairs(names) do
      local refused = look(command, k[name])
      if refused then
        return refused
      end
    end
  end
  local refused = look_under("ZSCORE", lane.ALL) or look_under("ZSCORE", ZSETS)
    or look_under("SISMEMBER", SETS)
  for _, key in ipairs(strays) do
    refused = refused or look("ZSCORE", key)
  end
  if refused then
    return nil, refused
  end
  return stands
end

-- Makes the entries of `id` equal to `demand`; an entry that is where it belongs keeps its score.
-- Answers the changes: `+` or `-` and the key.
function lane.settle(k, id, demand, stands, strays)
  local changes = {}
  local function note(sign, key)
    changes[#changes + 1] = sign .. key
  end
  local function settle_scored(names)
    for _, name in ipairs(names) do
      local key = k[name]
      if demand[name] and not stands[key] then
        lane.move(id, {}, key, demand[name])
        note("+", key)
      elseif stands[key] and is_surplus(name, demand) then
        lane.move(id, { key })
        note("-", key)
      end
    end
  end
  settle_scored(lane.ALL)
  settle_scored(ZSETS)
  for _, key in ipairs(strays) do
    if stands[key] then
      call("ZREM", key, id)
      note("-", key)
    end
  end
  for _, name in ipairs(SETS) do
    local key = k[name]
    if demand[name] and not stands[key] then
      call("SADD", key, id)
      note("+", key)
    elseif stands[key] and not demand[name] then
      call("SREM", key, id)
      note("-", key)
    end
  end
  return changes
end
