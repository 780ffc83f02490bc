-- Jobs that are not done; nothing here fails or is cancelled, so all of them come to be `completed`.
SELECT count(*) FROM pgboss.job WHERE name = 'bench' AND state < 'completed'
