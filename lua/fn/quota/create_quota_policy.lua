-- Defines a rate and concurrency policy. Slots taken before it was defined stay counted.
-- Keys: def (hash), window (not touched), concurrency (string), admitted_set (set of executions),
--   policies (set of policy ids)
-- Arguments: quota_policy_id, window_seconds, max_requests_per_window (0: any number),
--   max_concurrent (0: any number), now_ms
-- Replies: OK, ALREADY_SATISFIED
-- Errors: invalid_input
-- Bound: 7
-- Keeps: LedgerAdds, ErrorMeansUntouched
define("ff_create_quota_policy",
  { "def!:hash", "window", "concurrency!=string", "admitted_set=set", "policies!:set" },
  { "quota_policy_id!", "window_seconds", "max_requests_per_window", "max_concurrent", "now_ms" },
  function(k, a)
    if call("EXISTS", k.def) == 1 then
      return already_satisfied(a.quota_policy_id)
    end
    -- Strict readers accept only whole numbers in plain digits.
    for _, name in ipairs({ "window_seconds", "max_requests_per_window", "max_concurrent",
      "now_ms" }) do
      local n, refused = number.require_whole(number.nearest(a[name]) or a[name], name)
      if n == nil then
        return refused
      end
      a[name] = number.digits(n)
    end
    local taken = text.set(k.admitted_set) and call("SCARD", k.admitted_set) or 0
    -- write; nothing below can fail
    record.write(k.def, {
      "quota_policy_id", a.quota_policy_id,
      "requests_per_window_seconds", a.window_seconds,
      "max_requests_per_window", a.max_requests_per_window,
      "active_concurrency_cap", a.max_concurrent,
      "created_at", a.now_ms,
    })
    call("SET", k.concurrency, number.digits(taken))
    call("SADD", k.policies, a.quota_policy_id)
    return ok(a.quota_policy_id)
  end)
