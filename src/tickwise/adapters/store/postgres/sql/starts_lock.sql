-- As `starts_look`, and these runs stay as they are until this transaction ends. $1 executor, $2 runs, $3 tokens.
WITH r AS MATERIALIZED (
  SELECT * FROM tickwise.runs WHERE run_id = ANY($2::uuid[]) ORDER BY run_id FOR UPDATE
)
SELECT r.run_id, r.namespace, r.rate_key, date_part('epoch', r.slot) AS slot, date_part('epoch', coalesce(r.place, greatest(r.ready, r.due))) AS place,
       r.lane IN (SELECT lane FROM tickwise.lanes_held) AS held
FROM r JOIN unnest($2::uuid[], $3::bigint[]) AS b(run_id, token) ON b.run_id = r.run_id AND b.token = r.token
WHERE r.holder = $1 AND r.state = 2
