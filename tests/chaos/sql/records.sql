-- What the system says of every run, ended or not, with the name of its job.
SELECT r.run_id, r.job_id, j.name, r.state, r.trigger, date_part('epoch', r.due) AS due, r.nominal_at AS nominal, r.until,
       r.started_at AS started, r.ended_at AS ended, r.token, r.attempt, r.failures, r.crashes, r.reason, r.origin
FROM tickwise.runs_shown r JOIN tickwise.jobs j USING (job_id);
