-- name: grant_executor
-- Gives a role of the database what an executor needs, and takes from it what it had in the schema beside.
SELECT tickwise.grant_executor($1)
