-- What fills a database for the pages: few jobs, each with many runs, as an installation has after ten days. Made of `fill_schema`'s
-- functions; rows are as the product writes them, and a partition gets its indexes when it is full.
CREATE TABLE IF NOT EXISTS bench.origin (at timestamptz NOT NULL);

-- When a job was made: they came evenly over 300 days before the building.
CREATE OR REPLACE FUNCTION bench.job_made(origin timestamptz, job bigint, jobs bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE
PARALLEL SAFE AS $$ SELECT date_trunc('milliseconds', origin - interval '300 days' + job * (interval '300 days' / jobs)) $$;

-- The job of a run: one run in 17 is of one of 200 jobs that fire all the time, the others go round.
CREATE OR REPLACE FUNCTION bench.job_of(run bigint, jobs bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN run % 17 = 0 THEN run / 17 % 200 + 1 ELSE run % jobs + 1 END
$$;

-- One day of finished runs, evenly between two instants of it, and their tallies; the partition is made anew.
CREATE OR REPLACE FUNCTION bench.pages_day(since timestamptz, until timestamptz, count bigint, jobs bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  day timestamptz := date_trunc('day', since, 'UTC');
  low uuid := overlay(bench.id(day, 0)::text PLACING '0000-0000-000000000000' FROM 15)::uuid;
  high uuid := overlay(bench.id(day + interval '1 day', 0)::text PLACING '0000-0000-000000000000' FROM 15)::uuid;
  name text := 'history_' || to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD');
  first bigint := extract(epoch FROM day)::bigint / 86400 * 10000000;
  origin timestamptz := (SELECT at FROM bench.origin);
BEGIN
  EXECUTE format('DROP TABLE IF EXISTS tickwise.%I', name);
  EXECUTE format('CREATE TABLE tickwise.%I (LIKE tickwise.history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
                  WITH (autovacuum_vacuum_insert_threshold = 1000000, autovacuum_analyze_threshold = 1000000)', name);
  EXECUTE format('INSERT INTO tickwise.%I (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before, attempt,
                                           failures, crashes, trigger, namespace, reason, error)
    SELECT at, at - interval ''2 seconds'', at - interval ''1 second'', at + run %% 40 * interval ''1 millisecond'',
           at + (run %% 40 + 50 + run %% 9000) * interval ''1 millisecond'', 1, run, bench.id(at, run),
           bench.id(bench.job_made($6, job, $5), job), state, 3, 1, (state = 6)::int, 0, 1, bench.owner(job),
           CASE state WHEN 6 THEN ''exit_code'' END, CASE state WHEN 6 THEN ''it ended with the exit code 1'' END
    FROM (SELECT $4 + n AS run, $1 + (n - 1) * ($2 - $1) / $3 AS at, bench.job_of($4 + n, $5) AS job,
                 (CASE WHEN ($4 + n) %% 101 = 0 THEN 6 ELSE 5 END)::smallint AS state
          FROM generate_series(1, $3) n OFFSET 0) s', name) USING since, until, count, first, jobs, origin;
  EXECUTE format('INSERT INTO tickwise.tallies (hour, runs, state, namespace)
    SELECT date_trunc(''hour'', ended, ''UTC''), count(*), state, namespace FROM tickwise.%I GROUP BY 1, 3, 4
    ON CONFLICT (namespace, hour, state) DO UPDATE SET runs = tallies.runs + excluded.runs', name);
  EXECUTE format('ALTER TABLE tickwise.history ATTACH PARTITION tickwise.%I FOR VALUES FROM (%L) TO (%L)', name, low, high);
  INSERT INTO bench.filled VALUES (day AT TIME ZONE 'UTC', count) ON CONFLICT ON CONSTRAINT filled_pkey DO UPDATE SET rows = excluded.rows;
END
$$;
