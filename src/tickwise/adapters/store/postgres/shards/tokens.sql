-- name: tokens_of_shard
-- Draw tokens that name a shard, from now on. $1 the last bits of them.
SELECT tickwise.tokens_of_shard($1::int)
