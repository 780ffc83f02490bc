-- Milliseconds from due to start, of runs that were due in a window.
SELECT coalesce(percentile_cont(ARRAY[0.5, 0.99, 1.0]) WITHIN GROUP (ORDER BY extract(epoch FROM started - due) * 1000.0),
                ARRAY[0, 0, 0]) AS late
FROM tickwise.history
WHERE due BETWEEN to_timestamp($1) AND to_timestamp($2);
