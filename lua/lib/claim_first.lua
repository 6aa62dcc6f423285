-- The usual claim, spelled out: the first attempt of an execution that has no time limits, needs no
-- capability and no admission, and about which nothing else was written. It decides and writes the
-- same as claim.verdict, claim.plan and claim.carry_out, at half of the cost, and leaves everything
-- unusual to them.

local NOTHING = {}

-- Whether the keys of the call are those of the lane that it names.
function claim.is_own_lane(k, tag, lane_id)
  local front = "ff:idx:" .. tag .. ":lane:" .. lane_id .. ":"
  return k.eligible == front .. "eligible" and k.active == front .. "active"
end

-- Whether the record of a candidate says that it can be claimed in the usual way. `v` = the values
-- of claim.SEARCH.
local function is_usual(v, lane_id)
  return v[1] == "pending_first_attempt" and v[2] == "runnable" and v[3] == "unowned"
    and v[4] == "eligible_now" and v[5] == lane_id and v[6] == "none" and v[7] == "0"
    and v[8] == "0" and (v[12] or "") == "" and (v[13] or "") == "" and (v[14] or "") == ""
end

-- Whether the flow of a candidate lets it start, as far as that is known.
local FLOW = { "public_flow_state", "cancellation_policy" }
local function flow_goes_on(tag, flow_id)
  local stored, refused = record.select("ff:flow:" .. tag .. ":" .. flow_id .. ":core", FLOW)
  return not refused and not (stored and flow.covers_members(stored))
end

-- The policy of a candidate if it says nothing about time limits, nil otherwise. `found` = how many
-- of the keys exist that a first claim writes to, or of this one.
local function policy_without_limits(key, found)
  if found == 0 then return "" end
  local stored = found == 1 and claim.text(key)
  -- With an escape, JSON can spell a name in more than one way.
  if stored and stored ~= "" and not stored:find("timeout_policy", 1, true)
    and not stored:find("\\", 1, true) then
    return stored
  end
  return nil
end

-- The plan to claim a candidate in the usual way. Nil if it is not a usual one or not for this
-- worker, and the values of claim.SEARCH if they were read. `taker` = { lease_id, attempt_id }, `a`
-- = the arguments of the call, whose keys are those of a.lane.
function claim.plan_first(a, taker, tag, id, now, ttl)
  local prefix = "ff:exec:" .. tag .. ":" .. id .. ":"
  local core, attempts, granted, held_by, payload_key, policy_key =
    prefix .. "core", prefix .. "attempts", prefix .. "claim_grant", prefix .. "lease:current",
    prefix .. "payload", prefix .. "policy"
  local opened = "ff:attempt:" .. tag .. ":" .. id .. ":0"
  local as_core, as_payload = known_keys[core], known_keys[payload_key]
  if as_core and as_core.kind ~= "hash" or as_payload and as_payload.kind ~= "string"
    or known_keys[attempts] or known_keys[granted] or known_keys[held_by]
    or known_keys[policy_key] or known_keys[opened] then
    return nil
  end
  local v = try("HMGET",
    core, "attempt_state", "lifecycle_phase", "ownership_state", "eligibility_state",
    "lane_id", "terminal_outcome", "total_attempt_count", "current_lease_epoch",
    "last_transition_at", "execution_kind", "flow_id",
    "required_capabilities", "budget_ids", "quota_policy_id", "namespace")
  if v.err then
    guard.refusal(v)
    return nil, v
  end
  local filter, kind, flow_id = a.work_filter, v[10] or "", v[11] or ""
  if filter and not filter:find("\n" .. (v[15] or "") .. "\t" .. kind .. "\n", 1, true)
    and not work_filter.suits(filter, v[15] or "", kind) then
    return nil, v
  end
  if not is_usual(v, a.lane) or flow_id ~= "" and not flow_goes_on(tag, flow_id) then
    return nil, v
  end
  local policy_text = policy_without_limits(policy_key,
    call("EXISTS", granted, attempts, held_by, opened, policy_key))
  local payload = policy_text and claim.text(payload_key)
  if not payload then return nil, v end
  return {
    id = id, core = core, attempts = attempts, kind = "initial",
    -- For attempt.open.
    key = opened, index = "0", policy_fields = NOTHING,
    held = lease.first_terms(a, taker, now, ttl),
    execution_kind = kind, flow_id = flow_id, payload = payload, policy = policy_text,
    waited_ms = claim.waited_ms(v[9], now),
  }
end

-- Sorts executions as the index `entering` will list them; those of other lanes come last.
local function sort_as_listed(ids, entering)
  local into, scores = entering and entering.into or NOTHING, {}
  for i = 1, #into, 2 do
    scores[into[i + 1]] = tonumber(into[i])
  end
  table.sort(ids, function(one, other)
    local first, second = scores[one] or math.huge, scores[other] or math.huge
    return first < second or first == second and one < other
  end)
end

-- Claims children that the call has made eligible, as far as `takers` are left and the claim is a
-- usual one. They leave `moves`; the plans join those of `found`. Whether any was claimed.
function claim.take_released(k, a, found, takers, tag, released, moves, now, ttl)
  local plans = found.plans
  local before = #plans
  if #released > 1 then sort_as_listed(released, moves[k.eligible]) end
  for i = 1, #released do
    local taker = takers[#plans + 1]
    if not taker then break end
    local planned = claim.plan_first(a, taker, tag, released[i], now, ttl)
    if planned then
      lane.uncollect(moves, released[i], k.eligible)
      claim.carry_out_first(k, planned)
      plans[#plans + 1] = planned
    end
  end
  return #plans > before
end

-- Carries out such a plan.
function claim.carry_out_first(k, planned)
  local id, held = planned.id, planned.held
  attempt.open(planned.attempts, id, planned, held, "initial", NOTHING)
  lease.start(k, planned.core, id, held, NOTHING, "current_attempt_index", "0",
    "total_attempt_count", "1", "current_attempt_id", held.attempt_id, "started_at", held.at)
end
