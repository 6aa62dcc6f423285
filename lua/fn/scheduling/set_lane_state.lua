-- Sets what workers and clients do with a lane: nothing is claimed from a paused lane, nothing new
-- is submitted to a draining one. An active lane has no entry. The claims themselves do not look:
-- workers and clients read the states now and then, and a push tells workers of a change. An added
-- function.
-- Keys: lane_states (hash of lanes: a state, and since when)
-- Arguments: lane_id, state (active, paused, draining)
-- Replies: changed, unchanged (each with the state before)
-- Errors: invalid_input
-- Bound: 5
-- Keeps: RepeatIsHarmless, ErrorMeansUntouched

local STATES = { active = true, paused = true, draining = true }

define("ff_set_lane_state",
  { "lane_states!:hash" },
  { "lane_id!", "state!" },
  function(k, a)
    if not STATES[a.state] then
      return err("invalid_input", "state must be active, paused or draining, got: " .. a.state)
    end
    local stored = call("HGET", k.lane_states, a.lane_id)
    local before = stored and (stored:match("^(%a+)") or "unknown") or "active"
    if before == a.state then
      return ok("unchanged", before)
    end
    -- write; nothing below can fail
    if a.state == "active" then
      call("HDEL", k.lane_states, a.lane_id)
    else
      call("HSET", k.lane_states, a.lane_id, a.state .. " " .. number.digits(number.now()))
    end
    call("PUBLISH", "ff:lanes", a.lane_id)
    return ok("changed", before)
  end)
