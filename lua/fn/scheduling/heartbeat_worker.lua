-- Extends a worker's registration by the time to live it registered with.
-- Keys: alive (string), caps (hash)
-- Arguments: now_ms
-- Replies: refreshed, not_registered
-- Errors: invalid_input
-- Bound: 5
-- Keeps: ErrorMeansUntouched
define("ff_heartbeat_worker",
  { "alive!=string", "caps!=hash" },
  { "now_ms" },
  function(k, a)
    local now, refused = number.clock(a)
    if not now then return refused end
    local ttl = number.whole(call("HGET", k.caps, "ttl_ms"))
    if not ttl or ttl < 1 or ttl > number.SPAN_MAX or call("EXISTS", k.alive) == 0 then
      return ok("not_registered")
    end
    -- write; nothing below can fail
    call("PEXPIRE", k.alive, number.digits(ttl))
    call("HSET", k.caps, "last_heartbeat_ms", a.now_ms)
    call("PEXPIRE", k.caps, number.digits(ttl))
    return ok("refreshed", ttl)
  end)
