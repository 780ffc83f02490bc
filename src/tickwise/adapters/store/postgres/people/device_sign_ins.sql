-- name: device_sign_ins_forget
-- Forget requests that expired $1 seconds ago.
DELETE FROM tickwise.device_sign_ins WHERE expires < tickwise.now() - $1::float8 * interval '1 second'

-- name: device_sign_in_begin
-- Keep a request, unless its code is taken or there are $10 of them. $1 id, $2 digest, $3 user code, $4 name of the device, $5 address, $6 scope, $7 namespace,
-- $8 seconds, $9 seconds between two polls.
INSERT INTO tickwise.device_sign_ins (created, expires, interval_seconds, device_id, digest, user_code, client, address, scope, namespace)
SELECT n.at, n.at + $8::float8 * interval '1 second', $9::float8, $1, $2, $3, $4, $5, $6, $7
FROM (SELECT tickwise.now() AS at) n WHERE (SELECT count(*) FROM tickwise.device_sign_ins) < $10
ON CONFLICT DO NOTHING
RETURNING true

-- name: device_sign_in_stands
-- Check for a request, and for another one with its code. $1 id, $2 user code.
SELECT EXISTS (SELECT FROM tickwise.device_sign_ins WHERE device_id = $1) AS is_same,
       EXISTS (SELECT FROM tickwise.device_sign_ins WHERE user_code = $2) AS is_taken

-- name: device_sign_in_find
-- The request with the user code $1 that waits for a decision.
SELECT device_id, user_code, client, address, scope, namespace, date_part('epoch', created) AS created_at,
       date_part('epoch', expires - tickwise.now()) AS seconds_left
FROM tickwise.device_sign_ins WHERE user_code = $1 AND approved IS NULL AND expires > tickwise.now()

-- name: device_sign_in_decide
-- Decide a request that waits. $1 id, $2 person, $3 their generation, $4 true: approved.
UPDATE tickwise.device_sign_ins SET approved = $4, user_id = $2, generation = $3
WHERE device_id = $1 AND approved IS NULL AND expires > tickwise.now() RETURNING true

-- name: device_sign_in_is_decided
-- Check that a person has decided a request like this. $1 id, $2 person, $3 true: approved.
SELECT EXISTS (SELECT FROM tickwise.device_sign_ins WHERE device_id = $1 AND user_id = $2 AND approved = $3 AND expires > tickwise.now())

-- name: device_sign_in_to_poll
-- The request of the device code with the digest $1, locked.
SELECT approved, user_id, generation, scope, namespace, family, expires <= tickwise.now() AS is_over,
       tickwise.now() < polled + interval_seconds * interval '1 second' AS is_early
FROM tickwise.device_sign_ins WHERE digest = $1 FOR UPDATE

-- name: device_sign_in_polled
-- Note a poll. $1 digest, $2 seconds by which the interval grows.
UPDATE tickwise.device_sign_ins SET polled = tickwise.now(), interval_seconds = interval_seconds + $2::float8 WHERE digest = $1

-- name: device_sign_in_use
-- An approved request begins the session $2. $1 digest.
UPDATE tickwise.device_sign_ins SET family = $2 WHERE digest = $1
