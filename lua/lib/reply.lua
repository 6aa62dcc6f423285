-- The envelope: `{1, status, field…}` on success, `{0, code, detail…}` on refusal. Every element
-- after the first is text, and none is ever nil: the server would cut the reply there.

local function envelope(...)
  local reply = { ... }
  for i = 3, select("#", ...) do
    if type(reply[i]) ~= "string" then
      reply[i] = number.text(reply[i])
    end
  end
  return reply
end

local function ok(...)
  return envelope(1, "OK", ...)
end

local function already_satisfied(...)
  return envelope(1, "ALREADY_SATISFIED", ...)
end

local function duplicate(...)
  return envelope(1, "DUPLICATE", ...)
end

local function with_status(status, ...)
  return envelope(1, status, ...)
end

-- A success with the items of a list from `first` on as its fields, however many there are.
local function with_list(status, items, first)
  local reply = { 1, number.text(status) }
  for i = first or 1, #items do
    reply[#reply + 1] = number.text(items[i])
  end
  return reply
end

local function err(code, ...)
  return envelope(0, code, ...)
end
