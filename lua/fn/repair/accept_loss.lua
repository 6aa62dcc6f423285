-- Ends an execution that damaged records keep from going on, whatever they say: as cancelled, with
-- the reason. Its children are told. An added function, for an operator who accepts the loss.
-- Keys: exec_core (hash)
-- Arguments: execution_id, reason
-- Replies: ended, already_ended
-- Errors: execution_not_found, invalid_input
-- Bound: 90
-- Keeps: OneHome, VectorWhole, RepeatIsHarmless
define("ff_accept_loss",
  { "exec_core!=hash" },
  { "execution_id!", "reason" },
  function(given, a)
    local core, id = record.read(given.exec_core), a.execution_id
    local k, refused = record.checked_keys(given.exec_core, id, core or {})
    if not k then return refused end
    if not core then
      return err("execution_not_found")
    end
    if dependency.outcome_of(core) and core.attempt_state ~= "" and core.public_state
      == state.terminal(core.terminal_outcome, "").public_state then
      return ok("already_ended")
    end
    core.execution_id = id
    local plan
    plan, refused = completion.prepare(k, id, core)
    if not plan then return refused end
    -- write; nothing below can fail
    completion.cancel(k, id, plan, text.present(a.reason, ""), "operator", number.now())
    return ok("ended")
  end)
