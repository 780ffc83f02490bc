-- Milliseconds from due to start.
SELECT coalesce(percentile_cont(ARRAY[0.5, 0.99, 1.0]) WITHIN GROUP (ORDER BY extract(epoch FROM started - due) * 1000.0),
                ARRAY[0, 0, 0]) AS late
FROM tickwise.history;
