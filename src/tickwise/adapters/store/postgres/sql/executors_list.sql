-- Active executors, and those gone within the last hour, with what they hold.
SELECT e.executor, e.name, e.queues, e.labels, e.functions, e.slots, date_part('epoch', e.born) AS born_at,
       date_part('epoch', e.lease) AS lease_until, date_part('epoch', e.gone) AS gone_at, coalesce(h.held, 0) AS held,
       e.differs, date_part('epoch', e.differing) AS differing_since
FROM tickwise.executors e
LEFT JOIN (SELECT holder, count(*) AS held FROM tickwise.runs WHERE holder <> 0 GROUP BY holder) h ON h.holder = e.executor
WHERE e.gone IS NULL OR e.gone > (SELECT tickwise.now()) - interval '1 hour'
ORDER BY e.executor DESC
