-- Lane and partition indexes. An execution is in exactly the lane index that its record demands
-- (OneHome). Only `lane.move` and `lane.carry_out` move it there; they also publish that it became
-- ready, held or ended.

-- Priorities outrank creation times by this factor in the eligible index.
local PRIORITY_STEP = 1000000000000
lane.PRIORITY_MAX = 9000

-- Every lane index, by the last part of its key.
lane.INDEXES = {
  "eligible", "delayed", "active", "suspended", "terminal", "blocked:dependencies",
  "blocked:budget", "blocked:quota", "blocked:route", "blocked:operator",
}

-- The lane index for each eligibility of a runnable execution.
lane.INDEX_OF_ELIGIBILITY = {
  eligible_now = "eligible",
  not_eligible_until_time = "delayed",
  blocked_by_dependencies = "blocked:dependencies",
  blocked_by_budget = "blocked:budget",
  blocked_by_quota = "blocked:quota",
  blocked_by_route = "blocked:route",
  blocked_by_operator = "blocked:operator",
}

-- Where an execution may be that is held by the state of its lane: the contract leaves it to the
-- caller. By default it is with those that the operator holds.
lane.HELD_BY_LANE_BELONGS = "blocked:operator"
local HELD_BY_LANE = { "blocked:budget", "blocked:quota", "blocked:route", "blocked:operator" }

-- `ff:idx:<tag>:lane:<lane>:<name>`
function lane.index(tag, lane_id, name)
  return "ff:idx:" .. tag .. ":lane:" .. lane_id .. ":" .. name
end

-- `ff:idx:<tag>:<name>`, an index of the whole partition.
function lane.partition_index(tag, name)
  return "ff:idx:" .. tag .. ":" .. name
end

-- The lane that an execution belongs to.
function lane.of(core)
  if core.lane_id and core.lane_id ~= "" then
    return core.lane_id
  end
  return text.either(core.lane_id, text.either(core.current_lane, "default"))
end

-- The indexes of its lane that may list a runnable execution; none for an eligibility that the
-- contract does not know.
function lane.homes(core_key, core)
  local names = { lane.INDEX_OF_ELIGIBILITY[core.eligibility_state or ""] }
  if core.eligibility_state == "blocked_by_lane_state" then
    names = HELD_BY_LANE
  end
  local homes = {}
  for i, name in ipairs(names) do
    homes[i] = lane.index(text.tag(core_key), lane.of(core), name)
  end
  return homes
end

-- The lane index of an execution that is no longer runnable, by its phase.
lane.INDEX_OF_PHASE = { active = "active", suspended = "suspended" }

-- The index that lists a live execution according to its record, if it does: then no other one
-- lists it (OneHome). Nil if it does not, or if the record does not name one.
function lane.home(core_key, id, core)
  local name = lane.INDEX_OF_PHASE[core.lifecycle_phase]
    or core.lifecycle_phase == "runnable" and lane.INDEX_OF_ELIGIBILITY[core.eligibility_state]
  if not name or not text.set(core.lane_id) then
    return nil
  end
  local home = lane.index(text.tag(core_key), core.lane_id, name)
  if guard.clash(home, "zset") then
    return nil
  end
  local score = try("ZSCORE", home, id)
  return not guard.refusal(score) and score and home or nil
end

-- The lane keys of a live execution, and all of them, by the names that bodies use.
lane.LIVE = {
  "eligible", "delayed", "active", "suspended", "blocked_dependencies", "blocked_budget",
  "blocked_quota", "blocked_route", "blocked_operator",
}
lane.ALL = {
  "eligible", "delayed", "active", "suspended", "terminal", "blocked_dependencies",
  "blocked_budget", "blocked_quota", "blocked_route", "blocked_operator",
}

-- The last part of the key for each of these names.
local LAST_PART = {}
for i = 1, #lane.ALL do
  LAST_PART[lane.ALL[i]] = lane.INDEXES[i]
end
-- Functions about flows call the index of children that wait for dependencies `blocked`.
LAST_PART.blocked = "blocked:dependencies"

-- Whether the named lane keys of `k` are those of the lane whose keys begin with `front`.
local function has_own(k, front, names)
  for i = 1, #names do
    local name = names[i]
    if k[name] ~= front .. LAST_PART[name] then
      return false
    end
  end
  return true
end

-- Points the named lane keys of `k` at the execution's own lane: the caller's keys come from an
-- earlier read, or from a worker of another lane. Names are those of lane.INDEXES with `_` for `:`.
-- If the record has no lane, the given keys are kept. Answers the other keys that may list the
-- execution (to be cleaned too), and all keys that the caller did not pass; neither list is to be
-- changed, since most calls have none of either and share one.
local NONE = {}
lane.NONE = NONE
function lane.point(k, core, names)
  local tag, home, claimed = text.tag(k.exec_core), lane.of(core), core.current_lane
  local elsewhere = claimed ~= home and text.set(claimed)
  local front = "ff:idx:" .. tag .. ":lane:" .. home .. ":"
  if not elsewhere and has_own(k, front, names) then
    return NONE, NONE
  end
  local stale_keys, derived = {}, {}
  for i = 1, #names do
    local name = names[i]
    local own = front .. LAST_PART[name]
    if k[name] ~= own and (text.set(core.lane_id) or not text.set(k[name])) then
      stale_keys[#stale_keys + 1] = k[name]
      derived[#derived + 1] = own
      k[name] = own
    end
    if elsewhere and name == "active" then
      stale_keys[#stale_keys + 1] = lane.index(tag, claimed, "active")
      derived[#derived + 1] = stale_keys[#stale_keys]
    end
  end
  return stale_keys, derived
end

-- The same, but answers nil and the refusal if one of the keys holds a value of another type.
function lane.locate(k, core, names)
  local stale_keys, derived = lane.point(k, core, names)
  local refused = derived[1] and guard.any_other(derived, "zset")
  if refused then
    return nil, refused
  end
  return stale_keys
end

-- The lane keys of `k` that may list a live execution, and `stale_keys`.
function lane.live(k, stale_keys)
  local keys = {}
  for _, name in ipairs(lane.LIVE) do
    if text.set(k[name]) then
      keys[#keys + 1] = k[name]
    end
  end
  return text.append(keys, stale_keys)
end

-- The set of executions that a worker instance holds.
function lane.worker_leases(tag, worker_instance_id)
  return "ff:idx:" .. tag .. ":worker:" .. (worker_instance_id or "") .. ":leases"
end

function lane.clamp_priority(priority)
  if priority > lane.PRIORITY_MAX then
    return lane.PRIORITY_MAX
  end
  return priority > 0 and priority or 0
end

-- A priority argument, clamped however large it is, or nil and a refusal.
function lane.priority(value, name)
  local priority = tonumber(value)
  if priority == nil or priority ~= priority then
    return nil, err("invalid_input", name .. " must be a number, got: " .. tostring(value))
  end
  return lane.clamp_priority(priority)
end

-- The lowest score is claimed first: higher priority, then older.
function lane.eligible_score(core)
  return lane.score_of(number.floor(core.created_at, 0),
    lane.clamp_priority(number.either(core.priority, 0)))
end

function lane.score_of(created_at, priority)
  return created_at - priority * PRIORITY_STEP
end

-- Removes `id` from every index in `from` (unset ones are skipped), and from `home` if that is
-- given too, and adds it to `to`. `from` = { n = count, key, … } or a plain list without holes;
-- without `to` it is only removed.
function lane.move(id, from, to, score, home)
  if home and home ~= to then
    call("ZREM", home, id)
  end
  for i = 1, from.n or #from do
    local key = from[i]
    if key and key ~= "" and key ~= to then
      call("ZREM", key, id)
    end
  end
  if to and to ~= "" and call("ZADD", to, number.text(score), id) == 1 then
    push.entered(to, id, score)
  end
end

-- The same for many executions of one call: moves are collected first, and carried out with one
-- command per index instead of two per execution. `moves` starts as an empty table; it holds one
-- list for every index that executions leave (`out`) or enter (`into`). A new execution leaves
-- none.
function lane.collect(moves, id, from, to, score)
  local leaving, entering = from and moves[from], moves[to]
  if from and not leaving then
    leaving = { key = from, out = {} }
    moves[from], moves[#moves + 1] = leaving, leaving
  end
  if not entering then
    entering = { key = to, into = {}, first = id }
    moves[to], moves[#moves + 1] = entering, entering
  end
  if leaving then
    leaving.out[#leaving.out + 1] = id
  end
  local into = entering.into
  into[#into + 1] = number.digits(score)
  into[#into + 1] = id
end

-- Takes an execution out of the collected moves into the index `to`, since it goes elsewhere.
function lane.uncollect(moves, id, to)
  local into = moves[to] and moves[to].into or {}
  for i = 2, #into, 2 do
    if into[i] == id then
      table.remove(into, i)
      table.remove(into, i - 1)
      return
    end
  end
end

-- Carries out the moves that lane.collect collected.
function lane.carry_out(moves)
  for _, list in ipairs(moves) do
    if list.out then
      record.each_chunk("ZREM", list.key, list.out)
    elseif record.each_chunk("ZADD", list.key, list.into) > 0 then
      push.entered(list.key, list.first, list.into)
    end
  end
end
