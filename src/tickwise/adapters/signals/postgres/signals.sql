-- name: ring
-- Ring for these topics, each with what it is about, in a transaction of its own: a NOTIFY beside data takes one lock of
-- the whole database at commit.
SELECT pg_notify(channel, about) FROM unnest($1::text[], $2::text[]) AS ring (channel, about)
