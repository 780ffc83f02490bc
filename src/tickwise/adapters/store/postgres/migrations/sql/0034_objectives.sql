-- Objectives for the starts of many jobs at once, and the runs that began in time or late, counted with their ends.

CREATE TABLE tickwise.objectives (
  created      timestamptz NOT NULL,
  start_within float8 NOT NULL,         -- seconds
  ratio        float8 NOT NULL,
  priority     smallint,                -- NULL: any
  objective_id uuid PRIMARY KEY,
  namespace    text NOT NULL,
  name         text NOT NULL,
  created_by   text NOT NULL,
  labels       jsonb NOT NULL,          -- its jobs have all of them
  UNIQUE (namespace, name)
);

-- As ends note them: rows are added and taken, so that no two transactions wait for one.
CREATE TABLE tickwise.objective_starts (
  minute       timestamptz NOT NULL,    -- of the due times
  objective_id uuid NOT NULL,
  good         int NOT NULL,
  late         int NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- As they are read.
CREATE TABLE tickwise.objective_counts (
  begins       timestamptz NOT NULL,
  good         bigint NOT NULL,
  late         bigint NOT NULL,
  seconds      int NOT NULL,            -- that it counts: 60 or 3600
  objective_id uuid NOT NULL REFERENCES tickwise.objectives ON DELETE CASCADE,
  PRIMARY KEY (objective_id, seconds, begins)
);

-- Where there is no objective, a statement reads an empty table once. A run counts by the start of its first attempt.
CREATE FUNCTION tickwise.objectives_ended() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM tickwise.objectives) THEN
    RETURN NULL;
  END IF;
  INSERT INTO tickwise.objective_starts (minute, objective_id, good, late)
  SELECT date_trunc('minute', s.due), o.objective_id, count(*) FILTER (WHERE NOT l.late), count(*) FILTER (WHERE l.late)
  FROM (
    SELECT e.namespace, e.job_id, e.due, e.state = 8 AS is_skipped, e.reason,
           CASE WHEN e.attempt > 1 THEN least(e.started, (SELECT min(t.started) FROM tickwise.attempts t WHERE t.run_id = e.run_id))
                ELSE e.started END AS started
    FROM ended e WHERE EXISTS (SELECT FROM tickwise.objectives x WHERE x.namespace = e.namespace)) s
  CROSS JOIN LATERAL (
    SELECT j.labels, (SELECT p.priority FROM tickwise.lanes p WHERE p.lane = j.lane) AS priority
    FROM tickwise.jobs j WHERE j.job_id = s.job_id LIMIT 1) j
  JOIN tickwise.objectives o ON o.namespace = s.namespace
  CROSS JOIN LATERAL (
    SELECT CASE WHEN s.is_skipped THEN CASE WHEN s.reason IN ('expired', 'misfire') THEN true END
                ELSE s.started > s.due + o.start_within * interval '1 second' END AS late) l
  WHERE (o.priority IS NULL OR o.priority = j.priority) AND (o.labels = '{}' OR j.labels @> o.labels) AND l.late IS NOT NULL
  GROUP BY 1, 2;
  RETURN NULL;
END
$$;

-- At the end, for writers wait from here on.
SELECT tickwise.lock_briefly(ARRAY['history']);
CREATE TRIGGER history_objectives AFTER INSERT ON tickwise.history REFERENCING NEW TABLE AS ended
  FOR EACH STATEMENT EXECUTE FUNCTION tickwise.objectives_ended();
