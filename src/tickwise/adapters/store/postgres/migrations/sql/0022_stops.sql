-- Stops: for a time, nothing of a namespace, of a queue, of jobs with certain labels or of one job starts.

CREATE TABLE tickwise.stops (
  asked      timestamptz NOT NULL,
  begun      timestamptz NOT NULL,
  until      timestamptz NOT NULL,      -- of one that was lifted: when; without an end: years later
  stop_id    uuid PRIMARY KEY,
  job_id     uuid,
  open_ended boolean NOT NULL,
  told       boolean NOT NULL DEFAULT false,  -- it stands for a while, and all that was held then is asked back
  namespace  text NOT NULL,
  queue      text,
  labels     jsonb,
  meanwhile  text NOT NULL,             -- what comes of fires in it: hold, skip
  reason     text NOT NULL,
  asked_by   text NOT NULL,
  lifted_by  text,
  CHECK ((job_id IS NOT NULL)::int + (queue IS NOT NULL)::int + (labels IS NOT NULL)::int <= 1)
);
CREATE INDEX stops_namespace ON tickwise.stops (namespace, stop_id);
CREATE INDEX stops_until ON tickwise.stops (until);
CREATE INDEX stops_untold ON tickwise.stops (begun) WHERE NOT told;

-- What is stopped now. Of those that the lane of a run does not tell, few rows are read and none is written at a claim.
CREATE VIEW tickwise.stops_of_lanes AS
SELECT namespace, queue FROM tickwise.stops
WHERE job_id IS NULL AND labels IS NULL AND begun <= (SELECT tickwise.now()) AND until > (SELECT tickwise.now());
CREATE VIEW tickwise.stops_of_jobs AS
SELECT namespace, job_id, labels FROM tickwise.stops
WHERE (job_id IS NOT NULL OR labels IS NOT NULL) AND begun <= (SELECT tickwise.now()) AND until > (SELECT tickwise.now());

-- Whether a stop of a job, or of its labels, is in force. Asked only of runs of namespaces with such a stop. A function whose plan is kept:
-- a claim asks it of each run.
CREATE FUNCTION tickwise.is_stopped(of_job uuid) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
RETURN EXISTS (
  SELECT FROM (SELECT namespace, labels FROM tickwise.jobs WHERE job_id = of_job LIMIT 1) j
  CROSS JOIN LATERAL (
    SELECT FROM tickwise.stops_of_jobs s
    WHERE s.namespace = j.namespace AND (s.job_id = of_job OR j.labels @> s.labels) LIMIT 1) s);
END
$$;

-- The views of 0001, with the queues that a stop concerns. A lane is looked up for each stop of a namespace: without one, none is read.
CREATE OR REPLACE VIEW tickwise.queues_held AS
SELECT namespace, queue FROM tickwise.holds WHERE begun <= (SELECT tickwise.now()) AND until > (SELECT tickwise.now())
UNION ALL
SELECT namespace, queue FROM tickwise.stops_of_lanes WHERE queue IS NOT NULL
UNION ALL
SELECT s.namespace, l.queue FROM tickwise.stops_of_lanes s
CROSS JOIN LATERAL (SELECT queue FROM tickwise.lanes l WHERE l.namespace = s.namespace OFFSET 0) l
WHERE s.queue IS NULL;

-- The rights of an executor's own role are those of 0011, and what a claim and a heartbeat ask of stops. Roles that have them already get it
-- now. A heartbeat that asks runs back marks holds and stops as told.
CREATE OR REPLACE FUNCTION tickwise.grant_executor(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('GRANT USAGE ON SCHEMA tickwise TO %I', grantee);
  EXECUTE format('GRANT SELECT ON tickwise.alembic_version, tickwise.schema_version, tickwise.cluster, tickwise.jobs, tickwise.lanes, '
                 'tickwise.queues_held, tickwise.lanes_held, tickwise.runs_shown, tickwise.run_quotas, '
                 'tickwise.stops_of_lanes, tickwise.stops_of_jobs, tickwise.results_applied TO %I', grantee);
  EXECUTE format('GRANT SELECT, UPDATE (told) ON tickwise.holds, tickwise.stops TO %I', grantee);
  EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON tickwise.runs, tickwise.attempts, tickwise.executors, '
                 'tickwise.cancel_requests, tickwise.limits, tickwise.rates, tickwise.follows, tickwise.board TO %I', grantee);
  EXECUTE format('GRANT SELECT, INSERT ON tickwise.history, tickwise.tallies_new, tickwise.incidents TO %I', grantee);
  EXECUTE format('GRANT SELECT, UPDATE (differed) ON tickwise.epochs TO %I', grantee);
  -- Any process may tidy what processes tell each other, and the pace of requests that have ended.
  EXECUTE format('GRANT SELECT, UPDATE, DELETE ON tickwise.paces TO %I', grantee);
  EXECUTE format('GRANT USAGE ON SEQUENCE tickwise.fence, tickwise.places TO %I', grantee);
END $$;

DO $$
DECLARE
  grantee name;
BEGIN
  FOR grantee IN
    SELECT DISTINCT r.rolname FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.oid = 'tickwise.lanes_held'::regclass AND a.privilege_type = 'SELECT' AND r.oid <> c.relowner
  LOOP
    EXECUTE format('GRANT SELECT ON tickwise.stops_of_lanes, tickwise.stops_of_jobs TO %I', grantee);
    EXECUTE format('GRANT SELECT, UPDATE (told) ON tickwise.holds, tickwise.stops TO %I', grantee);
  END LOOP;
END $$;
