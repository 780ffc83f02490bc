-- Jobs that have not durably ended: one that ends is deleted here and logged in the same statement.
SELECT count(*) FROM pgqueuer
