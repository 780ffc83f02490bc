-- Attempts that want to begin and are to be settled first: what that goes by. $1 executor, $2 runs, $3 tokens.
SELECT r.run_id, r.namespace, r.rate_key, date_part('epoch', r.slot) AS slot, date_part('epoch', coalesce(r.place, greatest(r.ready, r.due))) AS place,
       r.lane IN (SELECT lane FROM tickwise.lanes_held) AS held
FROM tickwise.runs r JOIN unnest($2::uuid[], $3::bigint[]) AS b(run_id, token) ON b.run_id = r.run_id AND b.token = r.token
WHERE r.run_id = ANY($2) AND r.holder = $1 AND r.state = 2
