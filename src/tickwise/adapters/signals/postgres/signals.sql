-- name: ring
-- Notify the listeners of these topics, each with its subject, in a transaction of its own: a NOTIFY beside data takes one lock of
-- the whole database at commit.
SELECT pg_notify(channel, about) FROM unnest($1::text[], $2::text[]) AS ring (channel, about)
