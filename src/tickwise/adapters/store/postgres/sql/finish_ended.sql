-- Held runs that have ended already go, and leave what is on record. $1 executor, $2 runs. Returns those.
DELETE FROM tickwise.runs r
WHERE run_id = ANY($2::uuid[]) AND holder = $1
  AND (SELECT true FROM tickwise.history h WHERE h.run_id = r.run_id OFFSET 0)
RETURNING run_id
