-- The server does not undo, so a key of a foreign type must be met before the first write.
-- `define` checks the declared keys; a body checks the keys it derives itself.

-- The server's own refusal when `key` holds something else than `kind`, nil when it fits, is absent
-- or was not passed.
function guard.mismatch(key, kind)
  if key == nil or key == "" then
    return nil
  end
  local found = call("TYPE", key).ok
  if found ~= "none" and found ~= kind then
    return redis.error_reply(
      "WRONGTYPE Operation against a key holding the wrong kind of value")
  end
  return nil
end

-- The same for a list of derived keys: `guard.any_mismatch({ { key, "hash" }, … })`.
function guard.any_mismatch(pairs_of_key_and_kind)
  for _, pair in ipairs(pairs_of_key_and_kind) do
    local refused = guard.mismatch(pair[1], pair[2])
    if refused then
      return refused
    end
  end
  return nil
end

-- The refusal when one of the named keys was not passed, else nil:
-- `guard.missing(k, "exec_core", "eligible")`. A command over a missing key would raise.
function guard.missing(k, ...)
  for _, name in ipairs({ ... }) do
    if not text.set(k[name]) then
      return err("invalid_input", "key " .. name .. " is required")
    end
  end
  return nil
end

-- The refusal when one of the named arguments was not passed, else nil; an empty one counts as
-- passed.
function guard.absent(a, names)
  for _, name in ipairs(names) do
    if a[name] == nil then
      return err("invalid_input", "argument " .. name .. " is required")
    end
  end
  return nil
end
