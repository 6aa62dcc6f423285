-- The version that clients compare before they trust the library. Another answer than the
-- contract's makes FlowFabric clients replace the library with their own.
-- Keys: none
-- Arguments: none
-- Replies: bare 34
-- Errors: none
-- Bound: 0
define("ff_version", {}, {}, function()
  return "34"
end, { reads_only = true })
