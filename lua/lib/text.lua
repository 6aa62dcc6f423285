-- Text helpers. "Set" means neither missing nor empty, for arguments and stored fields alike.

function text.set(value)
  return value ~= nil and value ~= false and value ~= ""
end

-- The value, or `default` if it is missing or empty.
function text.either(value, default)
  if text.set(value) then
    return value
  end
  return default
end

-- The value, or `default` if it is missing; an empty text stays.
function text.present(value, default)
  if value == nil or value == false then
    return default
  end
  return value
end

local CURSOR_MAX = "18446744073709551615"

-- Whether the server accepts the text as a cursor, an unsigned number of 64 bits; it raises on any
-- other. The cursor stays a text, since a Lua number would lose its last digits.
function text.is_cursor(value)
  return type(value) == "string" and value:find("^%d+$") ~= nil
    and (#value < #CURSOR_MAX or #value == #CURSOR_MAX and value <= CURSOR_MAX)
end

-- The hash tag of a key with its braces, "" when it has none. Most calls ask for that of one key
-- several times.
local tagged, tag
function text.tag(key)
  if key ~= tagged then
    tagged, tag = key, key and key:match("(%b{})") or ""
  end
  return tag
end

-- The execution id inside `ff:exec:<tag>:<eid>:core`, "" when the key has another form.
function text.execution_of(core_key)
  return core_key:match("^ff:exec:%b{}:(.*):core$") or ""
end

-- Whether a text is an execution id: the tag of a flow partition and a UUID in any spelling.
function text.is_execution(id)
  local partition, uuid = id:match("^{fp:(%d+)}:(.+)$")
  local digits = (uuid or ""):gsub("^urn:uuid:", ""):gsub("[{}-]", "")
  return #digits == 32 and not digits:find("%X") and tonumber(partition) <= 65535
end

-- The items of a list joined by `separator` (one plain character); empty items are left out.
function text.split(joined, separator)
  local items = {}
  for item in (joined or ""):gmatch("[^" .. separator .. "]+") do
    items[#items + 1] = item
  end
  return items
end

-- A JSON text decoded, or nil when it is unset or undecodable.
function text.json(encoded)
  if not text.set(encoded) then
    return nil
  end
  local decoded, value = pcall(cjson.decode, encoded)
  if decoded then
    return value
  end
  return nil
end

-- Appends the other lists to the first one.
function text.append(list, ...)
  local last = #list
  for i = 1, select("#", ...) do
    local items, next = (select(i, ...)), 1
    while items[next] ~= nil do
      last = last + 1
      list[last], next = items[next], next + 1
    end
  end
  return list
end

-- Whether a text is a valid tag name: `<caller>.<field>`.
function text.is_tag_name(name)
  return name:find("^[a-z][a-z0-9_]*%.[^.]") ~= nil
end

-- Makes the named arguments that were not passed empty, for functions in which that means the same.
function text.fill(a, names)
  for _, name in ipairs(names) do
    a[name] = text.present(a[name], "")
  end
end
