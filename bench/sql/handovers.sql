-- What ran: when it was due, when it started and ended, where, and how it ended. $1 its jobs (NULL: all).
SELECT job_id, executor, state, extract(epoch FROM due)::float8 AS due, extract(epoch FROM started)::float8 AS started,
       extract(epoch FROM ended)::float8 AS ended
FROM tickwise.history
WHERE started IS NOT NULL AND ($1::uuid[] IS NULL OR job_id = ANY($1))
ORDER BY started;
