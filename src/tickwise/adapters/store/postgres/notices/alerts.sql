-- name: notices_note
-- Note events by their names, those of watched namespaces that were not noted before. One array for each column: $1 namespace, $2 event,
-- $3 once, $4 subject, $5 its name, $6 sentence, $7 job, $8 run, $9 rule. Returns their number.
WITH n AS (
  SELECT n.* FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::uuid[], $9::uuid[])
    AS n(namespace, event, once, subject, subject_name, sentence, job_id, run_id, rule_id)
  JOIN tickwise.notices_watched w ON w.namespace = n.namespace
),
fresh AS (
  INSERT INTO tickwise.notices_noted (at, namespace, once) SELECT tickwise.now(), namespace, once FROM n ORDER BY namespace, once
  ON CONFLICT DO NOTHING RETURNING namespace, once
),
e AS (
  INSERT INTO tickwise.notices_events (at, token, event_id, job_id, run_id, rule_id, attempt, namespace, event, subject, subject_name, error)
  SELECT tickwise.now(), 0, gen_random_uuid(), job_id, run_id, rule_id, 0, namespace, event, subject, subject_name, sentence
  FROM n JOIN fresh USING (namespace, once)
  RETURNING 1
)
SELECT count(*) FROM e

-- name: notices_events_pending
-- Events that are not judged yet, the oldest first. $1 at most.
SELECT namespace, event_id, token, job_id, state, attempt, date_part('epoch', at) AS at, reason, error, event, subject, subject_name, run_id,
       rule_id
FROM tickwise.notices_events ORDER BY notices_events.at, event_id, token LIMIT $1

-- name: notices_jobs
-- The fields of the jobs $1 that rules need. $2 bytes of a definition; of a larger one, and of one that names no channels, none is given.
SELECT namespace, job_id, name, labels::text AS labels, schedule_type IN ('IMMEDIATE', 'FUTURE') AS is_once,
       CASE WHEN octet_length(definition) <= $2 AND position('"notify"' IN definition) > 0 THEN definition END AS definition
FROM tickwise.jobs WHERE job_id = ANY($1::uuid[])

-- name: notices_channels
-- The channels with the names $2 in the namespaces $1.
SELECT namespace, name, channel_id FROM tickwise.channels WHERE namespace = ANY($1::text[]) AND name = ANY($2::text[])

-- name: notices_ends
-- The newest $2 ends of each of the jobs $1: SUCCESS and FAILED.
SELECT q.job_id, h.run_id, h.state FROM unnest($1::uuid[]) q(job_id)
CROSS JOIN LATERAL (
  SELECT run_id, state FROM tickwise.history h
  WHERE h.job_id = q.job_id AND h.job_id IS NOT NULL AND state IN ({RunState.SUCCESS}, {RunState.FAILED})
  ORDER BY run_id DESC LIMIT $2) h

-- name: alerts_standing
-- The alerts of the subjects $2 in the namespace $1 that are not closed.
SELECT * FROM tickwise.alerts_shown WHERE subject = ANY($2::text[]) AND namespace = $1 AND state <> 'closed'

-- name: notices_bursts
-- The notices by the rules $1 (NULL: by jobs themselves) for the channels $2 that became due in the last $3 seconds of each and collect no more,
-- at most $4 of each pair. $5 the events of one of a storm.
SELECT p.rule_id, p.channel_id, m.made, m.newest_at, m.events, m.storms FROM unnest($1::uuid[], $2::uuid[], $3::float8[]) p(rule_id, channel_id, seconds)
CROSS JOIN LATERAL (
  SELECT count(*) AS made, date_part('epoch', max(due)) AS newest_at, coalesce(sum(events), 0) AS events,
         count(*) FILTER (WHERE events >= $5) AS storms
  FROM (
    SELECT due, events FROM tickwise.notices n
    WHERE n.channel_id = p.channel_id
      AND coalesce(n.rule_id, '00000000-0000-0000-0000-000000000000') = coalesce(p.rule_id, '00000000-0000-0000-0000-000000000000')
      AND made_at > tickwise.now() - 2 * p.seconds * interval '1 second' AND due > tickwise.now() - p.seconds * interval '1 second'
      AND NOT is_test AND NOT is_escalation
      AND NOT (state = 'waiting' AND sender IS NULL)
    ORDER BY made_at DESC LIMIT $4) newest) m
WHERE m.made > 0

-- name: notices_events_take
-- Take events that were judged, if they are pending and nobody else takes them. $1 ids, $2 tokens. Returns the number that was taken.
WITH mine AS MATERIALIZED (
  SELECT event_id, token FROM tickwise.notices_events
  WHERE event_id = ANY($1::uuid[]) AND (event_id, token) IN (SELECT * FROM unnest($1, $2::bigint[]))
  ORDER BY event_id, token FOR UPDATE SKIP LOCKED
),
d AS (DELETE FROM tickwise.notices_events e USING mine WHERE e.event_id = mine.event_id AND e.token = mine.token RETURNING 1)
SELECT count(*) FROM d

-- name: notices_rules_there
-- Those of the rules $2 of the namespace $1 that are there and enabled. None of them goes before the transaction ends.
SELECT rule_id FROM tickwise.notification_rules WHERE rule_id = ANY($2::uuid[]) AND namespace = $1 AND enabled ORDER BY rule_id FOR SHARE

-- name: alerts_count
-- Change alerts that are as they were seen, always in one order. One array for each column: $1 alert, $2 version, $3 name of the subject,
-- $4 events, $5 first, $6 last, $7 sentence, $8 run, $9 whether it is closed, $10 whether its snooze is over, $11 when it was told,
-- $12 when it was escalated, $13 when it is due. Returns their number.
WITH n AS MATERIALIZED (
  SELECT n.* FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::float8[], $6::float8[], $7::text[], $8::uuid[],
                     $9::boolean[], $10::boolean[], $11::float8[], $12::float8[], $13::float8[])
    AS n(alert_id, version, subject_name, events, first_at, last_at, sentence, run_id, is_closed, is_reopened, told_at, escalated_at, next_at)
  JOIN tickwise.alerts a ON a.alert_id = n.alert_id AND a.version = n.version AND a.state <> 'closed'
  ORDER BY a.alert_id FOR UPDATE OF a
),
u AS (
  UPDATE tickwise.alerts a SET
    version = a.version + 1, subject_name = n.subject_name, events = a.events + n.events,
    first_at = least(a.first_at, to_timestamp(n.first_at)), last_at = greatest(a.last_at, to_timestamp(n.last_at)),
    sentence = n.sentence, run_id = n.run_id,
    state = CASE WHEN n.is_closed THEN 'closed' WHEN n.is_reopened THEN 'open' ELSE a.state END,
    closed_at = CASE WHEN n.is_closed THEN tickwise.now() END,
    snoozed_until = CASE WHEN NOT n.is_reopened THEN a.snoozed_until END,
    told_at = coalesce(to_timestamp(n.told_at), a.told_at), escalated_at = coalesce(to_timestamp(n.escalated_at), a.escalated_at),
    next_at = to_timestamp(n.next_at)
  FROM n WHERE a.alert_id = n.alert_id AND a.version = n.version
  RETURNING 1
)
SELECT count(*) FROM u

-- name: alerts_open
-- Add alerts, unless another one of their rule, event and subject stands. $1 namespace; one array for each column: $2 alert, $3 rule, $4 event,
-- $5 subject, $6 its name, $7 severity, $8 events, $9 first, $10 last, $11 sentence, $12 run, $13 whether it is closed, $14 when it was told,
-- $15 when it was escalated, $16 when it is due. Returns their number.
WITH i AS (
  INSERT INTO tickwise.alerts (namespace, alert_id, rule_id, event, subject, subject_name, severity, events, first_at, last_at, sentence, run_id,
                               state, closed_at, told_at, escalated_at, next_at)
  SELECT $1, n.alert_id, n.rule_id, n.event, n.subject, n.subject_name, n.severity, n.events, to_timestamp(n.first_at),
         to_timestamp(n.last_at), n.sentence, n.run_id, CASE WHEN n.is_closed THEN 'closed' ELSE 'open' END,
         CASE WHEN n.is_closed THEN tickwise.now() END, to_timestamp(n.told_at), to_timestamp(n.escalated_at), to_timestamp(n.next_at)
  FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::float8[], $10::float8[], $11::text[],
              $12::uuid[], $13::boolean[], $14::float8[], $15::float8[], $16::float8[])
    AS n(alert_id, rule_id, event, subject, subject_name, severity, events, first_at, last_at, sentence, run_id, is_closed, told_at,
         escalated_at, next_at)
  ORDER BY n.subject, n.event, n.rule_id
  ON CONFLICT DO NOTHING
  RETURNING 1
)
SELECT count(*) FROM i

-- name: notices_waiting
-- The notices of the channels $1 and rules $2 that wait and that no sender has; no sender takes them before the transaction ends.
SELECT notice_id, channel_id, rule_id, is_escalation, severity, events, date_part('epoch', first_at) AS first_at,
       date_part('epoch', last_at) AS last_at, date_part('epoch', due) AS due, date_part('epoch', made_at) AS made_at, lines, tries, subjects,
       repeated, (SELECT date_part('epoch', b.first_at) FROM tickwise.notices b WHERE b.notice_id = n.beside) AS beside_first_at
FROM tickwise.notices n
WHERE state = 'waiting' AND sender IS NULL AND NOT is_test AND channel_id = ANY($1::uuid[])
  AND (channel_id, coalesce(rule_id, '00000000-0000-0000-0000-000000000000'))
      IN (SELECT c, coalesce(r, '00000000-0000-0000-0000-000000000000') FROM unnest($1, $2::uuid[]) p(c, r))
ORDER BY notice_id FOR UPDATE

-- name: notices_under_way
-- The notices of the channels $1 and rules $2 that a sender has.
SELECT notice_id, channel_id, rule_id, is_escalation, date_part('epoch', first_at) AS first_at FROM tickwise.notices n
WHERE state = 'waiting' AND sender IS NOT NULL AND NOT is_test AND channel_id = ANY($1::uuid[])
  AND (channel_id, coalesce(rule_id, '00000000-0000-0000-0000-000000000000'))
      IN (SELECT c, coalesce(r, '00000000-0000-0000-0000-000000000000') FROM unnest($1, $2::uuid[]) p(c, r))

-- name: notices_join
-- Change notices that wait. One array for each column: $1 notice, $2 severity, $3 events, $4 first, $5 last, $6 due, $7 subjects, $8
-- lines, $9 subjects of the notice beside it too.
UPDATE tickwise.notices t
SET severity = n.severity, events = n.events, first_at = to_timestamp(n.first_at), last_at = to_timestamp(n.last_at), due = to_timestamp(n.due),
    subjects = n.subjects, lines = n.lines, repeated = n.repeated, served = '{}'
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::float8[], $5::float8[], $6::float8[], $7::bigint[], $8::text[], $9::bigint[])
  AS n(notice_id, severity, events, first_at, last_at, due, subjects, lines, repeated)
WHERE t.notice_id = n.notice_id

-- name: notices_make
-- Add notices that wait, unless another one of the channel and rule does. $1 namespace; one array for each column: $2 notice, $3 channel,
-- $4 rule, $5 name of the rule, $6 severity, $7 events, $8 first, $9 last, $10 due, $11 subjects, $12 lines, $13 subjects of the notice beside it
-- too, $14 whether it is an escalation, $15 the notice beside it. Returns their number.
WITH i AS (
  INSERT INTO tickwise.notices (made_at, namespace, notice_id, channel_id, rule_id, rule_name, severity, events, first_at, last_at, due, subjects,
                                lines, repeated, is_escalation, beside, state)
  SELECT tickwise.now(), $1, n.notice_id, n.channel_id, n.rule_id, n.rule_name, n.severity, n.events, to_timestamp(n.first_at),
         to_timestamp(n.last_at), to_timestamp(n.due), n.subjects, n.lines, n.repeated, n.is_escalation, n.beside,
         'waiting'
  FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::bigint[], $8::float8[], $9::float8[], $10::float8[],
              $11::bigint[], $12::text[], $13::bigint[], $14::boolean[], $15::uuid[])
    AS n(notice_id, channel_id, rule_id, rule_name, severity, events, first_at, last_at, due, subjects, lines, repeated, is_escalation, beside)
  ORDER BY n.channel_id, n.rule_id
  ON CONFLICT DO NOTHING
  RETURNING 1
)
SELECT count(*) FROM i

-- name: alerts_due
-- Alerts that are to be looked at without an event, those first that are due longest. $1 at most.
SELECT * FROM tickwise.alerts_shown
WHERE due_at <= tickwise.now() AND state IN ('open', 'snoozed') AND due_at IS NOT NULL ORDER BY due_at LIMIT $1

-- name: alerts_find
-- Alerts, those with the newest event first. $1 namespace, $2 states (NULL: any), $3 rule, $4 subject, $5 alert (NULL: any), $6 and $7 the
-- page begins behind this time and alert, $8 limit.
SELECT * FROM tickwise.alerts_shown
WHERE namespace = $1 AND ($2::text[] IS NULL OR state = ANY($2)) AND ($3::uuid IS NULL OR rule_id = $3) AND ($4::text IS NULL OR subject = $4)
  AND ($5::uuid IS NULL OR alert_id = $5) AND ($6::float8 IS NULL OR (seen_at, alert_id) < (to_timestamp($6), $7::uuid))
ORDER BY seen_at DESC, alert_id DESC LIMIT $8

-- name: alerts_find_standing
-- As `alerts_find`, of those that are not closed.
SELECT * FROM tickwise.alerts_shown
WHERE namespace = $1 AND state <> 'closed' AND ($2::text[] IS NULL OR state = ANY($2)) AND ($3::uuid IS NULL OR rule_id = $3)
  AND ($4::text IS NULL OR subject = $4) AND ($5::uuid IS NULL OR alert_id = $5)
  AND ($6::float8 IS NULL OR (seen_at, alert_id) < (to_timestamp($6), $7::uuid))
ORDER BY seen_at DESC, alert_id DESC LIMIT $8

-- name: alerts_matching
-- Alerts that are not closed, $7 at most. $1 namespace, $2 states, $3 rule, $4 subject, $5 event (NULL: any), $6 the time that the newest event
-- is not later than (NULL: any).
SELECT alert_id FROM tickwise.alerts
WHERE namespace = $1 AND state <> 'closed' AND ($2::text[] IS NULL OR state = ANY($2)) AND ($3::uuid IS NULL OR rule_id = $3)
  AND ($4::text IS NULL OR subject = $4) AND ($5::text IS NULL OR event = $5) AND ($6::float8 IS NULL OR last_at <= to_timestamp($6))
ORDER BY last_at, alert_id LIMIT $7

-- name: alerts_decide_all
-- Keep a person's decision about the alerts that `alerts_matching` counts, those first whose newest event is the oldest: $8 state, $9 by
-- whom, $10 note. Those that have this state stay as they are. Returns their ids.
WITH found AS (
  SELECT alert_id FROM tickwise.alerts
  WHERE namespace = $1 AND state <> 'closed' AND state <> $8 AND ($2::text[] IS NULL OR state = ANY($2)) AND ($3::uuid IS NULL OR rule_id = $3)
    AND ($4::text IS NULL OR subject = $4) AND ($5::text IS NULL OR event = $5) AND ($6::float8 IS NULL OR last_at <= to_timestamp($6))
  ORDER BY last_at, alert_id LIMIT $7 FOR UPDATE
)
UPDATE tickwise.alerts a SET
  version = version + 1, state = $8, note = coalesce($10, note), snoozed_until = NULL, next_at = NULL,
  acknowledged_by = CASE $8 WHEN 'acknowledged' THEN $9 ELSE acknowledged_by END,
  acknowledged_at = CASE $8 WHEN 'acknowledged' THEN tickwise.now() ELSE acknowledged_at END,
  closed_at = CASE $8 WHEN 'closed' THEN tickwise.now() END
FROM found WHERE a.alert_id = found.alert_id
RETURNING a.alert_id

-- name: alert_get
-- The alert $2 of the namespace $1. It is not changed before the transaction ends.
SELECT s.* FROM tickwise.alerts a JOIN tickwise.alerts_shown s USING (alert_id)
WHERE a.namespace = $1 AND a.alert_id = $2 FOR UPDATE OF a

-- name: alert_decide
-- Keep a person's decision about the alert $1. $2 state, $3 by whom, $4 note, $5 until when it is snoozed.
UPDATE tickwise.alerts SET
  version = version + 1, state = $2, note = coalesce($4, note),
  acknowledged_by = CASE $2 WHEN 'acknowledged' THEN $3 WHEN 'open' THEN NULL ELSE acknowledged_by END,
  acknowledged_at = CASE $2 WHEN 'acknowledged' THEN tickwise.now() WHEN 'open' THEN NULL ELSE acknowledged_at END,
  snoozed_until = CASE $2 WHEN 'snoozed' THEN to_timestamp($5::float8) END,
  closed_at = CASE $2 WHEN 'closed' THEN tickwise.now() END,
  next_at = CASE $2 WHEN 'snoozed' THEN to_timestamp($5) WHEN 'open' THEN tickwise.now() END
WHERE alert_id = $1

-- name: alerts_other
-- Look for another alert of the rule, event and subject of the alert $1 that stands.
SELECT EXISTS (
  SELECT FROM tickwise.alerts a JOIN tickwise.alerts o ON o.namespace = a.namespace AND o.subject = a.subject AND o.event = a.event
    AND o.rule_id IS NOT DISTINCT FROM a.rule_id AND o.alert_id <> a.alert_id AND o.state <> 'closed'
  WHERE a.alert_id = $1)
