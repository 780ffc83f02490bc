-- How many wait or run: the backlog that a submitter keeps bounded.
SELECT count(*) FROM tickwise.runs;
