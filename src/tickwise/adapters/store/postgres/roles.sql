-- name: grant_executor
-- Give a role of the database the rights that an executor needs, and revoke its other rights in the schema.
SELECT tickwise.grant_executor($1)
