-- What is due before $1 (Unix seconds) and not yet over: timers and runs.
SELECT (SELECT count(*) FROM tickwise.timers WHERE due < to_timestamp($1::float8))
     + (SELECT count(*) FROM tickwise.runs WHERE due < to_timestamp($1));
