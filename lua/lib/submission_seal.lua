-- The seal of a submitted flow: releases its members, a bounded number per call.

-- Plans the release of one member that waits for the seal: { id, k, exists (whether it has a
-- record), plan (nil if it stays as it is), refused (the refusal of a key of another type that it
-- needs) }.
local function sealing_of(tag, id, now)
  local front = dependency.front(tag, id)
  local step = { id = id, k = { exec_core = front .. ":core", deps_meta = front .. ":deps:meta" } }
  -- A value of another type carries no `unsealed` mark to remove.
  local core = dependency.member(step.k.exec_core)
  if not core then
    return step
  end
  local waits = core.blocking_detail == submission.WAITS
  core.unsealed = nil
  step.exists = true
  if core.eligibility_state ~= "blocked_by_dependencies" or core.lifecycle_phase ~= "runnable" then
    return step
  end
  local lane_id, word = lane.of(core), "eligible"
  step.k.eligible = lane.index(tag, lane_id, "eligible")
  step.k.blocked = lane.index(tag, lane_id, "blocked:dependencies")
  step.refused = guard.mismatch(step.k.eligible, "zset") or guard.mismatch(step.k.blocked, "zset")
  if not step.refused and not waits then
    word, step.refused = dependency.eligibility(step.k, core)
  end
  if not step.refused and word == "eligible" then
    step.plan, step.refused = dependency.releasing(step.k, core, now)
  end
  return step
end

-- Plans the release of the next members that wait for the seal, at most `limit`. Also answers the
-- refusal if keys of another type block every one of them.
function submission.sealing(flow_core, now, limit)
  local tag, steps, blocked = text.tag(flow_core), {}, 0
  local unsealed = submission.keys(flow_core)
  -- A range up to -1 would be all of them.
  local ids = try("ZRANGE", unsealed, limit > 0 and 0 or 1, math.max(limit - 1, 0))
  local refused = guard.refusal(ids)
  if refused then
    return nil, guard.named(refused, unsealed)
  end
  for i, id in ipairs(ids) do
    steps[i] = sealing_of(tag, id, now)
    blocked = blocked + (steps[i].refused and 1 or 0)
  end
  return steps, blocked == #steps and blocked > 0 and steps[1].refused or nil
end

-- Moves a member behind all others, until its keys of another type are gone.
local function requeue_last(unsealed, id)
  local last = call("ZRANGE", unsealed, -1, -1, "WITHSCORES")
  call("ZADD", unsealed, number.digits(number.floor(last[2], 0) + 1), id)
end

-- Carries out the planned releases; answers how many members still wait. After the last one the
-- submission is over.
function submission.seal(flow_core, steps, now)
  local unsealed, submitted = submission.keys(flow_core)
  local sealed, moves, stamp = {}, {}, number.digits(now)
  for _, step in ipairs(steps) do
    if step.refused then
      requeue_last(unsealed, step.id)
    else
      if step.exists then
        call("HDEL", step.k.exec_core, "unsealed")
      end
      if step.plan then
        dependency.release(step.k, step.id, step.plan, stamp, moves)
      end
      sealed[#sealed + 1] = step.id
    end
  end
  record.each_chunk("ZREM", unsealed, sealed)
  lane.carry_out(moves)
  local left = call("ZCARD", unsealed)
  if left == 0 then
    call("DEL", submitted)
  end
  return left
end
