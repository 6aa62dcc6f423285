-- The announcement that a member of a flow ended. A push is a hint: scanning alone finds the same.

completion.CHANNEL = "ff:dag:completions"

-- Publishes the end of `execution_id` when it belongs to a flow.
function completion.announce(execution_id, flow_id, outcome)
  if text.set(flow_id) and text.set(execution_id) then
    call("PUBLISH", completion.CHANNEL, cjson.encode({
      execution_id = execution_id,
      flow_id = flow_id,
      outcome = outcome,
    }))
  end
end
