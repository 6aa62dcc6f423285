-- The search for the first eligible execution that a worker can run.

-- How many entries of the index are read first, since most often the first can be claimed; how many
-- are read at a time after that, and looked at in one call at most.
local FIRST_PAGE = 2
local PAGE = 16
local WINDOW_MAX = 256

-- The numbers of the call, or nil and a refusal.
function claim.numbers(a)
  local ttl, refused = number.require_span(a.lease_ttl_ms, "lease_ttl_ms", 1)
  if not ttl then return nil, refused end
  local window, offset
  window, refused = number.optional(a.window, "window", 64)
  if not window then return nil, refused end
  offset, refused = number.optional(a.offset, "offset", 0)
  if not offset then return nil, refused end
  return {
    ttl = ttl,
    window = math.max(1, math.min(window, WINDOW_MAX)),
    offset = math.max(0, offset),
  }
end

-- The refusal of a value of another type under a key of the partition that a claim writes to, else
-- nil. Checked only when there is something to claim: most calls of an idle worker find nothing.
-- The plan has checked the indexes of limits where it writes to them.
function claim.type_refusal(k)
  return guard.mismatch(k.active, "zset") or guard.mismatch(k.lease_expiry, "zset")
    or guard.mismatch(k.worker_leases, "set")
end

-- Looks at one candidate: a plan to claim it, or nil and why not (skip, drop, admit).
local function consider(k, a, tag, id, now, ttl)
  local keys = claim.keys(k, tag, id)
  local core, refused = claim.read(keys.exec_core, claim.SEARCH)
  if refused then return nil, "skip" end
  local verdict = claim.verdict(keys, id, core, a.worker_capabilities_csv, now)
  if verdict ~= "take" then return nil, verdict end
  if id ~= a.admitted_execution_id
    and (text.set(core.budget_ids) or text.set(core.quota_policy_id)) then
    return nil, "admit", core
  end
  local payload, policy_text = claim.text(keys.payload), claim.text(keys.policy)
  if not payload or not policy_text then return nil, "skip" end
  local planned = claim.plan(keys, id, core, a, now, ttl, policy_text)
  if not planned then return nil, "skip" end
  planned.id, planned.keys, planned.core = id, keys, core
  planned.payload, planned.policy = payload, policy_text
  planned.waited_ms = claim.waited_ms(core, now)
  return planned
end

-- Looks at the admitted execution, then walks the index from `offset`. Answers the plan or the
-- execution to admit, how many entries were seen, which to drop, and whether the end was reached.
function claim.search(k, a, tag, numbers, now)
  local found = { seen = 0, dropped = {} }
  local function settles(id)
    local planned, verdict, core = consider(k, a, tag, id, now, numbers.ttl)
    if planned or verdict == "admit" then
      found.planned, found.admit, found.core = planned, id, core
      return true
    elseif verdict == "drop" then
      found.dropped[#found.dropped + 1] = id
    end
    return false
  end
  local admitted = text.either(a.admitted_execution_id, nil)
  if admitted and call("ZSCORE", k.eligible, admitted) and settles(admitted) then
    return found
  end
  while found.seen < numbers.window and not found.ended do
    local first = numbers.offset + found.seen
    local page = found.seen == 0 and FIRST_PAGE or PAGE
    local last = first + math.min(page, numbers.window - found.seen) - 1
    local ids = call("ZRANGE", k.eligible, number.digits(first), number.digits(last))
    for _, id in ipairs(ids) do
      if id ~= admitted and settles(id) then return found end
    end
    found.seen = found.seen + #ids
    found.ended = #ids < last - first + 1
  end
  return found
end
