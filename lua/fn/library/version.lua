-- The version that clients compare before they use the library. FlowFabric clients replace a
-- library that answers anything else.
-- Keys: none
-- Arguments: none
-- Replies: bare 34
-- Errors: none
-- Bound: 0
define("ff_version", {}, {}, function()
  return "34"
end, { reads_only = true })
