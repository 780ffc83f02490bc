-- How many good keys a namespace has that somebody asked for; of those that are not good, the oldest but $2 are forgotten. $1 namespace.
WITH k AS MATERIALIZED (
  SELECT digest, (revoked IS NULL AND (expires IS NULL OR expires > tickwise.now())) AS good,
         row_number() OVER (PARTITION BY (revoked IS NULL AND (expires IS NULL OR expires > tickwise.now()))
                            ORDER BY coalesce(revoked, expires) DESC NULLS FIRST, key_id DESC) AS number
  FROM tickwise.keys WHERE namespace = $1 AND origin = 'made'
), gone AS (
  DELETE FROM tickwise.keys WHERE digest IN (SELECT digest FROM k WHERE NOT good AND number > $2)
)
SELECT count(*) FROM k WHERE good
