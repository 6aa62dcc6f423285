-- Admission: executions that budgets, quotas, routing or an operator hold back.

admission.ELIGIBILITY_OF_REASON = {
  waiting_for_budget = "blocked_by_budget",
  waiting_for_quota = "blocked_by_quota",
  waiting_for_capable_worker = "blocked_by_route",
  paused_by_operator = "blocked_by_operator",
  paused_by_policy = "blocked_by_lane_state",
}

-- What only the one who paused it may lift or replace.
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

-- The index for an eligibility, beside the blocked index `key` of the same lane. An eligibility
-- without an index of its own, and a key of another form, stay with `key`.
function admission.home(key, eligibility)
  local name = lane.INDEX_OF_ELIGIBILITY[eligibility or ""]
  local prefix = key:match("^(.*:)blocked:%a+$")
  local apart = name and name:find("^blocked:") and prefix
  return apart and prefix .. name or key
end

-- The indexes in which an execution that is held, or about to be, may be found: by the caller's
-- key and by its own record. Answers nil and a refusal when one of them is foreign.
function admission.leaving(k, core)
  local from = text.append({ k.blocked, admission.home(k.blocked, core.eligibility_state) },
    lane.homes(k.exec_core, core))
  local refused = guard.any_other(from, "zset")
  return not refused and from or nil, refused
end
