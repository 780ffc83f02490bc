-- A batch begins.
UPDATE raw.runs SET started = statement_timestamp() WHERE run_id = ANY ($1::uuid[]) AND holder = 1;
