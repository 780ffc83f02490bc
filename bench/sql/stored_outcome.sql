-- What a case checks of itself beside what was stored before, whose ids are below $1: as `outcome`.
SELECT count(*) AS ended,
       count(DISTINCT run_id) AS runs,
       count(*) FILTER (WHERE state <> 5) AS not_success,
       count(*) FILTER (WHERE started < due) AS early,
       count(*) FILTER (WHERE started > ended OR claimed > ended) AS disordered,
       (SELECT count(*) FROM tickwise.runs) AS left_over
FROM tickwise.history WHERE run_id >= $1;
