-- The signatures of this library: one entry per function with its name, the names of its keys and
-- of its arguments in order, and whether it only reads. An added function; tools compare it with
-- the functions they were built for.
-- Keys: none
-- Arguments: none
-- Replies: OK
-- Errors: none
-- Bound: 0
define("ff_library_signatures", {}, {}, function()
  local reply = { 1, "OK" }
  for _, signature in ipairs(signatures) do
    reply[#reply + 1] = {
      signature.name,
      table.concat(signature.keys, ","),
      table.concat(signature.args, ","),
      signature.reads_only and "reads" or "writes",
    }
  end
  return reply
end, { reads_only = true })
