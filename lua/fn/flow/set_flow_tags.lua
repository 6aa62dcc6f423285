-- Sets tags of a flow. The first call also moves tags stored in the flow's record to the tags hash.
-- Keys: flow_core (hash), tags (hash)
-- Arguments: tag, value (and further pairs)
-- Replies: OK
-- Errors: invalid_input, flow_not_found, invalid_tag_key
-- Bound: 5 + 3 * n
-- Keeps: ErrorMeansUntouched, RepeatIsHarmless

-- The tags in the flow's record: { key, value, … } and the keys alone.
local function inline_tags(core)
  local names, pairs_list = {}, {}
  for name in pairs(core) do
    if text.is_tag_name(name) then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    text.append(pairs_list, { name, core[name] })
  end
  return pairs_list, names
end

define("ff_set_flow_tags",
  { "flow_core!=hash", "tags!:hash" },
  { "tag", "value" },
  function(k, _, _, tags)
    if #tags == 0 or #tags % 2 == 1 then
      return err("invalid_input", "tags must be non-empty even-length key/value pairs")
    end
    local core = record.read(k.flow_core)
    if not core then
      return err("flow_not_found")
    end
    for i = 1, #tags, 2 do
      if not text.is_tag_name(tags[i]) then
        return err("invalid_tag_key", tags[i])
      end
    end
    local now = number.now()
    -- write; nothing below can fail
    if core.tags_migrated ~= "1" then
      local inline, names = inline_tags(core)
      record.write(k.tags, inline)
      record.each_chunk("HDEL", k.flow_core, names)
      call("HSET", k.flow_core, "tags_migrated", "1")
    end
    record.write(k.tags, tags)
    call("HSET", k.flow_core, "last_mutation_at", number.digits(now))
    return ok(#tags / 2)
  end)
