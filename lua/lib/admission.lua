-- Admission: executions that budgets, quotas, routing or an operator hold back.

admission.ELIGIBILITY_OF_REASON = {
  waiting_for_budget = "blocked_by_budget",
  waiting_for_quota = "blocked_by_quota",
  waiting_for_capable_worker = "blocked_by_route",
  paused_by_operator = "blocked_by_operator",
  paused_by_policy = "blocked_by_lane_state",
}

-- Pauses that only their own reason may lift or replace.
local PAUSES = { blocked_by_operator = true, blocked_by_lane_state = true }

-- Whether an execution may be held back for `reason` now.
function admission.may_hold(k, core, reason, now)
  local standing = core.eligibility_state
  if standing == "blocked_by_dependencies" or standing == "not_eligible_until_time" then
    return false
  end
  local wanted = admission.ELIGIBILITY_OF_REASON[reason]
  if PAUSES[standing] and standing ~= wanted then
    return false
  end
  if PAUSES[wanted] then
    return true
  end
  local granted = (k.exec_core:gsub(":core$", ":claim_grant"))
  return granted == k.exec_core or guard.mismatch(granted, "hash") ~= nil
    or not grant.stands(granted, now)
end

-- Whether an execution that is held back may be released.
function admission.may_release(core, expected_reason)
  local standing = core.eligibility_state
  if standing == "blocked_by_lane_state" then
    return expected_reason == "paused_by_policy"
  end
  return standing == "blocked_by_budget" or standing == "blocked_by_quota"
    or standing == "blocked_by_route" or standing == "blocked_by_operator"
end

-- The index for an eligibility, in the lane of the record, or beside the caller's key if the record
-- has no lane. An eligibility without an index of its own uses the index name in the caller's key;
-- a key of another form is used as it is.
function admission.home(k, core, eligibility)
  local name = lane.INDEX_OF_ELIGIBILITY[eligibility or ""] or ""
  local prefix, given = k.blocked:match("^(.*:)(blocked:%a+)$")
  if text.set(core.lane_id) then
    prefix = lane.index(text.tag(k.exec_core), core.lane_id, "")
  end
  name = name:find("^blocked:") and name or given
  return prefix and name and prefix .. name or k.blocked
end

-- The indexes that may list an execution that is held or about to be held: by the caller's key and
-- by its record. Answers nil and a refusal if one of them is a key of another type.
function admission.leaving(k, core)
  local from = text.append({ k.blocked, admission.home(k, core, core.eligibility_state) },
    lane.homes(k.exec_core, core))
  local refused = guard.any_other(from, "zset")
  return not refused and from or nil, refused
end
