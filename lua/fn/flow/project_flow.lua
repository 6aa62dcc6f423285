-- Writes the summary of a flow, counted over all its members, and takes the flow out of the index
-- once every member has ended. A large flow takes several calls, `partial` until the last. A flow
-- whose record is gone leaves the index. One that has lost all its members can be purged, and stays
-- there until it is. An added function.
--
-- It also pursues what a flow's callers began and cannot finish any more: a seal that stopped halfway
-- goes on, and so does one that cannot come, since the flow was closed without its members; a
-- submission that nobody has touched for an hour is cancelled with all its members; and where a flow
-- was cancelled, the cancels of the members that it covers are owed until they ended.
-- Keys: flow_core (hash), members (set of execution ids), summary (hash), flow_index (set)
-- Arguments: flow_id, limit (members per call, about; 500 unless given, 2000 at most)
-- Replies: projected, finished, deserted, partial, sealing, abandoned, gone
-- Errors: invalid_input
-- Bound: 36 + 12 * n
-- Keeps: SummaryTrue, DebtHasNote, BoundedWork
local LIMIT_MAX = 2000

-- How long a closed flow is kept that never had a member.
local EMPTY_KEPT_MS = 86400000

-- Pursues an open submission: a reply when that was all there is to do, else nil.
local function pursue(k, a, core, stage, debts, now)
  if stage == "sealing" or flow.closed(core) then
    local steps, refused = submission.sealing(k.flow_core, now)
    return refused or ok("sealing", submission.seal(k.flow_core, steps, now))
  end
  if number.floor(core.last_mutation_at, 0) + submission.ABANDONED_MS > now then
    return nil
  end
  local members = call("SMEMBERS", k.members)
  flow.cancel(k.flow_core, "submission_abandoned", "cancel_all", now)
  flow.owe_more_cancels(debts, a.flow_id, members, now)
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
    -- A member was met twice while the set was reordered: the next call counts afresh.
    projection.forget(k.summary)
    return ok("partial", 0, total)
  end
  local empty = total == 0 and flow.closed(core)
  local deserted = total > 0 and progress.gone == total
    or empty and number.floor(core.last_mutation_at, 0) + EMPTY_KEPT_MS <= now
  projection.recall(k.summary, progress)
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
    local stage, debts
    stage, refused = submission.stage(k.flow_core)
    if refused then return refused end
    debts, refused = flow.debt_keys(k.flow_core)
    if refused then return refused end
    local now, open = number.now(), stage and not flow.covers_members(core)
    local pursued = open and pursue(k, a, core, stage, debts, now)
    if pursued then return pursued end
    local progress, cursor = projection.resume(k.summary, text.present(core.graph_revision, "0"))
    local found
    found, cursor = projection.count(progress, k, a.flow_id, cursor, math.min(limit, LIMIT_MAX))
    -- write; nothing below can fail
    flow.owe_more_cancels(debts, a.flow_id, flow.covered(core, found), now)
    return conclude(k, a, core, progress, cursor, open, now)
  end)
