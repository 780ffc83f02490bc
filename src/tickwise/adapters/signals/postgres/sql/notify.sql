-- Send events, in their order. In a transaction of its own: see ring.sql.
SELECT pg_notify(channel, frame) FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS event (channel, frame, number)
ORDER BY number
