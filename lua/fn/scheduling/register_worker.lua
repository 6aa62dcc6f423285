-- Registers a worker instance, or refreshes its registration.
-- Keys: alive (string), caps (hash), index (set of instances)
-- Arguments: instance_id, worker_id, lanes_csv, caps_csv, ttl_ms, now_ms
-- Replies: registered, refreshed
-- Errors: invalid_input
-- Bound: 7
-- Keeps: ErrorMeansUntouched
define("ff_register_worker",
  { "alive!=string", "caps!:hash", "index!:set" },
  { "instance_id!", "worker_id!", "lanes_csv", "caps_csv", "ttl_ms", "now_ms" },
  function(k, a)
    local ttl, refused = number.require_span(a.ttl_ms, "ttl_ms", 1)
    if not ttl then return refused end
    local now
    now, refused = number.require(a.now_ms, "now_ms")
    if not now then return refused end
    local known = call("EXISTS", k.alive) == 1
    -- write; nothing below can fail
    call("SET", k.alive, "1", "PX", number.digits(ttl))
    record.write(k.caps, {
      "worker_id", a.worker_id, "lanes_csv", text.present(a.lanes_csv, ""),
      "caps_csv", text.present(a.caps_csv, ""), "ttl_ms", ttl,
      "registered_at_ms", a.now_ms, "last_heartbeat_ms", a.now_ms,
    })
    call("PEXPIRE", k.caps, number.digits(ttl))
    call("SADD", k.index, a.instance_id)
    return ok(known and "refreshed" or "registered")
  end)
