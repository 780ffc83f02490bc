-- name: browser_link_open
-- Note that the link $1 opened the session $2. No row: it does not work, or opened another.
UPDATE tickwise.session_links SET opened = $2
WHERE digest = $1 AND expires > tickwise.now() AND (opened IS NULL OR opened = $2) RETURNING digest

-- name: browser_session_begin
-- Keep a session. $1 id, $2 digest, $3 person, $4 key, $5 generation, $6 address, $7 seconds unused, $8 most seconds.
INSERT INTO tickwise.browser_sessions (created, used, expires, ends, session_id, digest, user_id, key_id, generation, address)
SELECT n.at, n.at, n.at + $7::float8 * interval '1 second', n.at + $8::float8 * interval '1 second', $1, $2, $3, $4, $5, $6
FROM (SELECT tickwise.now() AS at) n ON CONFLICT (session_id) DO NOTHING

-- name: provider_session_note
-- Note the session at a provider that the browser session $1 came from. $2 issuer, $3 subject, $4 its session (NULL: unknown).
INSERT INTO tickwise.provider_sessions (session_id, issuer, subject, session) VALUES ($1, $2, $3, $4)
ON CONFLICT (session_id) DO NOTHING

-- name: browser_sessions_forget
-- Forget sessions of a person $1 or a key $2 that are over, and those beyond the $3 that were used last.
DELETE FROM tickwise.browser_sessions WHERE (user_id = $1 OR key_id = $2) AND (
  least(expires, ends) < tickwise.now() OR session_id NOT IN (
    SELECT session_id FROM tickwise.browser_sessions WHERE user_id = $1 OR key_id = $2
    ORDER BY used DESC, session_id DESC LIMIT $3))

-- name: browser_links_forget
-- Forget links of a person $1 or a key $2 that are over.
DELETE FROM tickwise.session_links WHERE (user_id = $1 OR key_id = $2) AND expires < tickwise.now()

-- name: browser_session_find
-- The good session with the digest $1. One of an earlier epoch is over.
SELECT b.session_id, b.user_id, b.key_id, b.generation, p.issuer, p.subject, p.session,
  date_part('epoch', least(b.expires, b.ends) - tickwise.now()) AS seconds_left
FROM tickwise.browser_sessions b LEFT JOIN tickwise.provider_sessions p USING (session_id)
WHERE b.digest = $1 AND least(b.expires, b.ends) > tickwise.now()
  AND b.created >= (SELECT coalesce(max(began), '-infinity') FROM tickwise.epochs WHERE cause <> 'first')

-- name: browser_session_use
-- Begin the idle time of the session with the digest $1 anew: until it ends now. No row: it is not good, or was used within
-- the last $2 seconds.
UPDATE tickwise.browser_sessions SET used = tickwise.now(), expires = tickwise.now() + (expires - used)
WHERE digest = $1 AND least(expires, ends) > tickwise.now() AND used < tickwise.now() - $2::float8 * interval '1 second'
RETURNING date_part('epoch', least(expires, ends) - tickwise.now()) AS seconds_left

-- name: browser_sessions_end
-- End the session with the digest $1 (NULL: none), or all of the person $2 (NULL: none).
DELETE FROM tickwise.browser_sessions WHERE digest = $1 OR user_id = $2 RETURNING session_id

-- name: browser_sessions_end_all
-- End all sessions and forget all links. The number of the sessions.
WITH links AS (DELETE FROM tickwise.session_links), ended AS (DELETE FROM tickwise.browser_sessions RETURNING session_id)
SELECT count(*)::int FROM ended

-- name: browser_link_add
-- Keep a link. $1 digest, $2 person, $3 key, $4 generation, $5 seconds.
INSERT INTO tickwise.session_links (expires, digest, user_id, key_id, generation)
VALUES (tickwise.now() + $5::float8 * interval '1 second', $1, $2, $3, $4) ON CONFLICT (digest) DO NOTHING

-- name: browser_link_find
-- The subject of a link that works.
SELECT user_id, key_id, generation FROM tickwise.session_links WHERE digest = $1 AND opened IS NULL AND expires > tickwise.now()
