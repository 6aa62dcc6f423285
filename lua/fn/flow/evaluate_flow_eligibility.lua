-- Tells whether the dependencies of an execution let it run. Writes nothing.
-- Keys: exec_core (hash), deps_meta (hash)
-- Arguments: none
-- Replies: not_found, not_runnable, owned, terminal, eligible, impossible, blocked_by_dependencies
-- Errors: invalid_input
-- Bound: 6
-- Keeps: ErrorMeansUntouched
define("ff_evaluate_flow_eligibility",
  { "exec_core!=hash", "deps_meta!=hash" },
  {},
  function(k)
    local core = record.read(k.exec_core)
    if not core then
      return ok("not_found")
    end
    if core.lifecycle_phase ~= "runnable" then
      return ok("not_runnable")
    end
    if core.ownership_state ~= "unowned" then
      return ok("owned")
    end
    if core.terminal_outcome ~= "none" then
      return ok("terminal")
    end
    local word, refused = dependency.eligibility(k, core)
    return refused or ok(word)
  end, { reads_only = true, derives_keys = true })
