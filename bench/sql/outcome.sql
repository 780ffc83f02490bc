-- What a case checks of itself: every run ended once, well, in order, and none early.
SELECT count(*) AS ended,
       count(DISTINCT run_id) AS runs,
       count(*) FILTER (WHERE state <> 5) AS not_success,
       count(*) FILTER (WHERE started < due) AS early,
       count(*) FILTER (WHERE started > ended OR claimed > ended) AS disordered,
       (SELECT count(*) FROM tickwise.runs) AS left_over,
       (SELECT count(*) FROM tickwise.timers) AS timers_left,
       extract(epoch FROM min(started))::float8 AS first_start,
       extract(epoch FROM max(started))::float8 AS last_start
FROM tickwise.history;
