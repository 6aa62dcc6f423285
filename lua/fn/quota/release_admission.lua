-- Gives an admission slot back, once, and publishes that a slot is free. The entry in the rate
-- window stays. A holder that was admitted without a cap was not counted, so the counter is
-- decreased only while it exceeds the number of remaining holders.
-- Keys: guard (string), admitted_set (set of executions), concurrency (string)
-- Arguments: execution_id
-- Replies: released
-- Errors: invalid_input
-- Bound: 8
-- Keeps: LedgerAdds, RepeatIsHarmless, ErrorMeansUntouched
define("ff_release_admission",
  { "guard!=string", "admitted_set!=set", "concurrency!=string" },
  { "execution_id!" },
  function(k, a)
    local holds = call("SISMEMBER", k.admitted_set, a.execution_id) == 1
      or call("EXISTS", k.guard) == 1
    local in_use = quota.counter(k.concurrency)
    -- write; nothing below can fail
    call("DEL", k.guard)
    call("SREM", k.admitted_set, a.execution_id)
    if holds and in_use > call("SCARD", k.admitted_set) then
      call("SET", k.concurrency, number.digits(in_use - 1))
      push.freed(k.admitted_set)
    end
    return ok("released")
  end)
