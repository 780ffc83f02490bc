-- Jobs whose schedule makes too many runs are paused, while their timers are held by this transaction. $1 jobs, $2 due times of
-- their timers as taken, $3 reasons. Returns those. A job that somebody changes just now is left alone: people lock the job before
-- its timer, so waiting for it here would be waiting in a circle.
UPDATE tickwise.jobs j
SET standing = 1, version = version + 1, updated = tickwise.now(), pause_until = NULL, paused_by = 'fuse',
    pause_reason = (SELECT f.reason FROM unnest($1, $3::text[]) AS f(job_id, reason) WHERE f.job_id = j.job_id LIMIT 1),
    paused = CASE WHEN standing = 1 AND (pause_until IS NULL OR pause_until > tickwise.now()) THEN paused ELSE tickwise.now() END
WHERE job_id = ANY(ARRAY(
    SELECT o.job_id FROM tickwise.jobs o WHERE o.job_id = ANY($1::uuid[]) AND o.standing <> 2 FOR NO KEY UPDATE SKIP LOCKED))
  AND job_id = ANY(ARRAY(
    SELECT t.job_id FROM tickwise.timers t JOIN unnest($1, $2::float8[]) AS f(job_id, due) ON f.job_id = t.job_id
    WHERE t.job_id = ANY($1) AND t.due = to_timestamp(f.due)))
RETURNING job_id
