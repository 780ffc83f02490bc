-- How many runs are held by anybody.
SELECT count(*) FROM tickwise.runs WHERE holder <> 0;
