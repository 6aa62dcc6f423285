-- The revision of this library, a number that grows with every release that changes it, and a
-- digest of its text. An added function: the contract's version does not change with the text.
-- Keys: none
-- Arguments: none
-- Replies: OK
-- Errors: none
-- Bound: 0
define("ff_library_revision", {}, {}, function()
  return ok("@revision@", "@digest@")
end, { reads_only = true })
