-- Schedules of the bare tables: $1 jobs, $2 when each is due first (Unix seconds), $3 what each run has to do.
INSERT INTO raw.schedules (job_id, due, spec) SELECT job_id, to_timestamp(due), $3 FROM unnest($1::uuid[], $2::float8[]) AS n(job_id, due);
