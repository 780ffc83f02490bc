-- What fills a database that is as large as one after years: functions of a schema of their own. Rows are as the product writes them;
-- tables are filled before they have indexes, which takes a third of the time.
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE IF NOT EXISTS bench.filled (day date PRIMARY KEY, rows bigint NOT NULL);

-- A time id (UUIDv8): the milliseconds of an instant, and noise from a number, the same in each building.
CREATE OR REPLACE FUNCTION bench.id(at timestamptz, number bigint) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '8' || substr(noise, 1, 3) || '8' || substr(noise, 4, 15))::uuid
  FROM (SELECT md5(number::text) AS noise) s
$$;

-- Whose a thing is: nearly all the one large tenant's, one in 1,000 a small one's, one in 100,000 a tiny one's.
CREATE OR REPLACE FUNCTION bench.owner(number bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN number % 100000 = 7 THEN 'tiny' WHEN number % 1000 = 3 THEN 'small' ELSE 'default' END
$$;

-- How one ended: 1 % failed, one in 500 cancelled, one in 1,000 skipped.
CREATE OR REPLACE FUNCTION bench.ending(number bigint) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (CASE WHEN number % 100 = 0 THEN 6 WHEN number % 500 = 1 THEN 7 WHEN number % 1000 = 2 THEN 8 ELSE 5 END)::smallint
$$;

-- One day of finished runs and their one-time jobs, evenly between two instants of it; both partitions are made anew.
CREATE OR REPLACE FUNCTION bench.fill_day(since timestamptz, until timestamptz, count bigint, lane int, spec text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  day timestamptz := date_trunc('day', since, 'UTC');
  low uuid := overlay(bench.id(day, 0)::text PLACING '0000-0000-000000000000' FROM 15)::uuid;
  high uuid := overlay(bench.id(day + interval '1 day', 0)::text PLACING '0000-0000-000000000000' FROM 15)::uuid;
  suffix text := to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD');
  first bigint := extract(epoch FROM day)::bigint * 1000;
  name text;
  parent text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['history', 'jobs_passing'] LOOP
    name := split_part(parent, '_', 1) || '_' || suffix;
    EXECUTE format('DROP TABLE IF EXISTS tickwise.%I', name);
    EXECUTE format('CREATE TABLE tickwise.%I (LIKE tickwise.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
                    WITH (autovacuum_vacuum_insert_threshold = 1000000, autovacuum_analyze_threshold = 1000000)', name, parent);
    EXECUTE CASE parent
      WHEN 'history' THEN format('INSERT INTO tickwise.%I (due, queued, claimed, started, ended, executor, token, run_id, job_id, state, before,
                                                           attempt, failures, crashes, trigger, namespace, reason, error)
        SELECT at, at, at, at, at + interval ''5 milliseconds'', 1, n, bench.id(at, n), bench.id(at, -n), state, CASE state WHEN 8 THEN 1 ELSE 3 END,
               1, (state = 6)::int, 0, 1, bench.owner(n), CASE state WHEN 6 THEN ''exit_code'' WHEN 8 THEN ''overlap'' END,
               CASE state WHEN 6 THEN ''it ended with the exit code 1'' END
        FROM (SELECT $6 + n AS n, $1 + (n - 1) * ($2 - $1) / $3 AS at, bench.ending(n) AS state FROM generate_series(1, $3) n) s', name)
      ELSE format('INSERT INTO tickwise.%I (created, updated, job_id, lane, lasting, recurring, namespace, name, schedule_type, task_kind,
                                            created_by, definition)
        SELECT at, at, bench.id(at, -n), $4, false, false, bench.owner(n), ''bench '' || n, ''IMMEDIATE'', ''function'', ''bench'', $5
        FROM (SELECT $6 + n AS n, $1 + (n - 1) * ($2 - $1) / $3 AS at FROM generate_series(1, $3) n) s', name)
    END USING since, until, count, lane, spec, first;
    EXECUTE format('ALTER TABLE tickwise.%I ATTACH PARTITION tickwise.%I FOR VALUES FROM (%L) TO (%L)', parent, name, low, high);
  END LOOP;
  INSERT INTO bench.filled VALUES (day AT TIME ZONE 'UTC', count) ON CONFLICT ON CONSTRAINT filled_pkey DO UPDATE SET rows = excluded.rows;
END
$$;
