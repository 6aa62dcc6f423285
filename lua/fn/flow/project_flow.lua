-- Writes the summary of a flow, counted over all its members, and takes the flow out of the index
-- once every member has ended. A large flow takes several calls, `partial` until the last. A flow
-- whose record is gone leaves the index. An added function.
-- Keys: flow_core (hash), members (set of execution ids), summary (hash), flow_index (set)
-- Arguments: flow_id, limit (members per call, about; 500 unless given, 2000 at most)
-- Replies: projected, finished, partial, gone
-- Errors: invalid_input
-- Bound: 12 + 2 * n
-- Keeps: SummaryTrue, BoundedWork
local LIMIT_MAX = 2000

define("ff_project_flow",
  { "flow_core!=hash", "members!:set", "summary!:hash", "flow_index!:set" },
  { "flow_id!", "limit" },
  function(k, a)
    local limit, refused = number.require_span(text.either(a.limit, 500), "limit", 1)
    if not limit then
      return refused
    end
    local core = record.read(k.flow_core)
    if not core then
      call("SREM", k.flow_index, a.flow_id)
      return ok("gone")
    end
    local progress = projection.resume(k.summary, text.present(core.graph_revision, "0"))
    projection.count(progress, text.tag(k.flow_core), k.members, math.min(limit, LIMIT_MAX))
    local unsealed = call("EXISTS", flow.prefix_of(k.flow_core) .. ":submission") == 1
    local total = call("SCARD", k.members)
    local now = number.now()
    -- write; nothing below can fail
    if progress.cursor ~= "0" then
      projection.keep(k.summary, progress)
      return ok("partial", progress.counted, total)
    end
    if progress.counted ~= total then
      -- A member was met twice while the set was reordered: the next call counts afresh.
      projection.forget(k.summary)
      return ok("partial", 0, total)
    end
    local word, ended = projection.verdict(progress, core.public_flow_state)
    projection.write(k.summary, progress, word, now)
    if ended and not unsealed then
      call("SREM", k.flow_index, a.flow_id)
      return ok("finished", word, total)
    end
    return ok("projected", word, total)
  end)
