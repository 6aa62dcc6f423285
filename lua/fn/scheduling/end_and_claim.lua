-- Reports the end of a run, as ff_complete_execution or ff_fail_execution does, and claims up to
-- `n` eligible executions of a lane of the same partition, as ff_claim_many does: one call per
-- task. The lease and attempt ids follow the named arguments in pairs. If the end is refused,
-- nothing is claimed. What was claimed is noted in the ended record, so a repeated call with the
-- same lease ids gets the same answer, as far as the claims are still valid; a repetition of a call
-- that claimed nothing is refused as ff_complete_execution refuses it. The lease history gets an
-- entry only if there is one already: the attempt says the same. An added function.
--
-- After a success it also resolves the edges to up to eight children that wait for all of theirs,
-- and claims what becomes eligible by that in the same lane, so that a chain needs one call per
-- task. The engine, which is told of every end, resolves all other edges.
-- Keys: exec_core (hash, of the ended execution), result (string), terminal (zset), delayed (zset),
--   eligible (zset), active (zset), lease_expiry (zset), worker_leases (set), attempt_timeout
--   (zset), execution_deadline (zset)
-- Arguments: execution_id, lease_id, lease_epoch, attempt_id, ending (complete or fail),
--   outcome (the result, or why it failed), failure_category, retry_policy_json, lane, worker_id,
--   worker_instance_id, worker_capabilities_csv, lease_ttl_ms, window, offset, then lease_id and
--   attempt_id per claim, then the work filter, as for ff_claim_many
-- Replies: completed, retry_scheduled, terminal_failed, claimed, needs_admission, none_claimable,
--   empty, lapsed
-- Errors: invalid_input, invalid_capabilities, execution_not_found, partial_fence_triple,
--   fence_required, execution_not_active, lease_revoked, lease_expired, stale_lease
-- Bound: 321 + 60 * n
-- Keeps: EdgeByTruth, GroupCounts, NoRunBeforeParents, OneHolder, OneHome, FenceNeverRepeats,
--   AttemptsHonest, VectorWhole, RepeatIsHarmless
local LANES, LANES_OF_RETRY = { "active", "terminal" }, { "active", "terminal", "delayed" }

-- The keys of the ended execution: those of the call, and those that its id names.
local function keys_of_end(k, tag, id)
  local prefix = "ff:exec:" .. tag .. ":" .. id .. ":"
  return {
    exec_core = k.exec_core, result = k.result, terminal = k.terminal, delayed = k.delayed,
    active = k.active, lease_expiry = k.lease_expiry, worker_leases = k.worker_leases,
    attempt_timeout = k.attempt_timeout, execution_deadline = k.execution_deadline,
    lease_current = prefix .. "lease:current", lease_history = prefix .. "lease:history",
    attempt = nil, stream_meta = nil,
  }
end

-- Looks at once at what the end of a run on our own path most often does not find, unlike the end
-- of others: neither limits nor an output stream, nor records of the lease. Answers nil or a
-- refusal. Only where there is a lease history is the attempt not the first that is written.
local function look_up(e)
  local timeout, deadline, meta = e.attempt_timeout, e.execution_deadline, e.stream_meta
  if call("EXISTS", timeout, deadline, meta, e.lease_current, e.lease_history) == 0
    and guard.note_missing(timeout, "zset") and guard.note_missing(deadline, "zset")
    and guard.note_missing(meta, "hash") and guard.note_missing(e.lease_current, "hash")
    and guard.note_missing(e.lease_history, "stream") then
    return guard.clash(e.attempt, "hash")
  end
  return completion.look_up(e) or guard.clash(e.lease_current, "hash")
    or guard.mismatch(e.lease_history, "stream") or guard.mismatch(e.attempt, "hash")
end

-- What the ended record notes about the claims: `next_claim` = the first lease id and how the run
-- ended, `next_1`, `next_2`, … = the claims. Each is short enough for the compact form of a hash.
local STATUS = { c = "completed", f = "terminal_failed", r = "retry_scheduled" }
local function note_fields(first_lease_id, ending, plans)
  local fields = { "next_claim", first_lease_id .. "|" .. ending.code .. ending.retry_at }
  for i = 1, #plans do
    fields[#fields + 1] = "next_" .. i
    fields[#fields + 1] = plans[i].id .. "|" .. plans[i].waited_ms
  end
  return fields
end

-- The answer of an earlier call with these lease ids, nil if there was none.
local function earlier_answer(k, a, takers)
  local first, code, retry_at =
    (record.peek(k.exec_core, "next_claim") or ""):match("^(.*)|(%a)(%d*)$")
  if first ~= takers[1].lease_id then return nil end
  local notes = {}
  for i = 1, #takers do
    notes[i] = record.peek(k.exec_core, "next_" .. i)
    if not notes[i] then break end
  end
  local reply = { 1, "OK", STATUS[code] or "", retry_at, "claimed" }
  if claim.append_noted(reply, k, a, text.tag(k.exec_core), takers, table.concat(notes, "|"),
    number.now()) == 0 then
    reply[5] = "lapsed"
  end
  return reply
end

-- The plan of the end: { keys, act, failure, code, retry_at }, or nil and a refusal.
local function plan_end(k, a)
  local id, tag = a.execution_id, text.tag(k.exec_core)
  if k.exec_core ~= "ff:exec:" .. tag .. ":" .. id .. ":core" then
    return nil, err("invalid_input", "core is not the key of execution_id")
  end
  local fails, e = a.ending == "fail", keys_of_end(k, tag, id)
  if not fails and a.ending ~= "complete" then
    return nil, err("invalid_input", "ending must be complete or fail, got: " .. a.ending)
  end
  local act, refused = lease.begin_end(e, a, fails and LANES_OF_RETRY or LANES)
  if not act then return nil, refused end
  if not e.attempt then
    e.attempt, e.stream_meta = attempt.key(tag, id, "0"), stream.meta(tag, id, "0")
  end
  -- The record may name another lane than the call: then both have an index to write.
  refused = look_up(e)
    or fails and (guard.mismatch(k.delayed, "zset") or guard.mismatch(e.delayed, "zset"))
  if refused then return nil, refused end
  if not fails then return { keys = e, act = act, code = "c", retry_at = "" } end
  local failure = completion.failure(id, act, a.outcome, a.failure_category, a.retry_policy_json)
  return {
    keys = e, act = act, failure = failure,
    code = failure.retry_at and "r" or "f",
    retry_at = failure.retry_at and number.digits(failure.retry_at) or "",
  }
end

-- Carries out the end; `more` = further core fields.
local function write_end(id, planned, a, more)
  local e, act, failure = planned.keys, planned.act, planned.failure
  if not guard.found_missing(e.lease_history) then
    lease.add_released(e.lease_history, act.core,
      failure and completion.release_reason(failure) or "completed", act.now)
  end
  if failure then
    completion.fail(e, id, act, failure, more)
  else
    completion.succeed(e, id, act, a.outcome, more)
  end
end

-- Resolves edges of a member of a flow that has just succeeded, and claims children that this makes
-- eligible. Whether any was claimed.
local function continue_flow(k, a, ending, takers, found, numbers)
  local flow_id, now = ending.act.core.flow_id, ending.act.now
  if ending.failure or not text.set(flow_id) then return false end
  local tag = text.tag(k.exec_core)
  local released, moves = dependency.resolve_few(tag, a.execution_id, flow_id, now)
  if not released then return false end
  -- An execution that must be admitted first comes before the children.
  local claimed = found.in_own_lane and not found.admit
    and claim.take_released(k, a, found, takers, tag, released, moves, now, numbers.ttl)
  lane.carry_out(moves)
  return claimed
end

define("ff_end_and_claim",
  { "exec_core!=hash", "result!=string", "terminal!:zset", "delayed!=zset", "eligible!=zset",
    "active!:zset", "lease_expiry!:zset", "worker_leases!:set", "attempt_timeout!=zset",
    "execution_deadline!=zset" },
  { "execution_id!", "lease_id!", "lease_epoch!", "attempt_id!", "ending!", "outcome!",
    "failure_category!", "retry_policy_json!", "lane!", "worker_id!", "worker_instance_id!",
    "worker_capabilities_csv!", "lease_ttl_ms!", "window!", "offset!" },
  function(k, a, _, arg_list)
    local numbers, refused = claim.numbers(a)
    if not numbers then return refused end
    local lacking, takers, ending
    lacking, refused = capability.lacking("", a.worker_capabilities_csv)
    if not lacking then return refused end
    takers, refused = claim.takers(arg_list, 15, a)
    if not takers then return refused end
    ending, refused = plan_end(k, a)
    if not ending then return earlier_answer(k, a, takers) or refused end
    local found = claim.search(k, a, takers, text.tag(k.exec_core), numbers, ending.act.now)
    -- write; nothing below can fail
    local status, retry_at, plans = STATUS[ending.code], ending.retry_at, found.plans
    local first_lease_id = takers[1].lease_id
    write_end(a.execution_id, ending, a, plans[1] and note_fields(first_lease_id, ending, plans))
    claim.take(k, found)
    if continue_flow(k, a, ending, takers, found, numbers) then
      call("HSET", k.exec_core, unpack(note_fields(first_lease_id, ending, plans)))
    end
    if not plans[1] then
      return ok(status, retry_at, claim.none(found, a))
    end
    return claim.append_planned({ 1, "OK", status, retry_at, "claimed" }, found, a)
  end)
