-- Builds what scripts see as globals, out of Lua's own libraries and the host's native functions.
--
-- Servers patch their Lua so that tables can be made read-only. Here a script gets an empty
-- table in place of each: reads fall through to the contents, writes are refused.
local native, kind = ...
local raw_pcall, raw_xpcall, raw_resume = pcall, xpcall, coroutine.resume
local raw_setmetatable, raw_getmetatable, kind_of = setmetatable, getmetatable, type
local pairs, next, concat = pairs, next, table.concat

local frozen = setmetatable({}, { __mode = "k" })

local function freeze(contents)
  local front = {}
  frozen[front] = true
  return raw_setmetatable(front, {
    __index = contents,
    __newindex = native.refuse_write,
    __metatable = false,
  })
end

local function pick(from, names)
  local picked = {}
  for name in names:gmatch("%S+") do picked[name] = from[name] end
  return picked
end

-- A native error travels as a value that only the host knows. Wherever a script could catch one,
-- it is turned into what the server would have raised.
local function settle(ok, ...)
  if ok then return ok, ... end
  return ok, native.caught((...))
end

local function settle_whole(ok, ...)
  if ok then return ok, ... end
  return ok, native.translated((...))
end

local contents = pick(_G, [[_VERSION assert collectgarbage error gcinfo getmetatable ipairs next
  pairs rawequal rawget select tonumber tostring type unpack]])

function contents.pcall(...) return settle(raw_pcall(...)) end

function contents.xpcall(body, handler)
  return raw_xpcall(body, function(raised)
    -- Nothing watches a handler of the error that stops a script: it could loop for ever.
    if native.is_stop(raised) then return raised end
    return handler(native.translated(raised))
  end)
end

for name, guarded in pairs(native.guarded(frozen)) do contents[name] = guarded end

function contents.load(reader, name)
  local pieces = {}
  local piece = reader()
  while piece and piece ~= "" do
    pieces[#pieces + 1] = piece
    piece = reader()
  end
  return contents.loadstring(concat(pieces), name or "=(load)")
end

local threads = pick(coroutine, "create running status wrap yield")
function threads.resume(...) return settle_whole(raw_resume(...)) end

local numbers = {}
for name, value in pairs(math) do numbers[name] = value end
numbers.random, numbers.randomseed = native.random, native.randomseed

local strings = freeze(string)
contents.string = strings
contents.table = freeze(table)
contents.math = freeze(numbers)
contents.coroutine = freeze(threads)
contents.cjson = freeze(native.cjson)
contents.bit = freeze(native.bit)
contents.os = freeze({ clock = native.clock })
contents.redis = freeze(native.api)
contents.server = contents.redis
for _, name in pairs({ "struct", "cmsgpack" }) do
  contents[name] = raw_setmetatable({}, {
    __index = function() native.unsupported_library(name) end,
    __newindex = native.refuse_write,
    __metatable = false,
  })
end
raw_setmetatable(contents, { __index = native.missing_global })

local string_meta = getmetatable("")
string_meta.__metatable = freeze({ __index = strings })
string_meta.__index = string

-- While a library loads, it sees nothing but the functions that register it.
local load_api = raw_setmetatable(native.load_api, { __index = native.missing_global })
local load_contents = { redis = freeze(load_api) }
load_contents.server = load_contents.redis
raw_setmetatable(load_contents, { __index = native.missing_global })

local global_meta = {
  __index = kind == "functions" and load_contents or contents,
  __newindex = native.refuse_write,
  __metatable = freeze({ __index = native.missing_global }),
}
local globals = raw_setmetatable({}, global_meta)
frozen[globals] = true
contents._G = globals

-- Whether a table has none of the tags that make a reply something else than a list.
local function is_list(value)
  return raw_getmetatable(value) == nil
    and not (value.err or value.ok or value.double or value.map or value.set or value.big_number
      or value.verbatim_string)
end

-- Whether a reply is a list of values and of short lists. Nearly all are, and here that costs a
-- fraction of what it costs outside, where each tag of each table is asked for.
local SHORT = 64
local function is_plain(reply)
  if kind_of(reply) ~= "table" or #reply > SHORT or not is_list(reply) then
    return false
  end
  for i = 1, #reply do
    local item = reply[i]
    if kind_of(item) == "table" and next(item) ~= nil then
      if #item > SHORT or not is_list(item) then
        return false
      end
    end
  end
  return true
end

local body, keys, arguments
local function run()
  local reply = body(keys, arguments)
  return reply, is_plain(reply)
end

return {
  globals = globals,
  contents = contents,
  -- Runs a body; answers true, its first value and whether that is plain, or false and what
  -- `native.blame` made of the error.
  run = function(new_body, new_keys, new_arguments)
    body, keys, arguments = new_body, new_keys, new_arguments
    return raw_xpcall(run, native.blame)
  end,
  -- Runs the text of a library, with the globals of loading.
  load = function(chunk)
    body = chunk
    global_meta.__index = load_contents
    local ok, raised = raw_xpcall(run, native.blame_load)
    global_meta.__index = contents
    return ok, raised
  end,
}
