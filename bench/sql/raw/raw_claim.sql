-- Take a batch.
UPDATE raw.runs SET holder = 1, token = (SELECT nextval('raw.fence'))
WHERE ctid = ANY (ARRAY(SELECT ctid FROM raw.runs WHERE ready <= statement_timestamp() AND ready >= $2 AND holder = 0
                        ORDER BY ready LIMIT $1 FOR UPDATE SKIP LOCKED)) AND holder = 0
RETURNING run_id, token, ready, spec;
