-- The search for the first eligible executions that a worker can run.

-- How many entries of the index are read first beyond those that are wanted, since most often the
-- first can be claimed; how many are read at a time after that, and looked at in one call at most.
local SPARE = 1
local PAGE = 16
local WINDOW, WINDOW_MAX = 64, 256

-- The numbers of the call, or nil and a refusal. `offset` is a number of candidates to pass over,
-- or the id of the one after which to start; ids begin with a brace.
function claim.numbers(a)
  local ttl, refused = number.require_span(a.lease_ttl_ms, "lease_ttl_ms", 1)
  if not ttl then return nil, refused end
  if a.window == "" and a.offset == "" then
    return { ttl = ttl, window = WINDOW, offset = 0 }
  end
  local window, offset
  window, refused = number.optional(a.window, "window", WINDOW)
  if not window then return nil, refused end
  local given = a.offset or ""
  local after = given:byte(1) == 123 and given or nil
  offset, refused = number.optional(after and "" or given, "offset", 0)
  if not offset then return nil, refused end
  return {
    ttl = ttl,
    window = math.max(1, math.min(window, WINDOW_MAX)),
    offset = math.max(0, offset),
    after = after,
  }
end

-- The refusal of a value of another type under a key of the partition that a claim writes to, else
-- nil. Checked only when there is something to claim: most calls of an idle worker find nothing.
-- The plan has checked the indexes of limits where it writes to them.
function claim.type_refusal(k)
  return guard.mismatch(k.active, "zset") or guard.mismatch(k.lease_expiry, "zset")
    or guard.mismatch(k.worker_leases, "set")
end

-- Notes a candidate that is not for this worker because of its kind: the first is answered, so that
-- a kind which nobody takes is noticed.
local function note_other(found, filter, namespace, kind, since, now)
  if not found.other_kind and work_filter.serves(filter, namespace) then
    found.other_kind, found.other_waited_ms = kind, claim.waited_ms(since, now)
  end
end

-- Looks at one candidate for the claim { lease_id, attempt_id } of the worker in `a`: a plan to
-- claim it, or nil and why not (skip, drop, admit). `values` = those of claim.SEARCH if they were
-- read.
local function consider(found, k, a, taker, tag, id, now, ttl, values)
  local filter = a.work_filter
  if filter and values and values[2] == "runnable" and values[4] == "eligible_now"
    and not work_filter.suits(filter, values[15] or "", values[10] or "") then
    note_other(found, filter, values[15] or "", values[10] or "", values[9], now)
    return nil, "skip"
  end
  local keys = claim.keys(k, tag, id)
  local core, refused = claim.read(keys.exec_core, claim.SEARCH, values)
  if refused then return nil, "skip" end
  local verdict = claim.verdict(keys, id, core, a.worker_capabilities_csv, now)
  if verdict == "drop" then return nil, verdict end
  local namespace, kind = core.namespace or "", core.execution_kind or ""
  if filter and not work_filter.suits(filter, namespace, kind) then
    note_other(found, filter, namespace, kind, core.last_transition_at, now)
    return nil, "skip"
  end
  if verdict == "skip" then return nil, verdict end
  if id ~= a.admitted_execution_id
    and (text.set(core.budget_ids) or text.set(core.quota_policy_id)) then
    return nil, "admit", core
  end
  local payload, policy_text = claim.text(keys.payload), claim.text(keys.policy)
  if not payload or not policy_text then return nil, "skip" end
  local planned = claim.plan(keys, id, core, {
    lane = a.lane, worker_id = a.worker_id, worker_instance_id = a.worker_instance_id,
    lease_id = taker.lease_id, attempt_id = taker.attempt_id,
  }, now, ttl, policy_text)
  if not planned then return nil, "skip" end
  planned.id, planned.keys = id, keys
  planned.execution_kind, planned.flow_id = core.execution_kind or "", core.flow_id or ""
  planned.payload, planned.policy = payload, policy_text
  planned.waited_ms = claim.waited_ms(core.last_transition_at, now)
  return planned
end

-- The same for the next of the `takers`; notes in `found` what came of it. Whether the search is
-- over.
local function settles(found, k, a, takers, tag, id, now, ttl)
  local plans = found.plans
  local taker = takers[#plans + 1]
  local planned, values, verdict, core
  if found.in_own_lane then
    planned, values = claim.plan_first(a, taker, tag, id, now, ttl)
  end
  if not planned then
    planned, verdict, core = consider(found, k, a, taker, tag, id, now, ttl, values)
  end
  if planned then
    plans[#plans + 1] = planned
    return #plans == #takers
  elseif verdict == "admit" then
    found.admit, found.core = id, core
    return true
  elseif verdict == "drop" then
    found.dropped[#found.dropped + 1] = id
  else
    found.passed = id
  end
  return false
end

-- Looks at the admitted execution, then walks the index from `offset`, until each of the `takers`
-- has a plan or an execution must be admitted first. Answers the plans or the execution to admit,
-- how many entries were seen, which to drop, and whether the end was reached.
function claim.search(k, a, takers, tag, numbers, now)
  local ttl, seen, ended = numbers.ttl, 0, false
  local found = {
    plans = {}, dropped = {}, seen = 0, ended = false, admit = nil, core = nil,
    in_own_lane = claim.is_own_lane(k, tag, a.lane), start = numbers.offset,
    -- Only if candidates are not for this worker: passed, other_kind, other_waited_ms.
  }
  local admitted = text.either(a.admitted_execution_id, nil)
  if admitted and call("ZSCORE", k.eligible, admitted)
    and settles(found, k, a, takers, tag, admitted, now, ttl) then
    return found
  end
  found.passed = nil
  if numbers.after then
    -- If it is gone, what stood before it was claimed first, most likely: the search starts over.
    local rank = call("ZRANK", k.eligible, numbers.after)
    found.start = rank and rank + 1 or 0
  end
  while seen < numbers.window and not ended do
    local first = found.start + seen
    local page = seen == 0 and #takers + SPARE or PAGE
    local last = first + math.min(page, numbers.window - seen) - 1
    local ids = call("ZRANGE", k.eligible, number.digits(first), number.digits(last))
    for i = 1, #ids do
      local id = ids[i]
      if id ~= admitted and settles(found, k, a, takers, tag, id, now, ttl) then return found end
    end
    seen = seen + #ids
    ended = #ids < last - first + 1
    found.seen, found.ended = seen, ended
  end
  return found
end

-- Carries out the plans of a search, and drops the entries that it found stale.
function claim.take(k, found)
  if found.dropped[1] then record.each_chunk("ZREM", k.eligible, found.dropped) end
  for i = 1, #found.plans do
    local planned = found.plans[i]
    if planned.keys then
      claim.carry_out(planned.keys, planned.id, planned, claim.BY_WORKER)
    else
      claim.carry_out_first(k, planned)
    end
  end
end

-- What a search without a plan answers. A worker with a filter is told after which execution to go
-- on (none at the end), and of a kind that it does not take; others are told an offset.
function claim.none(found, a)
  if found.admit then
    return "needs_admission", found.admit, found.core.budget_ids, found.core.quota_policy_id
  end
  if found.seen == #found.dropped and found.start == 0 and found.ended then
    return "empty"
  end
  if a.work_filter then
    return "none_claimable", not found.ended and found.passed or "", found.other_kind,
      found.other_waited_ms
  end
  local next_offset = found.start + found.seen - #found.dropped
  return "none_claimable", found.ended and 0 or next_offset
end

-- Several claims in one call: the lease and attempt ids follow the named arguments in pairs, one
-- pair for each execution that is wanted, and after them the work filter, if there is one; it
-- becomes a.work_filter. Answers the takers, or nil and a refusal.
local WANTED_MAX = 64
function claim.takers(arg_list, named, a)
  local takers, given, last = {}, {}, #arg_list
  if (last - named) % 2 == 1 then
    local filter = arg_list[last]
    if filter:byte() ~= 10 or #filter > work_filter.BYTES_MAX then
      return nil, work_filter.refusal()
    end
    a.work_filter, last = filter, last - 1
  end
  for i = named + 1, last, 2 do
    if arg_list[i] == "" or not arg_list[i + 1] or given[arg_list[i]] then
      return nil, err("invalid_input", "lease ids must be set and differ, each with an attempt id")
    end
    given[arg_list[i]] = true
    takers[#takers + 1] = { lease_id = arg_list[i], attempt_id = arg_list[i + 1] }
  end
  if #takers < 1 or #takers > WANTED_MAX then
    return nil, err("invalid_input", "1 to " .. WANTED_MAX .. " claims in one call")
  end
  return takers
end

-- What the plans of a search got, as a note: a repeated call reads from it what to answer.
function claim.note(plans)
  local parts = {}
  for i = 1, #plans do
    parts[i] = plans[i].id .. "|" .. plans[i].waited_ms
  end
  return table.concat(parts, "|")
end

-- Appends the claims of a note that are still valid to `reply`, each as an array; how many there
-- are.
function claim.append_noted(reply, k, a, tag, takers, note, now)
  local count, found = 0, 0
  for id, waited_ms in note:gmatch("([^|]+)|(%d+)") do
    count = count + 1
    local taker, keys = takers[count], claim.keys(k, tag, id)
    local core = taker and record.read(keys.exec_core) or {}
    if taker and lease.already_granted(core, a, now, taker.lease_id) then
      local again = claim.answer_again(keys, tag, id, core, waited_ms)
      reply[#reply + 1] = { unpack(again, 4) }
      found = found + 1
    end
  end
  return found
end

-- Appends the claims of a search to `reply`, each as an array. A worker with a filter that was not
-- given what came first is also told the last execution that was passed over, and of a kind that it
-- does not take: `passed`, id, kind, how long that had waited.
function claim.append_planned(reply, found, a)
  local plans = found.plans
  for i = 1, #plans do
    reply[#reply + 1] = { unpack(claim.answer(plans[i]), 4) }
  end
  if found.passed and a.work_filter then
    reply[#reply + 1] =
      { "passed", found.passed, found.other_kind or "", found.other_waited_ms or "" }
  end
  return reply
end
