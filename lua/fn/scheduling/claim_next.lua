-- Claims the first eligible execution of a lane that this worker can run: grant and claim in one
-- round trip. Candidates that this worker cannot run, or does not take, are skipped; after `window`
-- of them the call answers where to continue: with a filter after which id, else at which offset.
-- Index entries without an eligible execution are dropped. An execution with budgets or a quota is
-- answered as `needs_admission`: these are in other slots, and the caller repeats the call with its
-- id once it is admitted. A repeated call with the same lease id gets the same answer while that
-- lease is current. An added function.
-- Keys: eligible (zset), active (zset), lease_expiry (zset), worker_leases (set),
--   attempt_timeout (zset), execution_deadline (zset), claim_note (string, remembers what this
--   lease id got, and how long that had waited)
-- Arguments: lane, worker_id, worker_instance_id, worker_capabilities_csv, lease_id, lease_ttl_ms,
--   attempt_id, window (candidates to look at, default 64, at most 256), offset (how many
--   candidates to pass over, default 0, or the id after which to start), admitted_execution_id
--   (optional), work_filter (optional: the namespace and kinds that the worker takes, see
--   lib/work_filter.lua)
-- Replies: claimed, needs_admission, none_claimable, empty, lapsed
-- Errors: invalid_input, invalid_capabilities
-- Bound: 72 + 30 * n
-- Keeps: OneHolder, OneHome, FenceNeverRepeats, AttemptsHonest, RepeatIsHarmless, WindowMoves

-- The answer of an earlier call with this lease id, nil when there was none.
local function earlier_answer(k, a, tag, now)
  local note = call("GET", k.claim_note)
  if not note then return nil end
  local id, waited_ms = string.match(note, "^([^|]*)|?(.*)$")
  local keys = claim.keys(k, tag, id)
  local core = record.read(keys.exec_core) or {}
  if not lease.already_granted(core, a, now) then return ok("lapsed", id) end
  return claim.answer_again(keys, tag, id, core, waited_ms)
end

define("ff_claim_next",
  { "eligible!=zset", "active!=zset", "lease_expiry!=zset", "worker_leases!=set",
    "attempt_timeout!=zset", "execution_deadline!=zset", "claim_note!=string" },
  { "lane!", "worker_id!", "worker_instance_id!", "worker_capabilities_csv", "lease_id!",
    "lease_ttl_ms", "attempt_id!", "window", "offset", "admitted_execution_id", "work_filter" },
  function(k, a)
    local numbers, refused = claim.numbers(a)
    if not numbers then return refused end
    local lacking
    lacking, refused = capability.lacking("", a.worker_capabilities_csv)
    if not lacking then return refused end
    if a.lease_id == "" then return err("invalid_input", "lease_id must not be empty") end
    local filter = a.work_filter
    if filter == "" then
      a.work_filter = nil
    elseif filter and (filter:byte() ~= 10 or #filter > work_filter.BYTES_MAX) then
      return work_filter.refusal()
    end
    local tag, now = text.tag(k.eligible), number.now()
    local earlier = earlier_answer(k, a, tag, now)
    if earlier then return earlier end
    local found = claim.search(k, a, { a }, tag, numbers, now)
    local planned = found.plans[1]
    refused = planned and claim.type_refusal(k)
    if refused then return refused end
    -- write; nothing below can fail
    claim.take(k, found)
    if planned then
      call("SET", k.claim_note, planned.id .. "|" .. planned.waited_ms, "PX",
        number.digits(math.max(numbers.ttl, claim.NOTE_MS)))
      return claim.answer(planned)
    end
    return ok(claim.none(found, a))
  end)
