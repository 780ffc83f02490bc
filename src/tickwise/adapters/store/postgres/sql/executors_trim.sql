-- Executors of which no run tells any more, and requests to stop what nobody holds. $1 runs are kept that ended after this.
WITH requests AS (
  DELETE FROM tickwise.cancel_requests c
  WHERE NOT EXISTS (SELECT FROM tickwise.runs r WHERE r.run_id = c.run_id AND r.holder = c.holder AND r.token = c.token)
)
DELETE FROM tickwise.executors WHERE settled AND gone < least(to_timestamp($1::float8), tickwise.now() - interval '1 hour')
