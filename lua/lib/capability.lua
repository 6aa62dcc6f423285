-- Capability lists: what an execution requires of a worker, and what a worker offers. Stored as
-- tokens sorted by bytes and joined by commas.

local TOKENS_MAX = 256
local BYTES_MAX = 4096

-- Why a token cannot be stored, nil when it can.
local function fault(token)
  if type(token) ~= "string" then
    return "non_string_token"
  elseif token == "" then
    return "empty_token"
  elseif token:find(",", 1, true) then
    return "comma_in_token"
  elseif token:find("[%z\1-\32\127]") then
    return "control_or_whitespace"
  end
  return nil
end

-- The list of a decoded JSON array, or nil and a refusal. A JSON object is refused: as an empty
-- list it would match every worker.
local function from_array(array)
  if type(array) ~= "table" or (next(array) ~= nil and array[1] == nil) then
    return nil, err("invalid_capabilities", "required:not_array")
  end
  local tokens, seen = {}, {}
  for i = 1, #array do
    local why = fault(array[i])
    if why then
      return nil, err("invalid_capabilities", "required:" .. why)
    end
    if not seen[array[i]] then
      seen[array[i]] = true
      tokens[#tokens + 1] = array[i]
    end
  end
  if #array > TOKENS_MAX then
    return nil, err("invalid_capabilities", "required:too_many_tokens")
  end
  table.sort(tokens)
  local joined = table.concat(tokens, ",")
  if #joined > BYTES_MAX then
    return nil, err("invalid_capabilities", "required:too_many_bytes")
  end
  return joined
end

-- What a policy text requires, as stored ("" for nothing), and the decoded policy; or nil and the
-- refusal of a policy that cannot be read.
function capability.required_by(policy_json)
  if not text.set(policy_json) or policy_json == "{}" then
    return "", policy.NONE
  end
  local decoded, stored = pcall(cjson.decode, policy_json)
  if not decoded then
    return nil, err("invalid_policy_json", "malformed")
  end
  stored = policy.object(stored)
  local routing = stored.routing_requirements
  if routing == nil then
    return "", stored
  end
  if type(routing) ~= "table" then
    return nil, err("invalid_policy_json", "routing_requirements:not_object")
  end
  if routing.required_capabilities == nil then
    return "", stored
  end
  local required, refused = from_array(routing.required_capabilities)
  if not required then
    return nil, refused
  end
  return required, stored
end

-- The tokens of a stored list, as a list and as a set; or nil and a refusal. `side` says whose list
-- it is: required or worker.
local function read_list(csv, side)
  csv = text.present(csv, "")
  if #csv > BYTES_MAX then
    return nil, err("invalid_capabilities", side .. ":too_many_bytes")
  end
  local tokens = text.split(csv, ",")
  if #tokens > TOKENS_MAX then
    return nil, err("invalid_capabilities", side .. ":too_many_tokens")
  end
  local set = {}
  for _, token in ipairs(tokens) do
    set[token] = true
  end
  return tokens, set
end

-- What a worker's list lacks of a required one: the missing tokens, sorted and joined, "" when the
-- worker is capable; or nil and a refusal.
function capability.lacking(required_csv, worker_csv)
  if not text.set(required_csv) and not text.set(worker_csv) then return "" end
  local required, refused = read_list(required_csv, "required")
  if not required then return nil, refused end
  local offered, offers = read_list(worker_csv, "worker")
  if not offered then return nil, offers end
  local missing, listed = {}, {}
  for _, token in ipairs(required) do
    if not offers[token] and not listed[token] then
      listed[token] = true
      missing[#missing + 1] = token
    end
  end
  table.sort(missing)
  return table.concat(missing, ",")
end
