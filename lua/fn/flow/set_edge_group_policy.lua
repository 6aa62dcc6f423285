-- Sets how many inbound edges of a child have to succeed, and what happens to the remaining
-- upstreams. The policy can be changed until the first dependency is applied.
-- Keys: flow_core (hash), edgegroup (hash)
-- Arguments: policy_variant, on_satisfied, k (quorum threshold), now_ms (the caller's clock)
-- Replies: set, already_set
-- Errors: flow_not_found, invalid_input
-- Bound: 8
-- Keeps: GroupCounts, RepeatIsHarmless
define("ff_set_edge_group_policy",
  { "flow_core!:hash", "edgegroup!=hash" },
  { "policy_variant", "on_satisfied", "k", "now_ms" },
  function(k, a)
    if call("EXISTS", k.flow_core) == 0 then
      return err("flow_not_found")
    end
    local wanted, refused = edge_group.policy(a.policy_variant, a.on_satisfied, a.k)
    if not wanted then
      return refused
    end
    local group = record.read(k.edgegroup) or {}
    if number.either(group.n, 0) > 0 then
      return err("invalid_input", "edge_group_policy_already_fixed: dependencies already staged")
    end
    if group.policy_variant == wanted.policy_variant
      and text.present(group.on_satisfied, "") == wanted.on_satisfied
      and number.either(group.k, 0) == wanted.k then
      return ok("already_set")
    end
    local _, no_time = number.clock(a)
    if no_time then
      return no_time
    end
    local note
    note, refused = flow.note_of_group(k.flow_core, k.edgegroup)
    if refused then
      return refused
    end
    -- write; nothing below can fail
    if note then
      call("HSET", note.key, note.field, "1")
    end
    record.write(k.edgegroup,
      text.append(edge_group.declaration(wanted, a.now_ms), { "n", 0 }))
    return ok("set")
  end)
