-- Removes every key whose time is over by the clock that is given, in milliseconds.
for _, key in ipairs(redis.call("KEYS", "*")) do
  local at = redis.call("PEXPIRETIME", key)
  if at >= 0 and at < tonumber(ARGV[1]) then redis.call("DEL", key) end
end
return 1
