-- Free runs are taken, in the product's table by a bare statement. $1 limit, $2 mark.
UPDATE tickwise.runs SET holder = 1, token = (SELECT nextval('tickwise.fence')), attempt = attempt + 1, state = 2,
                         claimed = statement_timestamp()
WHERE ctid = ANY (ARRAY(SELECT ctid FROM tickwise.runs WHERE lane = 1 AND ready <= statement_timestamp() AND ready >= $2 AND holder = 0
                        ORDER BY ready LIMIT $1 FOR UPDATE SKIP LOCKED)) AND holder = 0
RETURNING run_id, token, ready, spec;
