-- The modules of the library. Every shared function is in one of these tables, so that the order of
-- the files does not matter and the chunk stays far below Lua's limit of 200 locals.
local text = {}       -- set and unset values, ids cut out of keys, joining and splitting
local json = {}       -- JSON kept as it was spelled, and merge patches
local number = {}     -- checked numbers, the clock, whole numbers as digits
local record = {}     -- hashes as tables, and what stored fields mean when they are missing
local guard = {}      -- key types, checked before the first write
local state = {}      -- the execution state vector: its rows and its only writer
local lane = {}       -- lane and partition indexes: their names, scores and moves
local push = {}       -- published hints: ready, ended, lost
local lease = {}      -- fence, validation, expiry, granting, releasing, history
local grant = {}      -- claim grants: which worker may claim an execution next
local claim = {}      -- how an eligible execution becomes active
local work_filter = {} -- the namespace and kinds that a worker takes
local attempt = {}    -- attempt records
local stream = {}     -- output streams and their meta record
local completion = {} -- the announcement that an execution ended
local policy = {}     -- policies stored with an execution
local capability = {} -- capability lists
local flow = {}       -- flows: their keys, state and graph
local edge_group = {} -- inbound groups: counters, verdict, sibling cancels
local creation = {}   -- creating an execution
local submission = {} -- flows submitted as a whole
local projection = {} -- summaries of flows
local dependency = {} -- edges as a child sees them: applying, resolving, releasing, skipping
local waitpoint = {}  -- waitpoints and their signed tokens
local condition = {}  -- resume conditions, simple and composite
local suspension = {} -- suspension records
local signal = {}     -- signal records
local admission = {}  -- executions that budgets, quotas, routes or operators hold back
local budget = {}     -- budgets
local quota = {}      -- quotas
local purge = {}      -- removing an execution and everything of its own
local repair = {}     -- making damaged records agree with those that are left

-- What belongs to the running call alone, set by `define`: its number, by which a module tells what
-- it remembers of an earlier call; what is known about its keys (guard.lua); what it has read about
-- siblings (edge_group_siblings.lua).
local running, known_keys, sibling_cache = 0, {}, nil

-- `redis.call` and `redis.pcall`. They are not available while the library loads, so the first call
-- fetches them.
local call, try
call = function(...)
  call = redis.call
  return call(...)
end
try = function(...)
  try = redis.pcall
  return try(...)
end
