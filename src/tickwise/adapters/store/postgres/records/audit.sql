-- name: audit_add
-- Write entries, each with its mark that it is not sealed yet. One array for each column; $14 the ids of entries about several things,
-- as texts of arrays.
WITH a AS (
  INSERT INTO tickwise.audit (at, namespace, action, caller_kind, caller_id, caller, address, request_id, target_kind, target, targets,
                              before, after, detail)
  SELECT tickwise.now(), e.namespace, e.action, e.caller_kind, e.caller_id, e.caller, e.address, e.request_id, e.target_kind, e.target,
         e.targets::uuid[], e.before, e.after, e.detail
  FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
              $11::text[], $12::text[], $13::text[])
    WITH ORDINALITY AS e(namespace, action, caller_kind, caller_id, caller, address, request_id, target_kind, target, targets,
                         before, after, detail, place)
  ORDER BY e.place
  RETURNING at, entry, namespace
)
INSERT INTO tickwise.audit_unsealed (at, entry, namespace) SELECT at, entry, namespace FROM a

-- name: audit_find
-- Entries, the newest first; 39 bytes for each id (`TARGET_BYTES`). $1 namespace, $2 since, $3 until, $4 caller, $5 action, $6 target, $7 and $8 time and number that they come
-- before, $9 how many, $10 the target as an id (NULL: it is none), $11 and $12 time and number of the last one that is looked at. NULL: any. `at` is the column, and none that is computed: its order is that
-- of the indexes.
SELECT at, entry, date_part('epoch', at) AS seconds, namespace, action, caller_kind, caller_id, caller, address, request_id, target_kind,
       target, targets, before, after, detail,
       coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0) + coalesce(octet_length(detail), 0)
         + 39 * coalesce(cardinality(targets), 0) AS bytes
FROM tickwise.audit
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::float8 IS NULL OR at >= to_timestamp($2)) AND ($3::float8 IS NULL OR at < to_timestamp($3))
  AND ($4::text IS NULL OR caller = $4) AND ($5::text IS NULL OR action = $5)
  AND ($6::text IS NULL OR target = $6 OR $10::uuid = ANY(targets))
  AND ($7::float8 IS NULL OR at <= to_timestamp($7) AND (at, entry) < (to_timestamp($7), $8::bigint))
  AND ($11::float8 IS NULL OR at >= to_timestamp($11) AND (at, entry) >= (to_timestamp($11), $12::bigint))
ORDER BY at DESC, entry DESC LIMIT $9

-- name: audit_read
-- Entries, the oldest first. The parameters as in `audit_find`, but that they come after $7 and $8.
SELECT at, entry, date_part('epoch', at) AS seconds, namespace, action, caller_kind, caller_id, caller, address, request_id, target_kind,
       target, targets, before, after, detail,
       coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0) + coalesce(octet_length(detail), 0)
         + 39 * coalesce(cardinality(targets), 0) AS bytes
FROM tickwise.audit
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::float8 IS NULL OR at >= to_timestamp($2)) AND ($3::float8 IS NULL OR at < to_timestamp($3))
  AND ($4::text IS NULL OR caller = $4) AND ($5::text IS NULL OR action = $5)
  AND ($6::text IS NULL OR target = $6 OR $10::uuid = ANY(targets))
  AND ($7::float8 IS NULL OR at >= to_timestamp($7) AND (at, entry) > (to_timestamp($7), $8::bigint))
  AND ($11::float8 IS NULL OR at <= to_timestamp($11) AND (at, entry) <= (to_timestamp($11), $12::bigint))
ORDER BY at, entry LIMIT $9

-- name: audit_find_end
-- The last entry of a look among the newest, by an index alone. $1 namespace, $2 since, $3 until, $4 and $5 time and number that they come
-- before, $6 so many entries lie before it in the look. None: there are fewer.
SELECT date_part('epoch', at) AS seconds, entry FROM (
  SELECT at, entry FROM tickwise.audit
  WHERE ($1::text IS NULL OR namespace = $1) AND ($2::float8 IS NULL OR at >= to_timestamp($2)) AND ($3::float8 IS NULL OR at < to_timestamp($3))
    AND ($4::float8 IS NULL OR at <= to_timestamp($4) AND (at, entry) < (to_timestamp($4), $5::bigint))
  ORDER BY at DESC, entry DESC OFFSET $6 LIMIT 1) e

-- name: audit_read_end
-- The last entry of a look among the oldest. The parameters as in `audit_find_end`, but that they come after $4 and $5.
SELECT date_part('epoch', at) AS seconds, entry FROM (
  SELECT at, entry FROM tickwise.audit
  WHERE ($1::text IS NULL OR namespace = $1) AND ($2::float8 IS NULL OR at >= to_timestamp($2)) AND ($3::float8 IS NULL OR at < to_timestamp($3))
    AND ($4::float8 IS NULL OR at >= to_timestamp($4) AND (at, entry) > (to_timestamp($4), $5::bigint))
  ORDER BY at, entry OFFSET $6 LIMIT 1) e

-- name: audit_writers
-- The transactions that write to this database, or wait for a lock to do so, and when they began; NULL where the server does not show it,
-- because they are of another role, or prepared.
SELECT l.virtualtransaction AS name, date_part('epoch', tickwise.now() - (statement_timestamp() - min(a.xact_start))) AS begun
FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
GROUP BY l.virtualtransaction

-- name: audit_pending
-- The namespaces that have entries to seal.
SELECT DISTINCT namespace FROM tickwise.audit_unsealed ORDER BY namespace

-- name: audit_lock
-- Lock the chain of a namespace for this transaction; false: another one has it. Namespaces whose hashes are alike wait for each other.
SELECT pg_try_advisory_xact_lock(8388353, hashtext($1))

-- name: audit_unsealed_contents
-- Entries of a namespace that are not sealed yet, by day and number, as they are sealed; nothing of one that was removed. $1 namespace,
-- $2 at most. Each is looked up by itself: a join of the log as a whole would read all of it.
SELECT u.entry, date_part('epoch', u.at) AS at, a.content
FROM (SELECT at, entry, namespace FROM tickwise.audit_unsealed WHERE namespace = $1
      ORDER BY (at AT TIME ZONE 'UTC')::date, entry LIMIT $2) u
LEFT JOIN LATERAL (
  SELECT tickwise.audit_content(a) AS content FROM tickwise.audit a WHERE a.at = u.at AND a.entry = u.entry AND a.namespace = u.namespace
  OFFSET 0
) a ON true
ORDER BY (u.at AT TIME ZONE 'UTC')::date, u.entry

-- name: audit_head
-- The newest seal of a namespace, or the checkpoint that its chain begins at. Of a chain that goes as a whole, the newest seal is the one
-- of the checkpoint, until it is trimmed.
(SELECT seq, hash FROM tickwise.audit_seals WHERE namespace = $1 ORDER BY seq DESC LIMIT 1)
UNION ALL
(SELECT seq, hash FROM tickwise.audit_checkpoints WHERE namespace = $1 ORDER BY seq DESC LIMIT 1)
LIMIT 1

-- name: audit_seal_add
-- Add a seal, and forget that its entries are not sealed. $1 namespace, $2 seq, $3 since, $4 until, $5 entries, $6 digests, $7 previous,
-- $8 hash.
WITH s AS (
  INSERT INTO tickwise.audit_seals (at, namespace, seq, since, until, entries, digests, previous, hash)
  VALUES (tickwise.now(), $1, $2, to_timestamp($3::float8), to_timestamp($4::float8), $5, $6, $7, $8)
)
DELETE FROM tickwise.audit_unsealed WHERE namespace = $1 AND entry = ANY($5::bigint[])

-- name: audit_heads
-- The newest seal of each namespace after $1; at most $2.
WITH RECURSIVE n AS (
  (SELECT namespace FROM tickwise.audit_seals WHERE $1::text IS NULL OR namespace > $1 ORDER BY namespace LIMIT 1)
  UNION ALL
  SELECT (SELECT s.namespace FROM tickwise.audit_seals s WHERE s.namespace > n.namespace ORDER BY s.namespace LIMIT 1)
  FROM n WHERE n.namespace IS NOT NULL
)
SELECT h.namespace, h.seq, h.hash, date_part('epoch', h.at) AS sealed_at
FROM (SELECT namespace FROM n WHERE namespace IS NOT NULL LIMIT $2) n
CROSS JOIN LATERAL (SELECT * FROM tickwise.audit_seals s WHERE s.namespace = n.namespace ORDER BY seq DESC LIMIT 1) h

-- name: audit_seals
-- Seals of the namespace $1 after the number $2, in order; at most $3.
SELECT namespace, seq, date_part('epoch', at) AS sealed_at, date_part('epoch', since) AS since, date_part('epoch', until) AS until,
       entries, digests, previous, hash
FROM tickwise.audit_seals WHERE namespace = $1 AND seq > $2 ORDER BY seq LIMIT $3

-- name: audit_contents
-- Entries of the namespace $1 from $2 to $3 as they are sealed, by time and number; after the time $4 and the number $5, at most $6.
SELECT at, entry, date_part('epoch', at) AS seconds, tickwise.audit_content(a) AS content,
       coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0) + coalesce(octet_length(detail), 0)
         + 39 * coalesce(cardinality(targets), 0) AS bytes
FROM tickwise.audit a
WHERE namespace = $1 AND at >= to_timestamp(greatest($2::float8, $4::float8)) AND at <= to_timestamp($3::float8)
  AND ($4::float8 IS NULL OR (at, entry) > (to_timestamp($4), $5::bigint))
ORDER BY at, entry LIMIT $6

-- name: audit_slice_end
-- The time of the last of the next $3 entries after the time $1 that are older than $2 seconds; NULL: there are none.
SELECT date_part('epoch', max(at)) FROM (
  SELECT at FROM tickwise.audit
  WHERE at > to_timestamp($1::float8) AND at < tickwise.now() - $2::float8 * interval '1 second'
  ORDER BY at LIMIT $3
) s

-- name: audit_never_sealed
-- Entries after the time $1 and up to $2 that no seal names, the oldest first; at most $3. A seal is of one day, so one that ends more than
-- a day after $2 names none of them.
SELECT at, entry, date_part('epoch', at) AS seconds, namespace, action, caller_kind, caller_id, caller, address, request_id, target_kind,
       target, targets, before, after, detail
FROM tickwise.audit a
WHERE at > to_timestamp($1::float8) AND at <= to_timestamp($2::float8) AND NOT EXISTS (
  SELECT FROM tickwise.audit_seals s CROSS JOIN unnest(s.entries) AS e(entry)
  WHERE s.until > to_timestamp($1) AND s.until < to_timestamp($2) + interval '1 day' AND s.since <= to_timestamp($2)
    AND s.namespace = a.namespace AND e.entry = a.entry)
ORDER BY at, entry LIMIT $3

-- name: audit_checkpoints
-- The newest checkpoint of each namespace.
SELECT DISTINCT ON (namespace) namespace, seq, hash, date_part('epoch', dropped_before) AS dropped_before, date_part('epoch', at) AS at
FROM tickwise.audit_checkpoints ORDER BY namespace, dropped_before DESC
