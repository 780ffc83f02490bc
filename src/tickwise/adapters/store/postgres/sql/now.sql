-- The store's clock.
SELECT date_part('epoch', tickwise.now())
