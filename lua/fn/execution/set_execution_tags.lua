-- Sets tags of an execution, in any phase.
-- Keys: exec_core (hash), tags (hash)
-- Arguments: name and value, alternating; a name is `<caller>.<field>`
-- Replies: OK
-- Errors: invalid_input, execution_not_found, invalid_tag_key
-- Bound: 8 + 1 * n
-- Keeps: ErrorMeansUntouched
define("ff_set_execution_tags",
  { "exec_core!:hash", "tags!:hash" },
  {},
  function(k, _, _, pairs_given)
    if #pairs_given == 0 or #pairs_given % 2 == 1 then
      return err("invalid_input", "tags must be non-empty even-length key/value pairs")
    end
    if call("EXISTS", k.exec_core) == 0 then return err("execution_not_found") end
    for i = 1, #pairs_given, 2 do
      if not text.is_tag_name(pairs_given[i]) then
        return err("invalid_tag_key", pairs_given[i])
      end
    end
    -- write; nothing below can fail
    record.write(k.tags, pairs_given)
    call("HSET", k.exec_core, "last_mutation_at", number.digits(number.now()))
    return ok(#pairs_given / 2)
  end)
