-- What came of a storm: failures that alerts counted, alerts, events that no rule was asked about, notices that wait.
SELECT (SELECT coalesce(sum(events), 0)::bigint FROM tickwise.alerts) AS counted, (SELECT count(*) FROM tickwise.alerts) AS alerts,
       (SELECT count(*) FROM tickwise.notices_events) AS pending,
       (SELECT count(*) FROM tickwise.notices WHERE state = 'waiting') AS waiting
