-- Which edition of this library a server holds: a number that grows with every release that changes
-- it, and a digest of its text. An added function: the contract's version stays as it is, so that it
-- cannot tell an older edition from a newer one.
-- Keys: none
-- Arguments: none
-- Replies: OK
-- Errors: none
-- Bound: 0
define("ff_library_revision", {}, {}, function()
  return ok("@revision@", "@digest@")
end, { reads_only = true })
