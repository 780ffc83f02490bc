-- Nothing waits, and nothing is in the way of a schedule's next run.
TRUNCATE tickwise.runs;
