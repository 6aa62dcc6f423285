-- What a record demands of the indexes, and making it so.

-- Demands an entry at a stored time; an entry for which nothing is stored may stand anywhere, and
-- begins now.
local function demand_at(demand, name, stored, now)
  local time = number.floor(stored, 0)
  demand[name], demand.at[name] = time > 0 and time or now, time > 0
end

-- Demands the lane index of a runnable execution. Answers why it cannot be told, else nil.
local function demand_runnable(demand, core, now)
  local index = lane.INDEX_OF_ELIGIBILITY[core.eligibility_state]
    or core.eligibility_state == "blocked_by_lane_state" and lane.HELD_BY_LANE_BELONGS
  if not index then
    return "eligibility_state:" .. text.present(core.eligibility_state, "")
  end
  local name = index:gsub(":", "_")
  if name == "eligible" then
    demand[name], demand.at[name] = lane.eligible_score(core), true
  elseif name == "delayed" then
    demand_at(demand, name, core.delay_until, now)
  elseif name == "blocked_dependencies" then
    demand[name], demand.at[name] = number.floor(core.created_at, 0), true
  else
    -- When it was held is nobody's business but the eye's.
    demand_at(demand, name, core.last_transition_at, now)
    demand.at[name] = false
  end
  return nil
end

local function demand_active(demand, core, now)
  demand_at(demand, "active", core.lease_expires_at, now)
  demand.at.active = false
  if core.ownership_state ~= "lease_revoked" then
    demand_at(demand, "lease_expiry", core.lease_expires_at, now)
    -- A holder may have an empty name, but it has one.
    demand.worker_leases = core.current_worker_instance_id ~= nil or nil
  end
end

local function demand_suspended(demand, k)
  local timeout_at = number.floor(call("HGET", k.suspension_current, "timeout_at"), 0)
  local timed = timeout_at ~= 0
  demand.suspended, demand.at.suspended = timed and timeout_at or suspension.NEVER, true
  demand.suspension_timeout, demand.at.suspension_timeout = timed and timeout_at or nil, timed
end

-- Which index entries a record demands: { name of a key in `k` = score }, and true for the sets;
-- `at` names those that have to stand at just that score. No record demands nothing. Nil and the
-- reason when the record does not say where it belongs.
function lane.demand(k, core, now)
  local demand, phase = { at = {} }, core and core.lifecycle_phase
  if not core then
    return demand
  end
  demand.all_executions = true
  local unclear
  if phase == "runnable" then
    unclear = demand_runnable(demand, core, now)
  elseif phase == "active" then
    demand_active(demand, core, now)
  elseif phase == "suspended" then
    demand_suspended(demand, k)
  elseif phase == "terminal" then
    demand_at(demand, "terminal", core.completed_at, now)
  else
    unclear = "lifecycle_phase:" .. text.present(phase, "")
  end
  return not unclear and demand or nil, unclear
end

-- Whether an entry stands at a time at which nobody will look for it.
local function is_misplaced(name, demand, score)
  return score and demand.at[name] and math.floor(tonumber(score)) ~= math.floor(demand[name])
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

-- Makes the entries of `id` equal to `demand`.
-- Answers the changes: `+` or `-` and the key.
function lane.settle(k, id, demand, stands, strays)
  local changes = {}
  local function note(sign, key)
    changes[#changes + 1] = sign .. key
  end
  local function settle_scored(names)
    for _, name in ipairs(names) do
      local key = k[name]
      if demand[name] and (not stands[key] or is_misplaced(name, demand, stands[key])) then
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
