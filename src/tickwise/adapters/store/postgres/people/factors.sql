-- name: factors_lock
-- Keep other transactions from changing the factors of the person $1 until this one ends. No row: there is no such person.
SELECT user_id FROM tickwise.users WHERE user_id = $1 FOR NO KEY UPDATE

-- name: factors_replace
-- Forget codes of the person $1 that are not confirmed.
DELETE FROM tickwise.factors WHERE user_id = $1 AND NOT confirmed

-- name: factor_known
-- Check whether there is a factor with the id $1.
SELECT EXISTS (SELECT FROM tickwise.factors WHERE factor_id = $1)

-- name: factors_count
-- The number of factors of the person $1, and of those with codes.
SELECT count(*)::int AS factors, count(*) FILTER (WHERE kind = 'totp')::int AS totp FROM tickwise.factors WHERE user_id = $1

-- name: factor_add
-- Keep a factor. $1 id, $2 person, $3 kind, $4 name, $5 secret, $6 counter, $7 id of a passkey, $8 its place, $9 limit of the password.
INSERT INTO tickwise.factors (created, counter, confirmed, factor_id, user_id, kind, name, secret, credential_id, place, password_limit)
VALUES (tickwise.now(), $6, $3 = 'passkey', $1, $2, $3, $4, $5, $7, $8, $9::jsonb)

-- name: factor_confirm
-- The factor $2 of the person $1 showed a code of the time step $3. No row: there is none, or it is confirmed.
UPDATE tickwise.factors SET confirmed = true, counter = $3, used = tickwise.now()
WHERE user_id = $1 AND factor_id = $2 AND NOT confirmed RETURNING factor_id

-- name: factor_confirmed
-- Check whether the factor $2 of the person $1 was confirmed by the time step $3.
SELECT EXISTS (SELECT FROM tickwise.factors WHERE user_id = $1 AND factor_id = $2 AND confirmed AND counter = $3)

-- name: factors_found
-- The factors of a person $1 (NULL: any), or the passkey $2 (NULL: any), the oldest first. $3: unconfirmed codes are known for so many seconds.
SELECT factor_id, user_id, kind, name, secret, counter, credential_id, place, confirmed, password_limit::text AS password_limit,
       date_part('epoch', created) AS created_at, date_part('epoch', used) AS used_at, date_part('epoch', suspected) AS suspected_at
FROM tickwise.factors
WHERE (user_id = $1 OR credential_id = $2) AND (confirmed OR created > tickwise.now() - $3::float8 * interval '1 second')
ORDER BY created, factor_id

-- name: factor_rename
-- Give the factor $2 of the person $1 the name $3. Returns the name of before.
UPDATE tickwise.factors f SET name = $3 FROM tickwise.factors b
WHERE f.user_id = $1 AND f.factor_id = $2 AND b.factor_id = f.factor_id RETURNING b.name

-- name: factor_remove
-- Forget the factor $2 of the person $1.
DELETE FROM tickwise.factors WHERE user_id = $1 AND factor_id = $2 RETURNING factor_id

-- name: recovery_forget
-- Forget the recovery codes of the person $1, who has no factor that is confirmed.
DELETE FROM tickwise.recovery_codes WHERE user_id = $1
  AND NOT EXISTS (SELECT FROM tickwise.factors WHERE user_id = $1 AND confirmed)

-- name: factors_reset
-- Forget all factors, recovery codes and steps of the person $1. The number of the factors.
WITH codes AS (DELETE FROM tickwise.recovery_codes WHERE user_id = $1),
steps AS (DELETE FROM tickwise.factor_steps WHERE user_id = $1),
gone AS (DELETE FROM tickwise.factors WHERE user_id = $1 RETURNING factor_id)
SELECT count(*)::int FROM gone

-- name: factor_reset_note
-- Note that $2 has reset the factors of the person $1.
INSERT INTO tickwise.factor_resets (made, user_id, made_by) VALUES (tickwise.now(), $1, $2)
ON CONFLICT (user_id) DO UPDATE SET made = excluded.made, made_by = excluded.made_by

-- name: factor_reset_found
-- The reset that the person $1 was not told of.
SELECT date_part('epoch', made) AS at, made_by AS by FROM tickwise.factor_resets WHERE user_id = $1

-- name: factor_reset_seen
-- The person $1 is told of the reset.
DELETE FROM tickwise.factor_resets WHERE user_id = $1 RETURNING date_part('epoch', made) AS at, made_by AS by

-- name: factor_reseal
-- Keep the seed of the factor $1 as $3, if it is $2.
UPDATE tickwise.factors SET secret = $3 WHERE factor_id = $1 AND secret = $2 RETURNING factor_id

-- name: factor_seeds
-- The factors with codes behind the id $1 (NULL: from the first), at most $2.
SELECT factor_id, user_id, kind, name, secret, counter, credential_id, place, confirmed, password_limit::text AS password_limit,
       date_part('epoch', created) AS created_at, date_part('epoch', used) AS used_at, date_part('epoch', suspected) AS suspected_at
FROM tickwise.factors
WHERE kind = 'totp' AND ($1::uuid IS NULL OR factor_id > $1)
ORDER BY factor_id LIMIT $2

-- name: factor_suspect
-- The counter of the passkey $1 fell.
UPDATE tickwise.factors SET suspected = tickwise.now() WHERE factor_id = $1 AND suspected IS NULL RETURNING factor_id

-- name: recovery_put
-- Keep the recovery codes $2 of the person $1, unless they are there.
INSERT INTO tickwise.recovery_codes (made, user_id, digest)
SELECT tickwise.now(), $1, digest FROM unnest($2::bytea[]) AS d(digest) ON CONFLICT DO NOTHING

-- name: recovery_replace
-- Forget the recovery codes of the person $1 that are none of $2.
DELETE FROM tickwise.recovery_codes WHERE user_id = $1 AND NOT digest = ANY($2::bytea[])

-- name: recovery_found
-- The recovery codes of the person $1 in numbers.
SELECT count(*) FILTER (WHERE used IS NULL)::int AS left, date_part('epoch', max(made)) AS made_at
FROM tickwise.recovery_codes WHERE user_id = $1

-- name: recovery_use
-- Use the recovery code $2 of the person $1; $3 the use. No row: there is none, or another use has it.
UPDATE tickwise.recovery_codes SET used = tickwise.now(), use_id = $3
WHERE user_id = $1 AND digest = $2 AND (use_id IS NULL OR use_id = $3) RETURNING digest

-- name: step_begin
-- Keep a step. $1 digest, $2 purpose, $3 person, $4 generation, $5 challenge, $6 seconds.
INSERT INTO tickwise.factor_steps (expires, generation, tries, digest, purpose, user_id, challenge)
VALUES (tickwise.now() + $6::float8 * interval '1 second', $4, 0, $1, $2, $3, $5) ON CONFLICT (digest) DO NOTHING

-- name: steps_forget
-- Forget steps that are over, and those of the person $1 for the purpose $2 beyond the $3 that began last.
DELETE FROM tickwise.factor_steps WHERE expires < tickwise.now() OR (user_id = $1 AND purpose = $2 AND digest NOT IN (
  SELECT digest FROM tickwise.factor_steps WHERE user_id = $1 AND purpose = $2 ORDER BY expires DESC, digest LIMIT $3))

-- name: step_attempt
-- Count an attempt at the step $1 for the purpose $2, of at most $3.
UPDATE tickwise.factor_steps SET tries = tries + 1
WHERE digest = $1 AND purpose = $2 AND use_id IS NULL AND expires > tickwise.now() AND tries < $3
RETURNING purpose, user_id, generation, challenge, tries

-- name: step_found
-- The step $1 for the purpose $2, with at most $3 attempts.
SELECT purpose, user_id, generation, challenge, tries FROM tickwise.factor_steps
WHERE digest = $1 AND purpose = $2 AND use_id IS NULL AND expires > tickwise.now() AND tries <= $3

-- name: enrolment_waits
-- Check whether the step $2 of the person $1 waits for an enrolment.
SELECT EXISTS (SELECT FROM tickwise.factor_steps
  WHERE digest = $2 AND user_id = $1 AND purpose = 'enrolment' AND use_id IS NULL AND expires > tickwise.now())

-- name: enrolments_end
-- End the steps of the person $1 that wait for an enrolment.
DELETE FROM tickwise.factor_steps WHERE user_id = $1 AND purpose = 'enrolment'

-- name: step_settle
-- End the step $1 by the use $2. No row: another use has ended it, or it is over. Returns whether it had ended by this use before.
UPDATE tickwise.factor_steps s SET use_id = $2 FROM tickwise.factor_steps b
WHERE s.digest = $1 AND b.digest = s.digest AND s.expires > tickwise.now() AND (s.use_id IS NULL OR s.use_id = $2)
RETURNING b.use_id IS NOT NULL AS repeated

-- name: factor_use
-- The factor $1 was used with the counter $2. No row: the counter does not grow, or it works no more.
UPDATE tickwise.factors SET counter = $2, used = tickwise.now()
WHERE factor_id = $1 AND confirmed AND suspected IS NULL AND (counter < $2 OR (counter = 0 AND $2 = 0)) RETURNING factor_id
