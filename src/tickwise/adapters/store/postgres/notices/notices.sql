-- name: notice_get
-- One notice, in the columns of `notices_find`. $1 id.
SELECT notice_id, namespace, channel_id, rule_id, rule_name, severity, state, events, date_part('epoch', first_at) AS first_at,
       date_part('epoch', last_at) AS last_at, lines, date_part('epoch', due) AS due, tries, date_part('epoch', tried_at) AS tried_at,
       error, date_part('epoch', ended_at) AS ended_at, is_test, is_escalation, subjects, beside, repeated, served
FROM tickwise.notices WHERE notice_id = $1

-- name: notice_channel
-- The channel of a new notice, which stays while it is added. $1 id, $2 namespace.
SELECT true FROM tickwise.channels WHERE channel_id = $1 AND namespace = $2 FOR SHARE

-- name: notice_channel_of_test
-- The channel of a new test, to which no other test is added at once. $1 id, $2 namespace.
SELECT true FROM tickwise.channels WHERE channel_id = $1 AND namespace = $2 FOR NO KEY UPDATE

-- name: notice_test_anew
-- Make the test of a channel that waits and is not under way due, as if it was never tried. $1 channel, $2 due.
UPDATE tickwise.notices SET due = least(to_timestamp($2::float8), tickwise.now()), tries = 0, tried_at = NULL, error = NULL, sender = NULL,
  leased_until = NULL, served = '{}'
WHERE notice_id IN (
  SELECT notice_id FROM tickwise.notices
  WHERE channel_id = $1 AND is_test AND state = 'waiting' AND (sender IS NULL OR leased_until <= tickwise.now())
  FOR UPDATE SKIP LOCKED)

-- name: notice_test
-- The test of a channel that waits, in the columns of `notices_find`. $1 channel.
SELECT notice_id, namespace, channel_id, rule_id, rule_name, severity, state, events, date_part('epoch', first_at) AS first_at,
       date_part('epoch', last_at) AS last_at, lines, date_part('epoch', due) AS due, tries, date_part('epoch', tried_at) AS tried_at,
       error, date_part('epoch', ended_at) AS ended_at, is_test, is_escalation, subjects, beside, repeated, served
FROM tickwise.notices WHERE channel_id = $1 AND is_test AND state = 'waiting' ORDER BY notice_id LIMIT 1

-- name: notice_add
-- Store a notice. $1 id, $2 namespace, $3 channel, $4 rule, $5 name of the rule, $6 severity, $7 events, $8 first, $9 last, $10 due,
-- $11 lines, $12 whether it is a test, $13 whether it is an escalation, $14 subjects, $15 the notice beside it, $16 subjects of both.
INSERT INTO tickwise.notices (first_at, last_at, due, made_at, events, is_test, is_escalation, notice_id, channel_id, rule_id, namespace, rule_name,
  severity, state, lines, subjects, beside, repeated)
VALUES (to_timestamp($8::float8), to_timestamp($9::float8), to_timestamp($10::float8), tickwise.now(), $7, $12, $13, $1, $3, $4, $2, $5, $6, 'waiting', $11, $14,
  $15, $16)

-- name: notices_take_lock
-- Let one sender at a time look for due notices, so that no two take notices of one channel.
SELECT pg_advisory_xact_lock(8388353586463617390)

-- name: channels_exist
-- Check whether there is a channel.
SELECT EXISTS (SELECT FROM tickwise.channels)

-- name: notice_held
-- A notice that a sender holds, locked, in the columns of `notices_find`. $1 id, $2 sender.
SELECT notice_id, namespace, channel_id, rule_id, rule_name, severity, state, events, date_part('epoch', first_at) AS first_at,
       date_part('epoch', last_at) AS last_at, lines, date_part('epoch', due) AS due, tries, date_part('epoch', tried_at) AS tried_at,
       error, date_part('epoch', ended_at) AS ended_at, is_test, is_escalation, subjects, beside, repeated, served
FROM tickwise.notices WHERE notice_id = $1 AND sender = $2 AND state = 'waiting' FOR UPDATE

-- name: notice_dead
-- A dead notice of a channel that is there, locked, in the columns of `notices_find`. $1 id, $2 namespace.
SELECT notice_id, n.namespace, n.channel_id, rule_id, rule_name, severity, state, events, date_part('epoch', first_at) AS first_at,
       date_part('epoch', last_at) AS last_at, lines, date_part('epoch', due) AS due, tries, date_part('epoch', tried_at) AS tried_at,
       n.error, date_part('epoch', ended_at) AS ended_at, is_test, is_escalation, subjects, beside, repeated, served
FROM tickwise.notices n JOIN tickwise.channels c ON c.channel_id = n.channel_id
WHERE notice_id = $1 AND n.namespace = $2 AND state = 'dead' FOR UPDATE OF n

-- name: notice_joins
-- Delete and return the notice that waits, held by nobody, for the channel $1 and the rule $2 (NULL: none), $3 as an escalation or not.
DELETE FROM tickwise.notices
WHERE channel_id = $1 AND rule_id IS NOT DISTINCT FROM $2 AND is_escalation = $3 AND state = 'waiting' AND sender IS NULL AND NOT is_test
RETURNING notice_id, namespace, channel_id, rule_id, rule_name, severity, state, events, date_part('epoch', first_at) AS first_at,
  date_part('epoch', last_at) AS last_at, lines, date_part('epoch', due) AS due, tries, date_part('epoch', tried_at) AS tried_at,
  error, date_part('epoch', ended_at) AS ended_at, is_test, is_escalation, subjects, beside, repeated, served

-- name: notice_end
-- A notice is delivered or dead. $1 id, $2 state, $3 error, $4 the recipients who have a dead one.
UPDATE tickwise.notices SET state = $2, error = $3, served = $4, sender = NULL, leased_until = NULL, ended_at = tickwise.now() WHERE notice_id = $1

-- name: notice_alerts
-- The lines of the notice $1 if it is about alerts, and tells no others of them.
SELECT lines FROM tickwise.notices WHERE notice_id = $1 AND NOT is_test AND NOT is_escalation

-- name: notice_alerts_lock
-- Lock the alerts $1 that are not closed, always in one order, before the notice and its channel.
SELECT alert_id FROM tickwise.alerts WHERE alert_id = ANY($1::uuid[]) AND state <> 'closed' ORDER BY alert_id FOR UPDATE

-- name: notice_alerts_untold
-- Nobody was told of the alerts $1, whose notice $2 is dead, unless another one of their rule waits or was delivered.
UPDATE tickwise.alerts a SET told_at = NULL, version = version + 1
WHERE alert_id = ANY($1::uuid[]) AND state <> 'closed' AND told_at IS NOT NULL AND NOT EXISTS (
  SELECT FROM tickwise.notices n
  WHERE n.namespace = a.namespace AND n.rule_id IS NOT DISTINCT FROM a.rule_id AND n.notice_id <> $2 AND n.state IN ('waiting', 'delivered')
    AND NOT n.is_test AND NOT n.is_escalation AND n.made_at >= a.first_at - interval '1 minute' AND position(a.alert_id::text IN n.lines) > 0)

-- name: notice_wait
-- A notice waits again, with what joined it. $1 id, $2 error, $3 in so many seconds, $4 events, $5 first, $6 last, $7 severity, $8 name of
-- its rule, $9 lines, $10 whether its tries are counted anew, $11 subjects, $12 the recipients who have it.
UPDATE tickwise.notices SET state = 'waiting', error = $2, due = tickwise.now() + $3::float8 * interval '1 second', events = $4,
  first_at = to_timestamp($5::float8), last_at = to_timestamp($6::float8), severity = $7, rule_name = $8, lines = $9, subjects = $11, sender = NULL,
  leased_until = NULL, ended_at = NULL, served = $12, tries = CASE WHEN $10 THEN 0 ELSE tries END, tried_at = CASE WHEN $10 THEN NULL ELSE tried_at END
WHERE notice_id = $1

-- name: notice_untried
-- Count the try of a notice no more. $1 id.
UPDATE tickwise.notices SET tries = tries - 1, tried_at = CASE WHEN tries > 1 THEN tried_at END WHERE notice_id = $1

-- name: channel_outcome
-- Note the outcome of a try at a channel. $1 id, $2 whether it was delivered, $3 error, $4 seconds for which it rests (0: as it did), $5 whether
-- the try took long.
UPDATE tickwise.channels SET delivered_at = CASE WHEN $2 THEN tickwise.now() ELSE delivered_at END,
  failed_at = CASE WHEN $2 THEN failed_at ELSE tickwise.now() END, error = CASE WHEN $2 THEN error ELSE $3 END, slow = $5,
  failures = CASE WHEN $2 THEN 0 WHEN $4::float8 > 0 THEN failures + 1 ELSE failures END,
  again_at = CASE WHEN $2 THEN NULL WHEN $4 > 0 THEN greatest(again_at, tickwise.now() + $4 * interval '1 second') ELSE again_at END
WHERE channel_id = $1

-- name: notices_hurry
-- Let what waits for another try at the channel $1 go now: it takes messages again.
UPDATE tickwise.notices SET due = tickwise.now()
WHERE channel_id = $1 AND state = 'waiting' AND sender IS NULL AND NOT is_test AND tries > 0 AND due > tickwise.now()

-- name: channel_wake
-- Let the channel $1 rest no longer.
UPDATE tickwise.channels SET again_at = NULL WHERE channel_id = $1 AND again_at IS NOT NULL

-- name: notices_find
-- Notices, the newest first. $1 namespace, $2 states (NULL: any), $3 channel, $4 rule, $5 id, $6 ids below it (NULL each: any), $7 limit.
SELECT notice_id, namespace, channel_id, rule_id, rule_name, severity, state, events, date_part('epoch', first_at) AS first_at,
       date_part('epoch', last_at) AS last_at, lines, date_part('epoch', due) AS due, tries, date_part('epoch', tried_at) AS tried_at,
       error, date_part('epoch', ended_at) AS ended_at, is_test, is_escalation, subjects, beside, repeated, served
FROM tickwise.notices
WHERE namespace = $1 AND ($2::text[] IS NULL OR state = ANY($2)) AND ($3::uuid IS NULL OR channel_id = $3)
  AND ($4::uuid IS NULL OR rule_id = $4) AND ($5::uuid IS NULL OR notice_id = $5) AND ($6::uuid IS NULL OR notice_id < $6)
ORDER BY notice_id DESC LIMIT $7

-- name: notices_backlog
-- Notices that are due or were tried, by the kind of their channel, the channels whose newest try failed, and those that rest.
SELECT c.kind, coalesce(sum(n.waiting), 0)::bigint AS waiting, coalesce(max(n.seconds), 0) AS oldest_seconds,
       count(*) FILTER (WHERE c.failed_at > c.delivered_at OR c.failed_at IS NOT NULL AND c.delivered_at IS NULL) AS failing,
       count(*) FILTER (WHERE c.again_at > tickwise.now()) AS resting
FROM tickwise.channels c LEFT JOIN (
  SELECT channel_id, count(*) AS waiting, max(greatest(date_part('epoch', tickwise.now() - coalesce(tried_at, due)), 0)) AS seconds
  FROM tickwise.notices WHERE state = 'waiting' AND (due <= tickwise.now() OR tries > 0) GROUP BY channel_id
) n ON n.channel_id = c.channel_id
GROUP BY c.kind
