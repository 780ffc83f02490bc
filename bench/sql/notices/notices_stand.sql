-- The notices, the events that no rule was asked about, and the clock.
SELECT state, tries, error, date_part('epoch', made_at) AS made, date_part('epoch', due) AS due, date_part('epoch', tried_at) AS tried,
       (SELECT count(*) FROM tickwise.notices_events) AS events, date_part('epoch', clock_timestamp()) AS now
FROM tickwise.notices
