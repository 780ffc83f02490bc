-- The runs that were made after the journal's line $1.
SELECT seq, run_id, job_id FROM chaos.journal WHERE seq > $1 AND before = 0 ORDER BY seq;
