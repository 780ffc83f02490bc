-- name: identity_find
-- The person of an identity. $1 issuer, $2 subject.
SELECT user_id FROM tickwise.identities WHERE issuer = $1 AND subject = $2

-- name: identities_of_user
-- The identities of the person $1.
SELECT issuer, subject FROM tickwise.identities WHERE user_id = $1 ORDER BY issuer COLLATE "C", subject COLLATE "C"

-- name: identity_link
-- Tie an identity to a person. $1 issuer, $2 subject, $3 person. No row: it belongs to a person already, or there is no such person.
INSERT INTO tickwise.identities (linked, issuer, subject, user_id)
SELECT tickwise.now(), $1, $2, user_id FROM tickwise.users WHERE user_id = $3 ON CONFLICT (issuer, subject) DO NOTHING RETURNING user_id

-- name: identities_unlink
-- Take the identities of the person $1 away.
DELETE FROM tickwise.identities WHERE user_id = $1 RETURNING issuer, subject

-- name: provider_sessions_end_of_user
-- End the browser sessions of the person $1 that began by a provider.
DELETE FROM tickwise.browser_sessions b USING tickwise.provider_sessions p
WHERE b.session_id = p.session_id AND b.user_id = $1

-- name: sign_ins_forget
-- Forget sign-ins that are over.
DELETE FROM tickwise.sign_ins WHERE expires <= tickwise.now()

-- name: sign_in_begin
-- Keep a sign-in. $1 digest, $2 browser, $3 where to go on, $4 seconds, $5 the most that are kept. No row: there are so many.
INSERT INTO tickwise.sign_ins (expires, digest, browser, back)
SELECT tickwise.now() + $4::float8 * interval '1 second', $1, $2, $3
WHERE (SELECT count(*) FROM tickwise.sign_ins) < $5 ON CONFLICT (digest) DO UPDATE SET back = excluded.back RETURNING digest

-- name: sign_in_take
-- Use a sign-in up. $1 digest.
DELETE FROM tickwise.sign_ins WHERE digest = $1 RETURNING browser, back, expires > tickwise.now() AS is_good

-- name: logout_tokens_forget
-- Forget used logout tokens that nobody can use again.
DELETE FROM tickwise.logout_tokens WHERE expires <= tickwise.now()

-- name: logout_token_use
-- Note that a logout token is used. $1 digest, $2 seconds. No row: it was used before.
INSERT INTO tickwise.logout_tokens (expires, digest) VALUES (tickwise.now() + $2::float8 * interval '1 second', $1)
ON CONFLICT (digest) DO NOTHING RETURNING digest

-- name: provider_sessions_end
-- End browser sessions. $1 issuer, $2 subject (NULL: any), $3 session of the provider (NULL: all of the subject).
DELETE FROM tickwise.browser_sessions b USING tickwise.provider_sessions p
WHERE b.session_id = p.session_id AND p.issuer = $1 AND ($2::text IS NULL OR p.subject = $2)
  AND ($3::text IS NULL OR p.session = $3) AND ($2::text IS NOT NULL OR $3::text IS NOT NULL)
RETURNING b.session_id, b.user_id
