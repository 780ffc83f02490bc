-- What an executor holds under tokens up to one, in two numbers: as `domain/fencing.py` adds them up. Read by the index of what is ready, and
-- not beyond what this executor has claimed in each lane: behind that lies the backlog, however large.
-- $1 executor, $2 token, $3 lanes, $4 the last instant of readiness that it claimed in each.
SELECT count(*), coalesce(sum(((get_byte(r.id, 12)::bigint << 24) | (get_byte(r.id, 13) << 16) | (get_byte(r.id, 14) << 8) | get_byte(r.id, 15))
                           # (r.token & 4294967295)), 0)::bigint
FROM unnest($3::int[], $4::float8[]) AS l(lane, ready) CROSS JOIN LATERAL (
  SELECT uuid_send(run_id) AS id, token FROM tickwise.runs
  WHERE lane = l.lane AND tickwise.runs.ready <= to_timestamp(l.ready + 0.001) AND holder = $1 AND token <= $2
  OFFSET 0) r
