-- name: epoch
-- The epoch of the store, after a new one has begun if necessary. $1 the highest fencing token that this process has seen, $2 the reason to
-- begin a new one in any case (NULL: only if necessary).
SELECT tickwise.epoch($1::bigint, $2::text)

-- name: epochs_list
-- The last epochs, newest first. $1 at most.
SELECT epoch, date_part('epoch', began) AS began_at, cause, timeline, seen > token AS lost_tokens, differed
FROM tickwise.epochs ORDER BY epoch DESC LIMIT $1

-- name: held_digest
-- The digest of the runs that an executor holds under tokens up to $2, in two numbers: as `domain/fencing.py` adds them up. Read by the
-- index of what is ready, and not beyond what this executor has claimed in each lane: behind that lies the backlog, however large. $1
-- executor, $2 token, $3 lanes, $4 the last instant of readiness that it claimed in each.
SELECT count(*), coalesce(sum(((get_byte(r.id, 12)::bigint << 24) | (get_byte(r.id, 13) << 16) | (get_byte(r.id, 14) << 8) | get_byte(r.id, 15))
                           # (r.token & 4294967295)), 0)::bigint
FROM unnest($3::int[], $4::float8[]) AS l(lane, ready) CROSS JOIN LATERAL (
  SELECT uuid_send(run_id) AS id, token FROM tickwise.runs
  WHERE lane = l.lane AND tickwise.runs.ready <= to_timestamp(l.ready + 0.001) AND holder = $1 AND token <= $2
  OFFSET 0) r

-- name: held_list
-- The runs that an executor holds under tokens up to $2. $1 executor, $2 token. Reads all of `runs`, which is small; asked only when
-- digests differ.
SELECT run_id, token FROM tickwise.runs WHERE holder = $1 AND token <= $2

-- name: held_again
-- The claims of those of these runs that an executor holds. $1 executor, $2 runs.
SELECT run_id, token, job_id, namespace, attempt, failures, crashes, guarded OR overlap > 0, date_part('epoch', due),
       date_part('epoch', coalesce(nominal, due)), date_part('epoch', ready), trigger,
       coalesce(spec, (SELECT j.definition FROM tickwise.jobs j WHERE j.job_id = runs.job_id), ''), date_part('epoch', claimed)
FROM tickwise.runs WHERE run_id = ANY($2::uuid[]) AND holder = $1

-- name: epoch_differed
-- Add to the number of runs of which executors knew better than the store. $1 how many.
UPDATE tickwise.epochs SET differed = differed + $1 WHERE epoch = (SELECT max(epoch) FROM tickwise.epochs)
