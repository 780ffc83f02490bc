-- name: status_page_get
-- One page, in the columns of `status_pages_find`. $1 id.
SELECT page_id, namespace, slug, title, enabled, choices, states, looks, version, created_by, date_part('epoch', created_at) AS created_at,
       date_part('epoch', looked_at) AS looked_at
FROM tickwise.status_pages WHERE page_id = $1

-- name: status_pages_lock
-- Let one transaction at a time count and add the pages of a namespace. $1 namespace.
SELECT pg_advisory_xact_lock(8388355, hashtext($1))

-- name: status_pages_count
-- The number of pages of a namespace. $1 namespace.
SELECT count(*) FROM tickwise.status_pages WHERE namespace = $1

-- name: status_page_add
-- Store a page. $1 id, $2 namespace, $3 slug, $4 title, $5 whether it is public, $6 choices, $7 by whom.
INSERT INTO tickwise.status_pages (created_at, enabled, page_id, namespace, slug, title, created_by, choices, states)
VALUES (tickwise.now(), $5, $1, $2, $3, $4, $7, $6, '{}')

-- name: status_page_lock
-- One page, locked, in the columns of `status_pages_find`. $1 namespace, $2 id.
SELECT page_id, namespace, slug, title, enabled, choices, states, looks, version, created_by, date_part('epoch', created_at) AS created_at,
       date_part('epoch', looked_at) AS looked_at
FROM tickwise.status_pages WHERE namespace = $1 AND page_id = $2 FOR UPDATE

-- name: status_page_change
-- Replace the choices of a page, and drop the days of components that are gone. $1 id, $2 slug, $3 title, $4 whether it is public,
-- $5 choices, $6 states of the components that are left, $7 their names.
WITH d AS (DELETE FROM tickwise.status_days WHERE page_id = $1 AND component <> ALL ($7::text[]))
UPDATE tickwise.status_pages SET version = version + 1, slug = $2, title = $3, enabled = $4, choices = $5, states = $6 WHERE page_id = $1

-- name: status_page_remove
-- Delete a page. $1 namespace, $2 id. Returns whether it was there.
DELETE FROM tickwise.status_pages WHERE namespace = $1 AND page_id = $2 RETURNING true

-- name: status_pages_find
-- Pages by the time at which they were made. $1 namespace (NULL: all), $2 id (NULL: all), $3 whether they are public (NULL: either), $4 at most,
-- $5 public ones at which nobody has looked for so many seconds, those that wait longest first (NULL: either).
SELECT page_id, namespace, slug, title, enabled, choices, states, looks, version, created_by, date_part('epoch', created_at) AS created_at,
       date_part('epoch', looked_at) AS looked_at
FROM tickwise.status_pages p
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::uuid IS NULL OR page_id = $2) AND ($3::boolean IS NULL OR enabled = $3)
  AND ($5::float8 IS NULL OR enabled AND (p.looked_at IS NULL OR p.looked_at <= tickwise.now() - $5 * interval '1 second'))
ORDER BY CASE WHEN $5::float8 IS NULL THEN p.created_at ELSE coalesce(p.looked_at, '-infinity') END, page_id LIMIT $4

-- name: status_page_look
-- Record a look. $1 page, $2 looks that were read, $3 states, $4 and $5 components with their states, $6 seconds that a state counts for at
-- most, $7 days that are kept. Returns whether it was recorded.
WITH b AS MATERIALIZED (
  SELECT least(greatest(date_part('epoch', tickwise.now() - looked_at), 0), $6::float8) AS seconds, (tickwise.now() AT TIME ZONE 'UTC')::date AS today
  FROM tickwise.status_pages WHERE page_id = $1
),
p AS (
  UPDATE tickwise.status_pages SET looks = looks + 1, looked_at = tickwise.now(), states = $3
  WHERE page_id = $1 AND looks = $2 AND enabled RETURNING page_id
),
d AS (
  INSERT INTO tickwise.status_days AS d (page_id, component, day, operational, late, degraded, down)
  SELECT p.page_id, c.component, b.today, b.seconds * (c.state = 'operational')::int, b.seconds * (c.state = 'late')::int,
         b.seconds * (c.state = 'degraded')::int, b.seconds * (c.state = 'down')::int
  FROM p, b, unnest($4::text[], $5::text[]) AS c (component, state) WHERE c.state <> 'unknown' AND b.seconds > 0
  ON CONFLICT (page_id, component, day) DO UPDATE SET operational = d.operational + excluded.operational, late = d.late + excluded.late,
    degraded = d.degraded + excluded.degraded, down = d.down + excluded.down
),
o AS (DELETE FROM tickwise.status_days USING p, b WHERE status_days.page_id = p.page_id AND status_days.day <= b.today - $7::int)
SELECT EXISTS (SELECT FROM p)

-- name: status_days
-- The days of pages. $1 ids.
SELECT page_id, component, day, operational, late, degraded, down FROM tickwise.status_days WHERE page_id = ANY($1::uuid[])
ORDER BY page_id, component COLLATE "C", day

-- name: status_announcement_get
-- One announcement, in the columns of `status_announcements`. $1 id.
SELECT announcement_id, page_id, kind, title, components, updates, version, created_by, date_part('epoch', starts_at) AS starts_at,
       date_part('epoch', ends_at) AS ends_at
FROM tickwise.status_announcements WHERE announcement_id = $1

-- name: status_announcements_count
-- The number of announcements of a page. $1 page.
SELECT count(*) FROM tickwise.status_announcements WHERE page_id = $1

-- name: status_announcement_add
-- Store an announcement. $1 id, $2 page, $3 kind, $4 title, $5 components, $6 begin, $7 planned end, $8 updates, $9 by whom.
INSERT INTO tickwise.status_announcements (starts_at, ends_at, announcement_id, page_id, kind, title, created_by, components, updates)
VALUES (to_timestamp($6), to_timestamp($7), $1, $2, $3, $4, $9, $5, $8)

-- name: status_announcement_version
-- The version of an announcement, locked. $1 page, $2 id.
SELECT version FROM tickwise.status_announcements WHERE page_id = $1 AND announcement_id = $2 FOR UPDATE

-- name: status_announcement_change
-- Replace an announcement. $1 id, $2 title, $3 components, $4 begin, $5 planned end, $6 updates.
UPDATE tickwise.status_announcements
SET version = version + 1, title = $2, components = $3, starts_at = to_timestamp($4), ends_at = to_timestamp($5), updates = $6
WHERE announcement_id = $1

-- name: status_announcement_remove
-- Delete an announcement. $1 namespace, $2 page, $3 id. Returns whether it was there.
DELETE FROM tickwise.status_announcements a USING tickwise.status_pages p
WHERE p.namespace = $1 AND p.page_id = $2 AND a.page_id = p.page_id AND a.announcement_id = $3 RETURNING true

-- name: status_announcements
-- The announcements of pages, the newest first. $1 pages.
SELECT announcement_id, page_id, kind, title, components, updates, version, created_by, date_part('epoch', starts_at) AS starts_at,
       date_part('epoch', ends_at) AS ends_at
FROM tickwise.status_announcements WHERE page_id = ANY($1::uuid[]) ORDER BY announcement_id DESC
