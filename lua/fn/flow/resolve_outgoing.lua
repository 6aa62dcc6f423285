-- Resolves the outgoing edges of a terminal execution, one batch per call, by the outcome in its
-- own record. Answers the children that it skipped, so that the caller can resolve their edges, and
-- the children that it made eligible. An added function.
--
-- An edge that was re-armed by a replay of its child is not failed again by the same end of its
-- upstream. Such edges, edges that are not yet applied and edges with a key of another type count
-- as left. An edge that was already resolved counts neither as resolved nor as left. An edge that
-- was applied to its child but never staged is known to the child only, so the caller has to name
-- the child. A call that has looked at many thousand siblings of fired groups answers the cursor it
-- was given: the next call skips the resolved edges and continues with the rest.
-- Keys: upstream_core (hash)
-- Arguments: execution_id, cursor (from the last answer, 0 to begin), limit (edges per batch,
--   about; 100 unless given, 500 at most), only_edge (this edge alone, when set), only_child (the
--   child of that edge, for one that was never staged)
-- Replies: done, more
-- Errors: invalid_input, execution_not_found, execution_not_terminal
-- Bound: 10 + 35000 * n, or 103500 + 1504 * n
-- Keeps: EdgeByTruth, GroupCounts, OneHome, BoundedWork, RepeatIsHarmless
local LIMIT_MAX = 500
local UPSTREAM = { "flow_id", "lifecycle_phase", "terminal_outcome", "replay_count" }

define("ff_resolve_outgoing",
  { "upstream_core!=hash" },
  { "execution_id!", "cursor", "limit", "only_edge", "only_child" },
  function(k, a)
    local limit, refused = number.require_span(text.either(a.limit, 100), "limit", 1)
    if not limit then
      return refused
    end
    local cursor = text.either(a.cursor, "0")
    if not text.is_cursor(cursor) then
      return err("invalid_input", "cursor must be one that this function answered")
    end
    refused = record.misnamed(k.upstream_core, a.execution_id)
    if refused then
      return refused
    end
    local core
    core, refused = record.select(k.upstream_core, UPSTREAM)
    if refused then
      return refused
    end
    if not core then
      return err("execution_not_found")
    end
    if not dependency.outcome_of(core) then
      return err("execution_not_terminal")
    end
    local tag, edges, begun = text.tag(k.upstream_core), {}, cursor
    if text.set(a.only_edge) then
      cursor, edges = "0", { a.only_edge }
    elseif text.set(core.flow_id) then
      local outgoing = flow.prefix(tag, core.flow_id) .. ":out:" .. a.execution_id
      cursor, edges = unpack(call("SSCAN", outgoing, cursor, "COUNT",
        number.digits(math.min(limit, LIMIT_MAX))))
    end
    local word = cursor == "0" and "done" or "more"
    local count, skipped, released = { resolved = 0, before = 0, left = 0 }, {}, {}
    local all = dependency.outgoing(tag, a.execution_id, core, number.now())
    -- Each edge is read, decided and written on its own: the marker stands in dependency.resolve.
    for _, edge_id in ipairs(edges) do
      if count.resolved > 0 and edge_group.reached_sibling_limit() then
        word, cursor = "more", begun
        break
      end
      local done, effect, child = dependency.resolve_edge(all, edge_id, a.only_child)
      count[done] = count[done] + 1
      if effect then
        local children = effect == "skipped" and skipped or released
        children[#children + 1] = child
      end
    end
    lane.carry_out(all.moves)
    return text.append(ok(word, cursor, count.resolved, count.left, #skipped), skipped,
      { number.digits(#released) }, released)
  end)
