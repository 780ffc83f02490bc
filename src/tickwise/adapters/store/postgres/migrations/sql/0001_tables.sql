-- The tables. What is hot is narrow and apart from what is kept: definitions (jobs), far-future fires (timers), what
-- runs now or soon (runs), what happened (history). Every instant is timestamptz, exact to the microsecond.

-- The one reading of the clock. A test session may shift it; `(SELECT tickwise.now())` is read once a statement.
CREATE FUNCTION tickwise.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT statement_timestamp()
    + coalesce(nullif(current_setting('tickwise.shift_seconds', true), ''), '0')::float8 * interval '1 second'
$$;

-- Since when the server is up, on that clock; a test moves it too.
CREATE FUNCTION tickwise.started() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT pg_postmaster_start_time()
    + coalesce(nullif(current_setting('tickwise.shift_start_seconds', true), ''), '0')::float8 * interval '1 second'
$$;

-- Where runs wait: namespace, queue, priority and needed labels, given a number so that the hot index stays narrow.
CREATE TABLE tickwise.lanes (
  lane      int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  priority  smallint NOT NULL,
  namespace text NOT NULL,
  queue     text NOT NULL,
  requires  text[] NOT NULL,
  UNIQUE (namespace, queue, priority, requires)
);

-- Times in which a queue stands still.
CREATE TABLE tickwise.holds (
  asked     timestamptz NOT NULL,
  begun     timestamptz NOT NULL,
  until     timestamptz NOT NULL,       -- infinity: until somebody resumes it
  told      boolean NOT NULL DEFAULT false,  -- it stands for a while, and all that was held then is asked back
  namespace text NOT NULL,
  queue     text NOT NULL,
  asked_by  text NOT NULL,
  reason    text,
  PRIMARY KEY (namespace, queue)
);

-- What a job is. Inserted once; a fire never touches it. `lasting` ones (recurring, far-future, keyed, named by the
-- client, with calendars) stay in one table; the others lie in partitions by the time in their id and go by dropping those.
CREATE TABLE tickwise.jobs (
  created       timestamptz NOT NULL,
  updated       timestamptz NOT NULL,
  paused        timestamptz,
  pause_until   timestamptz,
  job_id        uuid NOT NULL,
  lane          int NOT NULL,
  version       int NOT NULL DEFAULT 1,
  standing      smallint NOT NULL DEFAULT 0 CHECK (standing IN (0, 1, 2)),  -- 0 as planned, 1 paused, 2 cancelled
  lasting       boolean NOT NULL,
  recurring     boolean NOT NULL,
  namespace     text NOT NULL,
  name          text NOT NULL,
  schedule_type text NOT NULL,
  task_kind     text NOT NULL,
  created_by    text NOT NULL,
  definition    text NOT NULL,          -- JSON, opaque here: text is 3 us a row cheaper than jsonb, and kept byte for byte
  owner         text,                   -- NULL: who created it
  key           text,
  labels        jsonb,                  -- NULL: none, so that the index of labels costs the others nothing
  pause_reason  text,
  paused_by     text,
  digest        bytea,
  calendars     text[],                 -- the names of those that its schedule goes by; NULL: none
  PRIMARY KEY (job_id, lasting)
) PARTITION BY LIST (lasting);
CREATE TABLE tickwise.jobs_lasting PARTITION OF tickwise.jobs FOR VALUES IN (true)
  WITH (fillfactor = 90, autovacuum_vacuum_insert_threshold = 1000000);
CREATE TABLE tickwise.jobs_passing PARTITION OF tickwise.jobs FOR VALUES IN (false) PARTITION BY RANGE (job_id);
CREATE TABLE tickwise.jobs_rest PARTITION OF tickwise.jobs_passing DEFAULT
  WITH (autovacuum_vacuum_insert_threshold = 1000000, autovacuum_analyze_threshold = 1000000);
CREATE UNIQUE INDEX jobs_key ON tickwise.jobs_lasting (namespace, key) WHERE key IS NOT NULL;
CREATE INDEX jobs_standing ON tickwise.jobs (standing, job_id) WHERE standing <> 0;
CREATE INDEX jobs_namespace ON tickwise.jobs (namespace, job_id) WHERE namespace <> 'default';  -- who shares a database pays for it
-- Schedules other than the one that is common in the place: most jobs pay nothing.
CREATE INDEX jobs_lasting_type ON tickwise.jobs_lasting (schedule_type, job_id) WHERE schedule_type <> 'FUTURE';
CREATE INDEX jobs_passing_type ON tickwise.jobs_passing (schedule_type, job_id) WHERE schedule_type <> 'IMMEDIATE';
CREATE INDEX jobs_calendars ON tickwise.jobs_lasting USING gin (calendars) WHERE calendars IS NOT NULL;  -- "is it in use?"
CREATE INDEX jobs_labels ON tickwise.jobs USING gin (labels jsonb_path_ops) WHERE labels IS NOT NULL;

-- When a job fires next: one narrow row per job that will fire again. With a `hold`, `due` is no fire but a time to look again.
CREATE TABLE tickwise.timers (
  due       timestamptz NOT NULL,       -- infinity: held back until somebody lets it go
  job_id    uuid PRIMARY KEY,
  run_id    uuid,                       -- the name of that fire; NULL: a scheduler decides what it comes to
  since     timestamptz,                -- with a hold: the nominal time of the first occurrence that is not on record
  minute    timestamptz,                -- since when runs are counted for the fuse,
  in_minute int,                        -- and how many there were
  fired     bigint,                     -- runs that the schedule has made; NULL: none
  hold      text CHECK (hold IN ('paused', 'calendar', 'maintenance')),
  zone_data text                        -- the version of the zone data that `due` was computed with
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 100000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000);
CREATE INDEX timers_once ON tickwise.timers (due) WHERE run_id IS NOT NULL;
CREATE INDEX timers_decided ON tickwise.timers (due) WHERE run_id IS NULL;
CREATE INDEX timers_zone_data ON tickwise.timers (zone_data, due) WHERE zone_data IS NOT NULL AND hold IS NULL;
CREATE INDEX timers_held ON tickwise.timers (job_id) WHERE hold IN ('calendar', 'maintenance');

-- What is to run now or soon: a small table that stays in cache. The claim is a HOT update: no column that it writes is
-- indexed, none is NULL (the claimed row must fit where the free one was), and half of every page is kept free for it.
CREATE TABLE tickwise.runs (
  due       timestamptz NOT NULL,       -- when it should start
  ready     timestamptz NOT NULL,       -- its place in the queue: never before it was written, since claims read forward
  queued    timestamptz NOT NULL,
  claimed   timestamptz NOT NULL DEFAULT '-infinity',
  started   timestamptz NOT NULL DEFAULT '-infinity',
  holder    bigint NOT NULL DEFAULT 0,  -- executor; 0: free
  token     bigint NOT NULL DEFAULT 0,  -- fence of the current attempt
  run_id    uuid PRIMARY KEY,
  job_id    uuid NOT NULL,
  lane      int NOT NULL,
  state     smallint NOT NULL DEFAULT 1,
  attempt   smallint NOT NULL DEFAULT 0,
  failures  smallint NOT NULL DEFAULT 0,
  crashes   smallint NOT NULL DEFAULT 0,
  trigger   smallint NOT NULL DEFAULT 1,
  -- What becomes of it while an earlier run of its job is unfinished: 0 it does not matter, 1 skip, 2 queue_one, 3 queue_all,
  -- 4 cancel_running; negative: that is settled, it may start.
  overlap   smallint NOT NULL DEFAULT 0,
  blocked   boolean NOT NULL DEFAULT false,  -- it waits for an earlier run, or a slot (`limit_key`); its `ready` is infinity
  watched   boolean NOT NULL DEFAULT false,  -- a later run waits for its end
  guarded   boolean NOT NULL DEFAULT false,
  own       boolean NOT NULL DEFAULT false,  -- spec is the run's own, not the job's
  -- What becomes of it if its holder is lost, said at its recorded start: 0 it runs again, 1 it fails, 2 it fails and a person decides.
  on_unknown smallint NOT NULL DEFAULT 0,
  namespace text NOT NULL,
  spec      text,                       -- NULL: large, read it from the job
  origin    uuid,
  -- What follows is NULL in most rows. It is last, because a row is read slowly from its first NULL on.
  nominal   timestamptz,                -- the time that the schedule named; NULL: due
  -- RUNNING: it has a slot of this key. Blocked: it waits for one. Else it was woken, and has not begun since.
  limit_key text,
  place     timestamptz,                -- among those that wait for a slot of a key: since when it was ready,
  most      int,                        -- and as how many of them it may start; old news of all others
  slot      timestamptz,                -- under its rate; NULL: it has none, or had it and began
  rate_key  text,                       -- which rate that is
  -- Plain comparisons: with IN this check took 2 us of the claim of a run.
  CONSTRAINT runs_held CHECK (state > 0 AND state < 5 AND (holder = 0) = (state = 1 OR state = 4))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200000,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 2000000000,
        autovacuum_vacuum_cost_delay = 1, autovacuum_vacuum_cost_limit = 2000);
CREATE INDEX runs_ready ON tickwise.runs (lane, ready);
CREATE INDEX runs_job ON tickwise.runs (job_id);
CREATE INDEX runs_blocked ON tickwise.runs (job_id, due, run_id) WHERE blocked AND limit_key IS NULL;
CREATE INDEX runs_limited ON tickwise.runs (namespace, limit_key, blocked, lane, most, place, run_id) WHERE limit_key IS NOT NULL;
CREATE INDEX runs_paced ON tickwise.runs (namespace, rate_key, slot) WHERE rate_key IS NOT NULL;

-- Concurrency keys in use. A row is there to be locked: who has it may count what is RUNNING with the key, and start more.
CREATE TABLE tickwise.limits (
  namespace text NOT NULL,
  limit_key text NOT NULL,
  PRIMARY KEY (namespace, limit_key)
) WITH (fillfactor = 50);

-- How many of those that wait for a slot of a key, asked in turn, are woken: who finds fewer taken and woken than the limit that it said
-- itself; and where slots are free, and `stale` were woken that nobody claims, as many more as these.
CREATE FUNCTION tickwise.wake(so_far int, most int, taken int, stale int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT so_far + CASE WHEN most > taken AND so_far < greatest(most - taken, stale) THEN 1 ELSE 0 END
$$;
CREATE AGGREGATE tickwise.woken(most int, taken int, stale int) (SFUNC = tickwise.wake, STYPE = int, INITCOND = '0');

-- When the last run started under each rate (-infinity: none has). Who has the row may give slots; which are given, the runs say.
CREATE TABLE tickwise.rates (
  started   timestamptz NOT NULL,
  namespace text NOT NULL,
  rate_key  text NOT NULL,
  PRIMARY KEY (namespace, rate_key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- One value per claim. Without CACHE, or tokens would not grow with time.
CREATE SEQUENCE tickwise.fence;

-- A place in the queue for a run that a scheduler makes ahead: within the last tenth of a second before it is due, each
-- a microsecond after the one made before it. A claim reads on from where the last one ended; among 60,000 runs of one and
-- the same instant it would read again all that is held. After 100,000 the places begin anew, and the next sweep finds
-- what then lies behind a mark. Nothing starts by it: a run starts when it is due.
CREATE SEQUENCE tickwise.places;
CREATE FUNCTION tickwise.place(due timestamptz) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
  SELECT due - interval '100 milliseconds' + (nextval('tickwise.places') % 100000) * interval '1 microsecond'
$$;

-- Who may hold runs. The lease is the executor's, not the run's: a heartbeat writes one row, whatever is held.
CREATE TABLE tickwise.executors (
  born          timestamptz NOT NULL,
  lease         timestamptz NOT NULL,
  gone          timestamptz,
  executor      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  lease_seconds float8 NOT NULL,
  slots         int NOT NULL,
  settled       boolean NOT NULL DEFAULT false,  -- it is gone and what it held is free
  name          text NOT NULL,
  queues        text[] NOT NULL,
  labels        text[] NOT NULL,
  functions     text[] NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- The gone are kept as long as runs are; whoever beats changes none of these.
CREATE INDEX executors_living ON tickwise.executors (executor) WHERE gone IS NULL;
CREATE INDEX executors_unsettled ON tickwise.executors (executor) WHERE gone IS NOT NULL AND NOT settled;
CREATE INDEX executors_gone ON tickwise.executors (gone) WHERE gone IS NOT NULL;

-- What holders are asked to stop. A row outlives its run by at most a heartbeat.
CREATE TABLE tickwise.cancel_requests (
  asked     timestamptz NOT NULL,
  heard     timestamptz,                -- when its holder was told first
  token     bigint NOT NULL,
  holder    bigint NOT NULL,
  run_id    uuid PRIMARY KEY,
  kind      text NOT NULL CHECK (kind IN ('cancel', 'revoke', 'return')),
  reason    text CHECK (reason IS NULL OR kind = 'revoke'),  -- the run is then put on record as skipped; NULL: it is forgotten
  error     text                        -- what is said of the run if the store has to end it itself
);
CREATE INDEX cancel_requests_holder ON tickwise.cancel_requests (holder);

-- What happened, and what did not: occurrences that were skipped. Insert-only, partitioned by the time inside the run id, so that an id alone finds its partition.
CREATE TABLE tickwise.history (
  due        timestamptz NOT NULL,
  queued     timestamptz NOT NULL,
  claimed    timestamptz,
  started    timestamptz,
  ended      timestamptz NOT NULL,
  executor   bigint NOT NULL,
  token      bigint NOT NULL,
  run_id     uuid NOT NULL PRIMARY KEY,
  job_id     uuid NOT NULL,
  state      smallint NOT NULL,
  before     smallint NOT NULL,          -- the state that it ended from
  attempt    smallint NOT NULL,
  failures   smallint NOT NULL,
  crashes    smallint NOT NULL,
  trigger    smallint NOT NULL,
  namespace  text NOT NULL,
  reason     text,
  error      text,
  result     text,
  definition text,                       -- the run's own, if it was not the job's
  origin     uuid,
  nominal    timestamptz,                -- NULL: due
  until      timestamptz,                -- of a skip that stands for several occurrences: the nominal time of the last,
  occurrences int,                       -- and how many; NULL: one
  cancel_asked timestamptz,              -- of one that was held and ended CANCELLED because somebody asked: when,
  cancel_heard timestamptz,              -- when its holder was told,
  cancel_error text                      -- and what was said
) PARTITION BY RANGE (run_id);
-- The predicate, always true, keeps the planner from looking a run up by its id in this index, which is read from end to
-- end then: on a partition that was analysed while it was empty it sees no difference, and remembers that choice.
CREATE INDEX history_job ON tickwise.history (job_id, run_id) WHERE job_id IS NOT NULL;
CREATE INDEX history_troubles ON tickwise.history (state, run_id) WHERE state <> 5;  -- what people look for; success pays nothing
-- What else people look for, where it is rare: the common run pays no more than the look at whether it belongs there.
CREATE INDEX history_namespace ON tickwise.history (namespace, run_id) WHERE namespace <> 'default';
-- Jobs by their failed runs. Written as nobody else asks for them: a page of dead letters would be put in order by it, job by job.
CREATE INDEX history_failed ON tickwise.history (job_id, run_id) WHERE state::int = 6;
CREATE INDEX history_reason ON tickwise.history (reason, run_id) WHERE reason IS NOT NULL;
CREATE INDEX history_trigger ON tickwise.history (trigger, run_id) WHERE trigger <> 1;
CREATE INDEX history_origin ON tickwise.history (origin, run_id) WHERE origin IS NOT NULL;
-- A search by due time reads the ids of that time; these are due long after the time in their id.
CREATE INDEX history_late ON tickwise.history (due) WHERE due - nominal > interval '10 minutes';
CREATE TABLE tickwise.history_rest PARTITION OF tickwise.history DEFAULT
  WITH (autovacuum_vacuum_insert_threshold = 1000000, autovacuum_analyze_threshold = 1000000);

-- How many runs came on record in each hour, so that nobody counts history. What came last is appended, one narrow row for each
-- statement that wrote history (`tally`), with no index and nothing to wait for; the upkeep folds these into one row an hour.
CREATE TABLE tickwise.tallies_new (
  hour      timestamptz NOT NULL,
  runs      bigint NOT NULL,
  state     smallint NOT NULL,
  namespace text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_insert_threshold = -1);
CREATE TABLE tickwise.tallies (
  hour      timestamptz NOT NULL,
  runs      bigint NOT NULL,
  state     smallint NOT NULL,
  namespace text NOT NULL,
  PRIMARY KEY (namespace, hour, state)
) WITH (fillfactor = 50);
CREATE INDEX tallies_hour ON tickwise.tallies (hour);

-- Attempts that did not end their run; the last one is in `runs` or `history`.
CREATE TABLE tickwise.attempts (
  claimed  timestamptz,
  started  timestamptz,
  ended    timestamptz NOT NULL,
  token    bigint NOT NULL,
  executor bigint NOT NULL,
  run_id   uuid NOT NULL,
  attempt  smallint NOT NULL,
  state    smallint NOT NULL,
  reason   text,
  error    text,
  PRIMARY KEY (run_id, token)
);

-- Runs whose end starts others, which are yet to be made.
CREATE TABLE tickwise.follows (
  since     timestamptz NOT NULL,
  run_id    uuid PRIMARY KEY,
  succeeded boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX follows_since ON tickwise.follows (since, run_id);

-- What was done about runs that failed for good. A dead letter is a FAILED row of history; these are the settled ones.
CREATE TABLE tickwise.letters (
  settled     timestamptz NOT NULL,
  run_id      uuid PRIMARY KEY,
  redriven_as uuid,
  status      text NOT NULL CHECK (status IN ('redriven', 'discarded', 'decided')),
  settled_by  text NOT NULL,
  note        text,
  ruling      text CHECK (ruling IN ('succeeded', 'failed')),
  CHECK ((status = 'decided') = (ruling IS NOT NULL) AND (status = 'redriven') = (redriven_as IS NOT NULL))
);

-- Something that is done to everything that a filter matches, page by page.
CREATE TABLE tickwise.operations (
  created      timestamptz NOT NULL,
  updated      timestamptz NOT NULL,
  ended        timestamptz,
  free         timestamptz NOT NULL,     -- from then on somebody else may take it
  operation_id uuid PRIMARY KEY,
  step         int NOT NULL DEFAULT 0,   -- the fence: how often the cursor has moved
  matched      int,
  done         bigint NOT NULL DEFAULT 0,
  refused      bigint NOT NULL DEFAULT 0,
  namespace    text NOT NULL,
  kind         text NOT NULL,
  request      text NOT NULL,            -- JSON, opaque here
  created_by   text NOT NULL,
  status       text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'cancelled')),
  problems     text NOT NULL DEFAULT '[]',
  cursor       text
) WITH (fillfactor = 50);
CREATE INDEX operations_running ON tickwise.operations (free, operation_id) WHERE status = 'running';
CREATE INDEX operations_listed ON tickwise.operations (namespace, operation_id);

-- Answers kept with their effect under a client's Idempotency-Key.
CREATE TABLE tickwise.receipts (
  expires     timestamptz NOT NULL,
  status      int NOT NULL,
  principal   text NOT NULL,
  route       text NOT NULL,
  key         text NOT NULL,
  body_digest bytea NOT NULL,
  body        bytea NOT NULL,
  PRIMARY KEY (principal, route, key)
);
CREATE INDEX receipts_expires ON tickwise.receipts (expires);

-- Stored tasks, every version.
CREATE TABLE tickwise.tasks (
  created    timestamptz NOT NULL,
  version    int NOT NULL,
  namespace  text NOT NULL,
  task_id    text NOT NULL,
  name       text NOT NULL,
  task       text NOT NULL,
  digest     text NOT NULL,
  created_by text NOT NULL,
  PRIMARY KEY (namespace, task_id, version)
);

-- Calendars and maintenance windows, and a number that grows with each change of any.
CREATE TABLE tickwise.rules (
  created    timestamptz NOT NULL,
  updated    timestamptz NOT NULL,
  version    int NOT NULL,
  kind       text NOT NULL CHECK (kind IN ('calendar', 'window')),
  namespace  text NOT NULL,
  name       text NOT NULL,
  created_by text NOT NULL,
  body       text NOT NULL,             -- JSON, opaque here
  PRIMARY KEY (namespace, kind, name)
);
CREATE TABLE tickwise.rules_version (
  version bigint NOT NULL,
  single  boolean PRIMARY KEY DEFAULT true CHECK (single)
);
INSERT INTO tickwise.rules_version (version) VALUES (1);

-- How often the schedules of a namespace fired in a minute.
CREATE TABLE tickwise.fires (
  minute    timestamptz NOT NULL,
  fires     bigint NOT NULL,
  namespace text NOT NULL,
  PRIMARY KEY (namespace, minute)
) WITH (fillfactor = 50);

-- Times in which something could not be reached.
CREATE TABLE tickwise.incidents (
  began timestamptz NOT NULL,
  ended timestamptz NOT NULL,
  kind  text NOT NULL,
  who   text NOT NULL,
  PRIMARY KEY (began, kind, who)
);

-- Who may do what. The secrets themselves are nowhere: `digest` is a SHA-256.
CREATE TABLE tickwise.keys (
  created   timestamptz NOT NULL,
  key_id    uuid NOT NULL UNIQUE,
  digest    bytea PRIMARY KEY,
  name      text NOT NULL,
  namespace text NOT NULL,
  scopes    text[] NOT NULL,
  label     text NOT NULL
);
