-- Claims up to `n` eligible executions of a lane that this worker can run, in one call: as
-- ff_claim_next does for one. The lease and attempt ids follow the named arguments in pairs, one
-- pair for each execution that is wanted, at most 64. Stops at an execution that must be admitted
-- first; that is answered when nothing stands before it. After the claims comes what was passed
-- over, if anything was and there is a filter: `passed`, the last id, a kind that is not taken, how
-- long that had waited. A repeated call with the same lease ids gets the claims that are still
-- valid. An added function.
-- Keys: eligible (zset), active (zset), lease_expiry (zset), worker_leases (set),
--   attempt_timeout (zset), execution_deadline (zset), claim_note (string, remembers what the first
--   lease id and its followers got, and how long each had waited)
-- Arguments: lane, worker_id, worker_instance_id, worker_capabilities_csv, lease_ttl_ms,
--   window (candidates to look at, default 64, at most 256), offset (how many candidates to pass
--   over, default 0, or the id after which to start), admitted_execution_id (optional), then
--   lease_id and attempt_id per claim, then the work filter (optional: the namespace and kinds that
--   the worker takes, see lib/work_filter.lua)
-- Replies: claimed, needs_admission, none_claimable, empty, lapsed
-- Errors: invalid_input, invalid_capabilities
-- Bound: 72 + 60 * n
-- Keeps: OneHolder, OneHome, FenceNeverRepeats, AttemptsHonest, RepeatIsHarmless, WindowMoves
define("ff_claim_many",
  { "eligible!=zset", "active!=zset", "lease_expiry!=zset", "worker_leases!=set",
    "attempt_timeout!=zset", "execution_deadline!=zset", "claim_note!=string" },
  { "lane!", "worker_id!", "worker_instance_id!", "worker_capabilities_csv!", "lease_ttl_ms!",
    "window!", "offset!", "admitted_execution_id!" },
  function(k, a, _, arg_list)
    local numbers, refused = claim.numbers(a)
    if not numbers then return refused end
    local lacking, takers
    lacking, refused = capability.lacking("", a.worker_capabilities_csv)
    if not lacking then return refused end
    takers, refused = claim.takers(arg_list, 8, a)
    if not takers then return refused end
    local tag, now = text.tag(k.eligible), number.now()
    local note = call("GET", k.claim_note)
    if note then
      local reply = { 1, "OK", "claimed" }
      return claim.append_noted(reply, k, a, tag, takers, note, now) > 0 and reply or ok("lapsed")
    end
    local found = claim.search(k, a, takers, tag, numbers, now)
    refused = found.plans[1] and claim.type_refusal(k)
    if refused then return refused end
    -- write; nothing below can fail
    claim.take(k, found)
    if not found.plans[1] then return ok(claim.none(found, a)) end
    call("SET", k.claim_note, claim.note(found.plans), "PX",
      number.digits(math.max(numbers.ttl, claim.NOTE_MS)))
    return claim.append_planned({ 1, "OK", "claimed" }, found, a)
  end)
