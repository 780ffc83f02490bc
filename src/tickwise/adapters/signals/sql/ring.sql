-- Ring for these topics, in a transaction of its own: a NOTIFY beside data takes one lock of the whole database at commit.
SELECT pg_notify(channel, '') FROM unnest($1::text[]) AS channel
