-- Writes the summary of a flow, counted over all its members, and removes the flow from the index
-- once every member has ended. A large flow takes several calls, which answer `partial` until the
-- last. A flow without a record is removed from the index. A flow whose members have all been
-- purged stays in the index until it is purged. An added function.
--
-- It also finishes what a caller started and did not complete. A seal that stopped halfway
-- continues, and a flow that was closed before its seal is sealed. A submission without a new chunk
-- for an hour is cancelled with all its members. When a flow is cancelled, the members that the
-- cancel covers stay recorded as to be cancelled until they have ended.
-- Keys: flow_core (hash), members (set of execution ids), summary (hash), flow_index (set)
-- Arguments: flow_id, limit (members per call, about; 500 unless given, 2000 at most)
-- Replies: projected, finished, deserted, partial, sealing, abandoned, gone
-- Errors: invalid_input
-- Bound: 36 + 12 * n
-- Keeps: SummaryTrue, PendingCancelsIndexed, BoundedWork
local LIMIT_MAX = 2000

-- How long a closed flow without any member is kept.
local EMPTY_KEPT_MS = 86400000

-- Finishes an open submission: a reply if nothing else is to do, else nil.
local function finish_submission(k, a, core, stage, pending, now)
  if stage == "sealing" or flow.closed(core) then
    local steps, refused = submission.sealing(k.flow_core, now, submission.SEALED_AT_ONCE)
    if refused then return refused end
    -- write; nothing below can fail
    return ok("sealing", submission.seal(k.flow_core, steps, now))
  end
  if number.floor(core.last_mutation_at, 0) + submission.ABANDONED_MS > now then
    return nil
  end
  local members = call("SMEMBERS", k.members)
  -- write; nothing below can fail
  flow.cancel(k.flow_core, "submission_abandoned", "cancel_all", now)
  flow.add_found_cancels(pending, a.flow_id, members, now)
  return ok("abandoned", #members)
end

-- Writes what was counted, and answers it.
local function conclude(k, a, core, progress, cursor, open, now)
  local total = call("SCARD", k.members)
  if cursor ~= "0" then
    projection.keep(k.summary, progress, text.present(core.graph_revision, "0"), cursor)
    return ok("partial", progress.counted, total)
  end
  if progress.counted ~= total then
    -- A member was returned twice while the set was rehashed: the next call starts again.
    projection.forget(k.summary)
    return ok("partial", 0, total)
  end
  local empty = total == 0 and flow.closed(core)
  local deserted = total > 0 and progress.gone == total
    or empty and number.floor(core.last_mutation_at, 0) + EMPTY_KEPT_MS <= now
  projection.restore_purged(k.summary, progress)
  local word, ended = projection.verdict(progress, core.public_flow_state)
  projection.write(k.summary, progress, word, now)
  if deserted and not open then
    return ok("deserted", word, total)
  end
  if ended and not open and not empty then
    call("SREM", k.flow_index, a.flow_id)
    return ok("finished", word, total)
  end
  return ok("projected", word, total)
end

define("ff_project_flow",
  { "flow_core!=hash", "members!:set", "summary!:hash", "flow_index!:set" },
  { "flow_id!", "limit" },
  function(k, a)
    local limit, refused = number.require_span(text.either(a.limit, 500), "limit", 1)
    refused = refused or flow.misnamed(k.flow_core, a.flow_id)
    if refused then return refused end
    local core = record.read(k.flow_core)
    if not core then
      call("SREM", k.flow_index, a.flow_id)
      return ok("gone")
    end
    local stage, pending
    stage, refused = submission.stage(k.flow_core)
    if refused then return refused end
    pending, refused = flow.pending_cancel_keys(k.flow_core)
    if refused then return refused end
    local now, open = number.now(), stage and not flow.covers_members(core)
    local finished = open and finish_submission(k, a, core, stage, pending, now)
    if finished then return finished end
    local progress, cursor = projection.resume(k.summary, text.present(core.graph_revision, "0"))
    local found
    found, cursor = projection.count(progress, k, a.flow_id, cursor, math.min(limit, LIMIT_MAX))
    -- write; nothing below can fail
    flow.add_found_cancels(pending, a.flow_id, flow.covered(core, found), now)
    return conclude(k, a, core, progress, cursor, open, now)
  end)
