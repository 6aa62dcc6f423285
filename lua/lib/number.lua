-- Numbers come in as text and leave as text. A number that is used in arithmetic, as a score or as
-- a time to live is checked here first, so that no command refuses it after the first write.

-- Largest whole number that a double holds exactly; scores and times stay below it.
local MAX = 9007199254740991
number.MAX = MAX

-- The time of the call with the number `read_by`, as a number and as digits.
local now, now_digits, read_by

-- Now by the server's clock, in whole milliseconds: the same throughout a call.
function number.now()
  if read_by ~= running then
    local time = call("TIME")
    -- The server tells seconds and microseconds as digits without leading zeros.
    now_digits = time[1] .. ("000000" .. time[2]):sub(-6, -4)
    now, read_by = tonumber(now_digits), running
  end
  return now
end

-- The number in `value` as far as a double is exact, or nil.
function number.finite(value)
  local n = tonumber(value)
  if n == nil or n ~= n or n > number.MAX or n < -number.MAX then
    return nil
  end
  return n
end

-- The same, but a number that is too large to be exact becomes the largest exact one: as a time, a
-- span or a limit it means "for ever" or "any number", and must not read as nothing.
function number.nearest(value)
  local n = tonumber(value)
  if n == nil or n ~= n or n == math.huge or n == -math.huge then
    return nil
  end
  return math.max(-number.MAX, math.min(n, number.MAX))
end

-- Short texts of whole numbers, cached: most numbers are limits, offsets and counts, the same in
-- every call.
local WHOLE, TEXT_MAX = {}, 4

-- The whole number in `value`, or nil.
function number.whole(value)
  local known = WHOLE[value]
  if known then
    return known
  end
  local n = number.finite(value)
  if n == nil or n ~= math.floor(n) then
    return nil
  end
  if type(value) == "string" and #value <= TEXT_MAX then
    WHOLE[value] = n
  end
  return n
end

-- A stored or optional number: `default` if it is missing, empty or not a finite number.
function number.either(value, default)
  if not text.set(value) then
    return default
  end
  return number.nearest(value) or default
end

-- The same, cut down to a whole number.
function number.floor(value, default)
  local n = value and (WHOLE[value] or tonumber(value))
  if n and n % 1 == 0 and n >= -MAX and n <= MAX then
    return n
  end
  return math.floor(number.either(value, default))
end

-- A required number argument: the number, or nil and the contract's refusal.
function number.require(value, name)
  local n = number.finite(value)
  if n == nil then
    return nil, err("invalid_input", name .. " must be a number, got: " .. tostring(value))
  end
  return n
end

-- An optional whole-number argument: the number, `default` when unset, or nil and a refusal.
function number.optional(value, name, default)
  if not text.set(value) then
    return default
  end
  return number.require_whole(value, name)
end

-- A required whole-number argument: the number, or nil and a refusal.
function number.require_whole(value, name)
  local n = number.whole(value)
  if n == nil then
    return nil, err("invalid_input", name .. " must be a number, got: " .. tostring(value))
  end
  return n
end

-- The caller's clock in a.now_ms: the number, or nil and a refusal. Afterwards a.now_ms is plain
-- digits, because strict readers accept no other form of a time.
function number.clock(a)
  if a.now_ms == now_digits and read_by == running then
    return now
  end
  local at, refused = number.require_whole(a.now_ms, "now_ms")
  if at then
    a.now_ms = number.digits(at)
  end
  return at, refused
end

-- The longest accepted span, about thirty thousand years: a time plus a span stays exact.
number.SPAN_MAX = 1000000000000000

-- An optional time in whole milliseconds, or a limit: the number, the largest exact one if a caller
-- passes the largest integer it has, `default` if unset, or nil and a refusal.
function number.optional_far(value, name, default)
  if not text.set(value) then
    return default
  end
  return number.require_whole(number.nearest(value) or value, name)
end

-- A required span of time in whole milliseconds, at least `least`: the span, or nil and a refusal.
function number.require_span(value, name, least)
  local n, refused = number.require(value, name)
  if n == nil then
    return nil, refused
  end
  if n ~= math.floor(n) or n < least or n > number.SPAN_MAX then
    return nil, err("invalid_input", name .. " must be a whole number of at least "
      .. number.digits(least) .. ", got: " .. tostring(value))
  end
  return n
end

-- An optional span in whole milliseconds: the number, nil when it is unset or zero, or nil and a
-- refusal.
function number.optional_span(value, name)
  if not text.set(value) or number.finite(value) == 0 then
    return nil
  end
  return number.require_span(value, name, 0)
end

-- The same for a time.
function number.optional_time(value, name)
  local at, refused = number.optional_far(value, name)
  if at and at < 0 then
    return nil, err("invalid_input", name .. " must not be negative, got: " .. tostring(value))
  end
  return at ~= 0 and at or nil, refused
end

-- The digits of small whole numbers, cached: most are limits, sizes and counts.
local SMALL, SMALL_MAX = {}, 1000
-- The digits of the last large number: most often the time of the call.
local last, last_digits

-- A number as plain digits: whole numbers never in exponent form, whatever their size.
function number.digits(n)
  if n == now then
    return now_digits
  end
  local known = SMALL[n]
  if known then
    return known
  end
  if n == last then
    return last_digits
  end
  if n % 1 == 0 and n >= -MAX and n <= MAX then
    local digits = string.format("%d", n)
    if n >= 0 and n <= SMALL_MAX then
      SMALL[n + 0] = digits
    else
      last, last_digits = n, digits
    end
    return digits
  end
  return string.format(n == math.floor(n) and "%.17g" or "%.14g", n)
end

-- Any field of a reply or record as text.
function number.text(value)
  if type(value) == "string" then
    return value
  end
  if value == nil or value == false then
    return ""
  end
  if type(value) == "number" then
    return number.digits(value)
  end
  return tostring(value)
end

-- Turns the items of a list into text, in place: most are text already, and a copy would cost more
-- than the command it is for.
function number.texts(list)
  for i = 1, #list do
    if type(list[i]) ~= "string" then
      list[i] = number.text(list[i])
    end
  end
  return list
end
