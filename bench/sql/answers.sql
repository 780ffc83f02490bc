-- Reads every result back: how many are what the function had to answer to the payload of its job, and how many are not.
SELECT count(*) FILTER (WHERE h.result::jsonb = jsonb_build_object('twice', 2 * (j.definition::jsonb -> 'payload' ->> 'number')::int)) AS right,
       count(*) AS ended
FROM tickwise.history h JOIN tickwise.jobs j USING (job_id);
