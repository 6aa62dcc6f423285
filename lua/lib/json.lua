-- JSON that keeps its spelling. The server's own codec rounds numbers to 14 digits and turns empty
-- lists into objects, which would damage a document a little more with every patch; here a value
-- stays the text it was. A value is one of
--
--   { raw = text }                                a number, a text, true, false or null
--   { items = { value, … } }                      a list
--   { names = { name, … }, members = { name = value }, spelled = { name = text } }   an object

local DEPTH_MAX = 1000
local NULL_SENTINEL = "__ff_null__"
local WORDS = { ["true"] = true, ["false"] = true, null = true }

local parse_value

local function skip_blanks(source, at)
  return source:find("[^ \t\n\r]", at) or #source + 1
end

-- The end of the text literal that starts at `at`, nil when it is none.
local function text_end(source, at)
  local from = at + 1
  while true do
    local stop = source:find('[%c"\\]', from)
    local found = stop and source:sub(stop, stop)
    if found == '"' then
      return stop
    elseif found == "\127" then
      from = stop + 1
    elseif found ~= "\\" then
      return nil
    elseif source:find('^["\\/bfnrt]', stop + 1) then
      from = stop + 2
    elseif source:find("^u%x%x%x%x", stop + 1) then
      from = stop + 6
    else
      return nil
    end
  end
end

-- The end of the number at `at`, nil when there is none.
local function number_end(source, at)
  local _, stop = source:find("^%-?%d+", at)
  if not stop or source:find("^%-?0%d", at) then
    return nil
  end
  local _, fraction = source:find("^%.%d+", stop + 1)
  stop = fraction or stop
  local _, exponent = source:find("^[eE][+-]?%d+", stop + 1)
  return exponent or stop
end

-- The content of a text literal, nil if it cannot be decoded.
local function text_of(literal)
  if not literal:find("\\", 1, true) then
    return literal:sub(2, -2)
  end
  local decoded, list = pcall(cjson.decode, "[" .. literal .. "]")
  return decoded and list[1] or nil
end

-- Parses the elements of a list or object up to `closer`. `element(at)` takes one and answers where
-- it ends. Answers where the whole ends, or nil.
local function parse_sequence(source, at, closer, element)
  at = skip_blanks(source, at + 1)
  if source:sub(at, at) == closer then
    return at
  end
  while true do
    at = element(skip_blanks(source, at))
    if not at then
      return nil
    end
    at = skip_blanks(source, at + 1)
    local mark = source:sub(at, at)
    if mark == closer then
      return at
    elseif mark ~= "," then
      return nil
    end
    at = at + 1
  end
end

local function parse_list(source, at, depth)
  local items = {}
  local stop = parse_sequence(source, at, "]", function(from)
    local value, ends = parse_value(source, from, depth + 1)
    items[#items + 1] = value
    return ends
  end)
  return stop and { items = items }, stop
end

local function parse_object(source, at, depth)
  local object = json.object()
  local stop = parse_sequence(source, at, "}", function(from)
    local name_end = source:sub(from, from) == '"' and text_end(source, from)
    local literal = name_end and source:sub(from, name_end)
    local name = literal and text_of(literal)
    local colon = name and skip_blanks(source, name_end + 1)
    if not colon or source:sub(colon, colon) ~= ":" then
      return nil
    end
    local value, ends = parse_value(source, skip_blanks(source, colon + 1), depth + 1)
    if value then
      json.put(object, name, literal, value)
    end
    return ends
  end)
  return stop and object, stop
end

-- The value at `at` and where it ends, or nil.
parse_value = function(source, at, depth)
  local first = source:sub(at, at)
  if depth > DEPTH_MAX then
    return nil
  elseif first == "{" then
    return parse_object(source, at, depth)
  elseif first == "[" then
    return parse_list(source, at, depth)
  end
  local stop
  if first == '"' then
    stop = text_end(source, at)
  elseif first:find("[%d%-]") then
    stop = number_end(source, at)
  else
    local _, word_end = source:find("^%a+", at)
    stop = word_end and WORDS[source:sub(at, word_end)] and word_end
  end
  if not stop then
    return nil
  end
  return { raw = source:sub(at, stop) }, stop
end

-- The value that `source` spells, nil when it is no JSON.
function json.parse(source)
  local value, stop = parse_value(source, skip_blanks(source, 1), 1)
  if not value or skip_blanks(source, stop + 1) <= #source then
    return nil
  end
  return value
end

function json.object()
  return { names = {}, members = {}, spelled = {} }
end

-- Sets a member of an object; the name is written as `literal` spells it.
function json.put(object, name, literal, value)
  if object.members[name] == nil then
    object.names[#object.names + 1] = name
  end
  object.members[name], object.spelled[name] = value, literal
end

local function write(value, out)
  if value.raw then
    out[#out + 1] = value.raw
  elseif value.items then
    out[#out + 1] = "["
    for i, item in ipairs(value.items) do
      out[#out + 1] = i > 1 and "," or ""
      write(item, out)
    end
    out[#out + 1] = "]"
  else
    local separator = "{"
    for _, name in ipairs(value.names) do
      if value.members[name] then
        out[#out + 1] = separator .. value.spelled[name] .. ":"
        write(value.members[name], out)
        separator = ","
      end
    end
    out[#out + 1] = separator == "{" and "{}" or "}"
  end
end

-- The value as text, without blanks.
function json.spell(value)
  local out = {}
  write(value, out)
  return table.concat(out)
end

-- How many non-empty objects are nested in each other, this one included; lists end the count.
function json.object_depth(value)
  local deepest = 0
  for _, name in ipairs(value.names or {}) do
    deepest = math.max(deepest, 1 + json.object_depth(value.members[name]))
  end
  return deepest
end

-- A value as it enters a document: texts that stand for null become null, in lists too.
local function settle(value)
  if value.raw then
    local is_sentinel = value.raw:sub(1, 1) == '"' and #value.raw < 6 * #NULL_SENTINEL + 3
      and text_of(value.raw) == NULL_SENTINEL
    return is_sentinel and { raw = "null" } or value
  end
  for i, item in ipairs(value.items or {}) do
    value.items[i] = settle(item)
  end
  for _, name in ipairs(value.names or {}) do
    value.members[name] = settle(value.members[name])
  end
  return value
end

-- Applies a merge patch to an object in place: null removes a member, an object is merged into the
-- member, anything else replaces it.
function json.merge(target, patch)
  for _, name in ipairs(patch.names) do
    local change = patch.members[name]
    if change.raw == "null" then
      target.members[name] = nil
    elseif change.members then
      local inner = target.members[name]
      if not inner or not inner.members then
        inner = json.object()
        json.put(target, name, patch.spelled[name], inner)
      end
      json.merge(inner, change)
    else
      json.put(target, name, patch.spelled[name], settle(change))
    end
  end
end
