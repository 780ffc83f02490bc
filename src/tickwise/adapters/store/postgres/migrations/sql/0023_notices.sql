-- Channels, notification rules, alerts and notices (`domain.notices`).

CREATE TABLE tickwise.channels (
  created_at    timestamptz NOT NULL,
  delivered_at  timestamptz,
  failed_at     timestamptz,
  version       int NOT NULL DEFAULT 1,
  allow_private boolean NOT NULL,
  channel_id    uuid PRIMARY KEY,
  namespace     text NOT NULL,
  name          text NOT NULL,
  kind          text NOT NULL,
  settings      text NOT NULL,             -- JSON, as it is shown
  created_by    text NOT NULL,
  error         text,
  UNIQUE (namespace, name)
);

-- Apart, so that a role that shows channels has no right to read these.
CREATE TABLE tickwise.channel_secrets (
  channel_id uuid PRIMARY KEY REFERENCES tickwise.channels ON DELETE CASCADE,
  secrets    text NOT NULL                 -- JSON
);

CREATE TABLE tickwise.notification_rules (
  created_at timestamptz NOT NULL,
  version    int NOT NULL DEFAULT 1,
  enabled    boolean NOT NULL,
  rule_id    uuid PRIMARY KEY,
  namespace  text NOT NULL,
  name       text NOT NULL,
  created_by text NOT NULL,
  channels   uuid[] NOT NULL,
  jobs       uuid[] NOT NULL,
  events     text[] NOT NULL,
  body       text NOT NULL,                -- JSON: the whole rule
  UNIQUE (namespace, name)
);
CREATE INDEX notification_rules_channels ON tickwise.notification_rules USING gin (channels);

-- One row: it changes with every rule and channel.
CREATE TABLE tickwise.notices_version (
  version bigint NOT NULL
);
INSERT INTO tickwise.notices_version VALUES (1);

-- The namespaces that note events: those with an enabled rule, and those in which a job has named channels with `notify`.
CREATE TABLE tickwise.notices_watched (
  namespace text PRIMARY KEY,
  rules     int NOT NULL DEFAULT 0,      -- enabled ones,
  retries   int NOT NULL DEFAULT 0,      -- and those of them that are about retries
  by_jobs   boolean NOT NULL DEFAULT false
);

-- Events that no rule was asked about yet, most of them written by the statement that ends a run.
CREATE TABLE tickwise.notices_events (
  at           timestamptz NOT NULL,
  token        bigint NOT NULL,
  event_id     uuid NOT NULL,            -- of a run: its id
  job_id       uuid,
  run_id       uuid,
  rule_id      uuid,                     -- only this rule is asked
  state        smallint,                 -- in which the run ended; NULL: see `event`
  attempt      smallint NOT NULL,
  namespace    text NOT NULL,
  event        text,
  subject      text,
  subject_name text,
  reason       text,
  error        text,
  PRIMARY KEY (event_id, token)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1);

CREATE INDEX notices_events_at ON tickwise.notices_events (at, event_id, token);
CREATE INDEX notices_events_job ON tickwise.notices_events (job_id);

-- What was noted once and is not noted again, such as that a run is late.
CREATE TABLE tickwise.notices_noted (
  at        timestamptz NOT NULL,
  namespace text NOT NULL,
  once      text NOT NULL,
  PRIMARY KEY (namespace, once)
);
CREATE INDEX notices_noted_at ON tickwise.notices_noted (at);

CREATE TABLE tickwise.alerts (
  first_at        timestamptz NOT NULL,
  last_at         timestamptz NOT NULL,
  acknowledged_at timestamptz,
  snoozed_until   timestamptz,
  closed_at       timestamptz,
  told_at         timestamptz,
  escalated_at    timestamptz,
  next_at         timestamptz,             -- when it is told again, or told to others, or its snooze ends
  events          bigint NOT NULL,
  version         bigint NOT NULL DEFAULT 1,
  alert_id        uuid PRIMARY KEY,
  rule_id         uuid,
  run_id          uuid,
  namespace       text NOT NULL,
  event           text NOT NULL,
  subject         text NOT NULL,
  subject_name    text NOT NULL,
  severity        text NOT NULL,
  state           text NOT NULL CHECK (state IN ('open', 'acknowledged', 'snoozed', 'closed')),
  sentence        text NOT NULL,
  acknowledged_by text,
  note            text
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX alerts_one ON tickwise.alerts (namespace, subject, event, rule_id) NULLS NOT DISTINCT WHERE state <> 'closed';
CREATE INDEX alerts_seen ON tickwise.alerts (namespace, last_at, alert_id);
CREATE INDEX alerts_next ON tickwise.alerts (next_at) WHERE state IN ('open', 'snoozed') AND next_at IS NOT NULL;
CREATE INDEX alerts_of_rule ON tickwise.alerts (rule_id) WHERE state <> 'closed';
CREATE INDEX alerts_of_subject ON tickwise.alerts (subject) WHERE state <> 'closed';
CREATE INDEX alerts_closed ON tickwise.alerts (closed_at) WHERE state = 'closed';

CREATE TABLE tickwise.notices (
  made_at       timestamptz NOT NULL DEFAULT tickwise.now(),
  first_at      timestamptz NOT NULL,
  last_at       timestamptz NOT NULL,
  due           timestamptz NOT NULL,
  leased_until  timestamptz,
  tried_at      timestamptz,
  ended_at      timestamptz,
  events        bigint NOT NULL,
  tries         int NOT NULL DEFAULT 0,
  is_test       boolean NOT NULL DEFAULT false,
  is_escalation boolean NOT NULL DEFAULT false,
  notice_id     uuid PRIMARY KEY,
  channel_id    uuid NOT NULL,
  rule_id       uuid,
  namespace     text NOT NULL,
  rule_name     text NOT NULL,
  severity      text NOT NULL,
  state         text NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead', 'dropped')),
  lines         text NOT NULL,             -- JSON, the newest
  sender        text,
  error         text
) WITH (fillfactor = 80);
-- One that waits and is not held collects what comes for its channel and rule.
CREATE UNIQUE INDEX notices_one ON tickwise.notices (channel_id, rule_id, is_escalation) NULLS NOT DISTINCT
  WHERE state = 'waiting' AND sender IS NULL AND NOT is_test;
CREATE INDEX notices_due ON tickwise.notices (due) WHERE state = 'waiting';
CREATE INDEX notices_held ON tickwise.notices (channel_id, leased_until) WHERE state = 'waiting' AND sender IS NOT NULL;
CREATE INDEX notices_made ON tickwise.notices (channel_id, (coalesce(rule_id, '00000000-0000-0000-0000-000000000000'::uuid)), made_at);
CREATE INDEX notices_of_namespace ON tickwise.notices (namespace, notice_id);
CREATE INDEX notices_ended ON tickwise.notices (ended_at) WHERE state <> 'waiting';
