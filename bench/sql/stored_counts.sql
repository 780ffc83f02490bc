-- How much is stored, by the server's own counts.
SELECT (SELECT sum(rows) FROM bench.filled)::bigint AS runs, (SELECT count(*) FROM tickwise.jobs) AS jobs,
       (SELECT count(*) FROM tickwise.timers) AS timers, pg_database_size(current_database()) / 1048576 AS megabytes
