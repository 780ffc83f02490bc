-- name: notices_take
-- Take notices that are due: one of each channel, none of a channel of which one is held. Namespaces take turns, the one with the fewest
-- first; channels whose newest try failed or took long come last, and of those that rest tests alone are taken. What is held for longer than
-- $7 seconds lingers, and has no turn. $1 sender, $2 at most, $3 seconds of the lease, $4 of a namespace, $5 of channels of a namespace that
-- failed, $6 of channels that failed, of the sender, $8 of a namespace that linger without a turn.
WITH held AS MATERIALIZED (
  SELECT n.namespace, n.sender, n.channel_id, coalesce(c.slow OR c.failed_at > coalesce(c.delivered_at, '-infinity'), false) AS failed,
         n.leased_until - $3::float8 * interval '1 second' < tickwise.now() - $7::float8 * interval '1 second' AS lingers
  FROM tickwise.notices n LEFT JOIN tickwise.channels c ON c.channel_id = n.channel_id
  WHERE n.state = 'waiting' AND n.sender IS NOT NULL AND n.leased_until > tickwise.now()),
turns AS MATERIALIZED (
  SELECT namespace, count(*) FILTER (WHERE NOT lingers) + greatest(count(*) FILTER (WHERE lingers) - $8, 0) AS held,
         count(*) FILTER (WHERE failed AND NOT lingers) AS held_failed
  FROM held GROUP BY namespace),
due AS (
  SELECT DISTINCT ON (channel_id) channel_id, namespace, due, notice_id FROM tickwise.notices
  WHERE state = 'waiting' AND due <= tickwise.now() AND channel_id NOT IN (SELECT channel_id FROM held)
    AND (is_test OR channel_id NOT IN (SELECT channel_id FROM tickwise.channels WHERE again_at > tickwise.now()))
  ORDER BY channel_id, due, notice_id),
asked AS (
  SELECT d.namespace, d.due, d.notice_id, coalesce(c.slow OR c.failed_at > coalesce(c.delivered_at, '-infinity'), false) AS failed
  FROM due d LEFT JOIN tickwise.channels c ON c.channel_id = d.channel_id),
placed AS (
  SELECT namespace, due, notice_id, failed,
    row_number() OVER (PARTITION BY namespace ORDER BY failed, due, notice_id)
      + coalesce((SELECT t.held FROM turns t WHERE t.namespace = a.namespace), 0) AS place,
    row_number() OVER (PARTITION BY namespace, failed ORDER BY due, notice_id)
      + coalesce((SELECT t.held_failed FROM turns t WHERE t.namespace = a.namespace), 0) AS place_failed
  FROM asked a),
shared AS (
  SELECT due, notice_id, failed, place,
    row_number() OVER (PARTITION BY failed ORDER BY place, due, notice_id)
      + (SELECT count(*) FROM held h WHERE h.sender = $1 AND h.failed AND NOT h.lingers) AS turn
  FROM placed WHERE place <= $4 AND (NOT failed OR place_failed <= $5)),
chosen AS (
  SELECT notice_id FROM tickwise.notices WHERE notice_id IN (
    SELECT notice_id FROM shared WHERE NOT failed OR turn <= $6 ORDER BY failed, place, due, notice_id LIMIT $2)
  FOR UPDATE SKIP LOCKED)
UPDATE tickwise.notices n SET sender = $1, leased_until = tickwise.now() + $3::float8 * interval '1 second', tries = tries + 1,
  tried_at = coalesce(tried_at, tickwise.now())
FROM chosen WHERE n.notice_id = chosen.notice_id
RETURNING n.notice_id, namespace, channel_id, rule_id, rule_name, severity, state, events, date_part('epoch', first_at) AS first_at,
  date_part('epoch', last_at) AS last_at, lines, date_part('epoch', due) AS due, tries, date_part('epoch', tried_at) AS tried_at,
  error, date_part('epoch', ended_at) AS ended_at, is_test, is_escalation, subjects, beside, repeated, served
