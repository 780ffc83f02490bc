-- Where a job's schedule stands. $1 job, $2 due, $3 the name of that fire for a one-time job that needs no decision (one that lives
-- or has ended is not named again), $4 … what else stands there.
INSERT INTO tickwise.timers (job_id, due, run_id, since, hold, fired, minute, in_minute, zone_data)
SELECT $1, to_timestamp($2::float8), $3::uuid, to_timestamp($4::float8), $5::text, nullif($6::bigint, 0), to_timestamp($7::float8),
       nullif($8::int, 0), $9::text
WHERE $3::uuid IS NULL OR NOT EXISTS (SELECT FROM tickwise.runs_shown r WHERE r.run_id = $3)
ON CONFLICT (job_id) DO UPDATE
SET due = excluded.due, run_id = excluded.run_id, since = excluded.since, hold = excluded.hold, fired = excluded.fired,
    minute = excluded.minute, in_minute = excluded.in_minute, zone_data = excluded.zone_data
