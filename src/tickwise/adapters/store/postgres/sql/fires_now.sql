-- The store's clock, and which rules stand.
SELECT date_part('epoch', tickwise.now()), (SELECT version FROM tickwise.rules_version)
