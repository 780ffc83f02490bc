-- What a claim said of those of these runs that an executor holds. $1 executor, $2 runs.
SELECT run_id, token, job_id, namespace, attempt, failures, crashes, guarded OR overlap > 0, date_part('epoch', due),
       date_part('epoch', coalesce(nominal, due)), date_part('epoch', ready), trigger,
       coalesce(spec, (SELECT j.definition FROM tickwise.jobs j WHERE j.job_id = runs.job_id), ''), date_part('epoch', claimed)
FROM tickwise.runs WHERE run_id = ANY($2::uuid[]) AND holder = $1
