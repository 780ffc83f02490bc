-- One dead letter. $1 namespace, $2 seconds after which an unsettled one is expired, $3 run.
SELECT *, coalesce(settled_as, CASE WHEN ended_at < date_part('epoch', (SELECT tickwise.now())) - $2::float8 THEN 'expired'
                                    WHEN reason = 'unknown_outcome' THEN 'held' ELSE 'open' END) AS status
FROM tickwise.letters_shown WHERE run_id = $3 AND namespace = $1
