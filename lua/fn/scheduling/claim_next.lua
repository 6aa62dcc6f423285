-- Claims the best eligible execution of a lane that this worker can run: grant and claim in one
-- round trip. Candidates that are not for this worker are passed over, so none of them hides what
-- stands behind it; after `window` of them the call answers where to go on. Index entries without
-- an eligible execution are dropped on the way. An execution under budgets or a quota is answered
-- as `needs_admission`: these live in other slots, and the caller comes back with its id once it
-- was admitted. A repeated call with the same lease id gives the same answer while that lease
-- stands. An added function.
-- Keys: eligible (zset), active (zset), lease_expiry (zset), worker_leases (set),
--   attempt_timeout (zset), execution_deadline (zset), claim_note (string, remembers what this
--   lease id got)
-- Arguments: lane, worker_id, worker_instance_id, worker_capabilities_csv, lease_id, lease_ttl_ms,
--   attempt_id, window (candidates to look at, default 64, at most 256), offset (where to start,
--   default 0), admitted_execution_id (optional)
-- Replies: claimed, needs_admission, none_claimable, empty, lapsed
-- Errors: invalid_input, invalid_capabilities
-- Bound: 70 + 30 * n
-- Keeps: OneHolder, OneHome, FenceNeverRepeats, AttemptsHonest, RepeatIsHarmless, WindowMoves
local PAGE = 16
local WINDOW_MAX = 256
-- How long an answer is remembered at least; longer leases are remembered for their own length.
local NOTE_MS = 60000

-- The answer of an earlier call with this lease id, nil when there was none.
local function earlier_answer(k, a, tag, now)
  local id = call("GET", k.claim_note)
  if not id then return nil end
  local keys = claim.keys(k, tag, id)
  local core = record.read(keys.exec_core) or {}
  if not lease.already_granted(core, a, now) then return ok("lapsed", id) end
  local key = attempt.key(tag, id, core.current_attempt_index)
  local run = record.fields(key, "attempt_type", "resumed_at")
  return claim.answer(keys, id, core, text.set(run.resumed_at) and "resumed" or run.attempt_type)
end

-- The numbers of the call, or nil and a refusal.
local function read_numbers(a)
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

-- Looks at one candidate: a plan to claim it, or nil and why not (skip, drop, admit).
local function consider(k, a, tag, id, now, ttl)
  local keys = claim.keys(k, tag, id)
  if guard.mismatch(keys.exec_core, "hash") then return nil, "skip" end
  local core = record.read(keys.exec_core)
  local verdict = claim.verdict(keys, core, a.worker_capabilities_csv, now)
  if verdict ~= "take" then return nil, verdict end
  if id ~= a.admitted_execution_id
    and (text.set(core.budget_ids) or text.set(core.quota_policy_id)) then
    return nil, "admit", core
  end
  local planned = claim.plan(keys, id, core, a, now, ttl)
  if not planned then return nil, "skip" end
  planned.id, planned.keys = id, keys
  return planned
end

-- Walks the index from `offset` on. Answers a search: its plan or the execution to admit, how many
-- were seen, the entries to drop, and whether the end was reached.
local function search(k, a, tag, numbers, now)
  local found = { seen = 0, dropped = {} }
  local ids = {}
  if text.set(a.admitted_execution_id)
    and call("ZSCORE", k.eligible, a.admitted_execution_id) then
    ids[1] = a.admitted_execution_id
  end
  while found.seen < numbers.window do
    if #ids == 0 then
      local first = numbers.offset + found.seen
      local last = first + math.min(PAGE, numbers.window - found.seen) - 1
      ids = call("ZRANGE", k.eligible, number.digits(first), number.digits(last))
      found.seen = found.seen + #ids
      found.ended = #ids < last - first + 1
    end
    for _, id in ipairs(ids) do
      local planned, verdict, core = consider(k, a, tag, id, now, numbers.ttl)
      if planned or verdict == "admit" then
        found.planned, found.admit, found.core = planned, id, core
        return found
      elseif verdict == "drop" then
        found.dropped[#found.dropped + 1] = id
      end
    end
    if found.ended then return found end
    ids = {}
  end
  return found
end

define("ff_claim_next",
  { "eligible!", "active!:zset", "lease_expiry!:zset", "worker_leases!:set",
    "attempt_timeout!:zset", "execution_deadline!:zset", "claim_note!" },
  { "lane!", "worker_id!", "worker_instance_id!", "worker_capabilities_csv", "lease_id!",
    "lease_ttl_ms", "attempt_id!", "window", "offset", "admitted_execution_id" },
  function(k, a)
    local numbers, refused = read_numbers(a)
    if not numbers then return refused end
    local lacking
    lacking, refused = capability.lacking("", a.worker_capabilities_csv)
    if not lacking then return refused end
    if a.lease_id == "" then return err("invalid_input", "lease_id must not be empty") end
    local tag, now = text.tag(k.eligible), number.now()
    local earlier = earlier_answer(k, a, tag, now)
    if earlier then return earlier end
    local found = search(k, a, tag, numbers, now)
    -- write; nothing below can fail
    if #found.dropped > 0 then record.each_chunk("ZREM", k.eligible, found.dropped) end
    local planned = found.planned
    if planned then
      claim.carry_out(planned.keys, planned.id, planned, claim.BY_WORKER)
      call("SET", k.claim_note, planned.id, "PX",
        number.digits(math.max(numbers.ttl, NOTE_MS)))
      return claim.answer(planned.keys, planned.id, record.read(planned.keys.exec_core),
        planned.kind)
    end
    if found.admit then
      return ok("needs_admission", found.admit, found.core.budget_ids, found.core.quota_policy_id)
    end
    if found.seen == #found.dropped and numbers.offset == 0 and found.ended then
      return ok("empty")
    end
    local next_offset = numbers.offset + found.seen - #found.dropped
    return ok("none_claimable", found.ended and 0 or next_offset)
  end)
