-- Creates a flow, once, and adds it to the flow index; an existing flow is only added to the index
-- again.
-- Keys: flow_core (hash), members (untouched), flow_index (set of flow ids)
-- Arguments: flow_id, flow_kind, namespace, now_ms (ignored)
-- Replies: OK, ALREADY_SATISFIED
-- Errors: invalid_input
-- Bound: 6
-- Keeps: RepeatIsHarmless
define("ff_create_flow",
  { "flow_core!:hash", "members", "flow_index!:set" },
  { "flow_id!", "flow_kind!", "namespace!", "now_ms" },
  function(k, a)
    local known = call("EXISTS", k.flow_core) == 1
    local now = number.now()
    -- write; nothing below can fail
    call("SADD", k.flow_index, a.flow_id)
    if known then
      return already_satisfied(a.flow_id)
    end
    flow.open(k.flow_core, a.flow_id, a.flow_kind, a.namespace, now)
    return ok(a.flow_id)
  end)
