-- Defines a budget: its limits per dimension and its reset interval. A definition without a budget
-- id was only stamped by an earlier report; this call completes it.
-- Keys: def (hash), limits (hash), usage (not touched), resets (zset of budget ids by next reset),
--   policies (set of budget ids)
-- Arguments: budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit,
--   reset_interval_ms (0: never), now_ms, dim_count, then all dimensions, all hard limits, all
--   soft limits
-- Replies: OK, ALREADY_SATISFIED
-- Errors: invalid_input
-- Bound: 9 + 1 * n
-- Keeps: LedgerAdds, ErrorMeansUntouched
define("ff_create_budget",
  { "def!=hash", "limits!:hash", "usage", "resets!:zset", "policies!:set" },
  { "budget_id!", "scope_type!", "scope_id!", "enforcement_mode!", "on_hard_limit!",
    "on_soft_limit!", "reset_interval_ms", "now_ms", "dim_count" },
  function(k, a, _, arguments)
    if text.set(call("HGET", k.def, "budget_id")) then
      -- write; nothing below can fail
      call("SADD", k.policies, a.budget_id)
      return already_satisfied(a.budget_id)
    end
    local count, refused = budget.count(a.dim_count, "dim_count", arguments, 9, 3, 0)
    if count == nil then
      return refused
    end
    local interval, now
    interval, refused = number.require_whole(a.reset_interval_ms, "reset_interval_ms")
    if interval == nil then
      return refused
    end
    now, refused = number.clock(a)
    if now == nil then
      return refused
    end
    local limits = {}
    for i = 10, 9 + count do
      local name, hard, soft = arguments[i], nil, nil
      refused = budget.not_a_dimension(name)
      if not refused then
        hard, refused = budget.limit_text(arguments[i + count], "hard limit")
      end
      if not refused then
        soft, refused = budget.limit_text(arguments[i + 2 * count], "soft limit")
      end
      if refused then
        return refused
      end
      text.append(limits, { "hard:" .. name, hard, "soft:" .. name, soft })
    end
    local next_reset_at = interval > 0 and math.min(now + interval, number.MAX)
    -- write; nothing below can fail
    call("SADD", k.policies, a.budget_id)
    record.write(k.def, {
      "budget_id", a.budget_id, "scope_type", a.scope_type, "scope_id", a.scope_id,
      "enforcement_mode", a.enforcement_mode, "on_hard_limit", a.on_hard_limit,
      "on_soft_limit", a.on_soft_limit, "reset_interval_ms", interval,
      "breach_count", "0", "soft_breach_count", "0",
      "created_at", a.now_ms, "last_updated_at", a.now_ms,
    })
    record.write(k.limits, limits)
    if next_reset_at then
      record.write(k.def, { "next_reset_at", next_reset_at })
      call("ZADD", k.resets, number.digits(next_reset_at), a.budget_id)
      push.due(k.resets, next_reset_at)
    end
    return ok(a.budget_id)
  end)
