-- Jobs that lie ahead.
SELECT count(*) FROM tickwise.timers;
