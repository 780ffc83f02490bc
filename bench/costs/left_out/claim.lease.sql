-- The look at the executor's own row.
-- from
me AS MATERIALIZED (
-- until
),
heads
-- instead
me AS MATERIALIZED (SELECT true AS alive
