-- Where the ids of measurements begin, if one that was interrupted left anything: what was built is older. No row: nothing is left.
SELECT since FROM (SELECT bench.id(at + interval '1 second', 0) AS since FROM bench.origin) o
WHERE EXISTS (SELECT FROM tickwise.history WHERE run_id >= since) OR EXISTS (SELECT FROM tickwise.jobs WHERE job_id >= since)
