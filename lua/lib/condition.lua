-- Resume conditions. A simple one is a list of matchers, each met by at most one signal. A
-- composite one is a tree over several waitpoints; what satisfied it so far is a set of tokens
-- kept beside the suspension. Both are read into the same form:
--
--   parse (a suspend's JSON) or load (a stored one) → feed signals → met? → save what changed
--
-- Nothing is written before `save`, so that a condition can be evaluated first.

-- The effects of a signal on a condition.
condition.MET = "resume_condition_satisfied"
condition.COUNTED = "appended_to_waitpoint"
condition.COUNTED_BEFORE = "appended_to_waitpoint_duplicate"
condition.NO_MATCH = "no_op"
condition.NOT_IN_TREE = "signal_ignored_not_in_condition"
condition.REJECTED = "signal_ignored_matcher_failed"

-- Whether an effect counts as a match of the waitpoint.
function condition.matched(effect)
  return effect ~= condition.NOT_IN_TREE and effect ~= condition.REJECTED
end

local function refuse(why)
  return nil, err("invalid_input", "resume_condition_json " .. why)
end

-- A text of the JSON, or `default` if there is none.
local function word(value, default)
  local kind = type(value)
  if kind ~= "string" and kind ~= "number" then
    return default
  end
  return number.text(value)
end

-- The name of each matcher; an empty list means one matcher for any name.
local function matcher_names(listed)
  if listed == nil then
    return { "" }
  end
  if type(listed) ~= "table" or (#listed == 0 and next(listed) ~= nil) then
    return refuse("has required_signal_names that are no list")
  end
  local names = {}
  for i = 1, #listed do
    names[i] = word(listed[i])
    if names[i] == nil then
      return refuse("has a signal name that is no text")
    end
  end
  return #names > 0 and names or { "" }
end

-- The places of the open matchers by name, the first at the end of its list: thousands of signals
-- may come ahead of a suspension, and none of them should have to look at every matcher.
local function open_by_name(matchers)
  local open = {}
  for i = #matchers, 1, -1 do
    local matcher = matchers[i]
    if not matcher.satisfied then
      open[matcher.name] = open[matcher.name] or {}
      text.append(open[matcher.name], { i })
    end
  end
  return open
end

-- Takes the first open matcher for a signal of this name: its place, nil when there is none.
local function take_matcher(cond, name)
  local own, any = cond.open[name] or {}, cond.open[""] or {}
  local first = (any[#any] or math.huge) < (own[#own] or math.huge) and any or own
  return table.remove(first)
end

local function parse_simple(given)
  local names, refused = matcher_names(given.required_signal_names)
  if not names then
    return nil, refused
  end
  local minimum = given.minimum_signal_count
  minimum = (minimum == nil or minimum == cjson.null) and 1 or number.finite(minimum)
  if minimum == nil then
    return refuse("has a minimum_signal_count that is no number")
  end
  local matchers = {}
  for i, name in ipairs(names) do
    matchers[i] = { name = name, satisfied = false, signal_id = "" }
  end
  return {
    kind = word(given.condition_type, "signal_set"),
    mode = word(given.signal_match_mode, "any"),
    minimum = minimum, matchers = matchers, satisfied_count = 0, changed = {},
    open = open_by_name(matchers),
  }
end

-- A tree with what satisfied it so far; `tokens` and `signals` are sets as lists.
local function composite(tree, tokens, signals)
  local cond = {
    tree = tree, tokens = {}, signals = {}, new_tokens = {}, new_signals = {}, reached = {},
  }
  for _, token in ipairs(tokens) do
    cond.tokens[token] = true
  end
  for _, id in ipairs(signals) do
    cond.signals[id] = true
  end
  return cond
end

-- Nodes are named by their way from the root, so what is stored of a tree grows with its depth
-- times its size. Clients take four levels.
local TREE_DEPTH_MAX = 32

local function parse_composite(given)
  if given.v ~= nil and given.v ~= 1 then
    return refuse("has an unknown version of a composite condition")
  end
  if type(given.tree) ~= "table" then
    return refuse("has no tree")
  end
  if condition.is_deeper(given.tree, TREE_DEPTH_MAX) then
    return refuse("has a tree that is nested too deeply")
  end
  local cond = composite(given.tree, {}, {})
  local encoded
  encoded, cond.tree_json = pcall(cjson.encode, given.tree)
  if not encoded then
    return refuse("has a tree that cannot be stored")
  end
  return cond
end

-- The condition in the JSON of a suspend, or nil and a refusal.
function condition.parse(json_text)
  local given = text.json(json_text)
  if type(given) ~= "table" then
    return refuse("must be a JSON object")
  end
  if given.composite ~= nil and given.composite ~= false then
    return parse_composite(given)
  end
  return parse_simple(given)
end

-- The stored condition of a waitpoint; `composite_keys` are those of its suspension.
function condition.load(stored, composite_keys)
  if stored.composite == "1" then
    local tree = text.json(stored.tree_json)
    return composite(type(tree) == "table" and tree or {},
      call("SMEMBERS", composite_keys.satisfied), call("SMEMBERS", composite_keys.signals))
  end
  local matchers = {}
  for i = 1, number.either(stored.total_matchers, 0) do
    local field = "matcher:" .. number.digits(i - 1)
    if stored[field .. ":satisfied"] == nil then
      break
    end
    matchers[i] = {
      name = text.present(stored[field .. ":name"], ""),
      satisfied = stored[field .. ":satisfied"] ~= "0",
    }
  end
  return {
    mode = text.either(stored.match_mode, "any"),
    minimum = number.either(stored.minimum_signal_count, 1),
    total = number.either(stored.total_matchers, 0),
    satisfied_count = number.either(stored.satisfied_count, 0),
    matchers = matchers, changed = {}, open = open_by_name(matchers),
  }
end

-- Feeds one signal = { id, name, source_type, source_identity } that reached the waitpoint
-- { id, key }; answers the effect, which never tells that the condition is met: a caller that feeds
-- many signals checks once at the end.
function condition.take(cond, sig, at)
  if cond.tree then
    return condition.take_in_tree(cond, sig, at)
  end
  local place = take_matcher(cond, sig.name)
  if not place then
    return condition.NO_MATCH
  end
  local matcher = cond.matchers[place]
  matcher.satisfied, matcher.signal_id = true, sig.id
  cond.satisfied_count = cond.satisfied_count + 1
  cond.changed[#cond.changed + 1] = place
  return condition.COUNTED
end

-- The same for a signal that comes alone: also answers that it met the condition.
function condition.feed(cond, sig, at)
  local effect = condition.take(cond, sig, at)
  return effect == condition.COUNTED and condition.met(cond) and condition.MET or effect
end

-- Whether the condition is met.
function condition.met(cond)
  if cond.tree then
    return condition.tree_met(cond)
  end
  if cond.mode == "all" then
    return cond.satisfied_count >= (cond.total or #cond.matchers)
  end
  return cond.satisfied_count >= cond.minimum
end

-- Every waitpoint of a suspension holds the whole condition, so what a call writes is a product.
-- This much of it is taken: matchers (about a third of a second), bytes of a tree.
local MATCHERS_MAX, TREE_BYTES_MAX = 50000, 67108864

-- The refusal of a condition that is too large to be held by so many waitpoints, nil when it is
-- not.
function condition.oversize(cond, waitpoints)
  local held, most = #(cond.matchers or {}), MATCHERS_MAX
  if cond.tree then
    held, most = #cond.tree_json, TREE_BYTES_MAX
  end
  if waitpoints > 1 and held * waitpoints > most then
    return select(2, refuse("is too large for so many waitpoints"))
  end
  return nil
end

-- The fields of a new condition record, the same for every waitpoint that holds it.
function condition.fields(cond, now)
  if cond.tree then
    return {
      "condition_type", "composite", "composite", "1", "match_mode", "composite",
      "minimum_signal_count", "1", "total_matchers", "0", "satisfied_count", "0",
      "closed", "0", "updated_at", now, "tree_json", cond.tree_json,
    }
  end
  local fields = {
    "condition_type", cond.kind, "match_mode", cond.mode,
    "minimum_signal_count", cond.minimum, "total_matchers", #cond.matchers,
    "satisfied_count", cond.satisfied_count, "closed", "0", "updated_at", now,
  }
  for i, matcher in ipairs(cond.matchers) do
    local field = "matcher:" .. number.digits(i - 1)
    text.append(fields, {
      field .. ":name", matcher.name,
      field .. ":satisfied", matcher.satisfied and "1" or "0",
      field .. ":signal_id", matcher.signal_id,
    })
  end
  return fields
end

-- Writes a new condition record over whatever was there.
function condition.create(key, fields)
  call("DEL", key)
  record.write(key, fields)
end

-- Writes what feeding changed: matchers into the stored record, tokens beside the suspension.
function condition.save(key, cond, composite_keys)
  if cond.tree then
    record.each_chunk("SADD", composite_keys.satisfied, cond.new_tokens)
    record.each_chunk("SADD", composite_keys.signals, cond.new_signals)
    return
  end
  if #cond.changed == 0 then
    return
  end
  local fields = { "satisfied_count", cond.satisfied_count }
  for _, i in ipairs(cond.changed) do
    local field = "matcher:" .. number.digits(i - 1)
    text.append(fields,
      { field .. ":satisfied", "1", field .. ":signal_id", cond.matchers[i].signal_id })
  end
  record.write(key, fields)
end
