-- Executors that are no longer shown, and requests to stop what nobody holds.
WITH requests AS (
  DELETE FROM tickwise.cancel_requests c
  WHERE NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.run_id = c.run_id AND r.holder = c.holder AND r.token = c.token)
)
DELETE FROM tickwise.executors WHERE settled AND gone < tickwise.now() - interval '1 hour'
