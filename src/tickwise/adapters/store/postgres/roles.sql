-- name: grant_executor
-- Give a role of the database the rights that an executor needs, and revoke its other rights in the schema.
SELECT tickwise.grant_executor($1)

-- name: grant_service
-- Give a role of the database the rights that API, scheduler and recorder need, and revoke its other rights on tables of the schema.
SELECT tickwise.grant_service($1)
