-- name: session_settings
-- A session gets its settings. $1 names, $2 values.
SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS s(name, value)

-- name: session_probe
-- The server process of this session, and a setting that it was begun with.
SELECT pg_backend_pid(), current_setting('idle_in_transaction_session_timeout')

-- name: session_mark_off
-- This session is not marked.
SET tickwise.probe = 'off'

-- name: session_mark_on
-- This session is marked.
SET tickwise.probe = 'on'

-- name: session_unmarked
-- Fails, by a division by zero, in a session that is marked.
SELECT 1 / (current_setting('tickwise.probe', true) IS DISTINCT FROM 'on')::int

-- name: session_marked
-- Fails, by a division by zero, in a session that is not marked.
SELECT 1 / (current_setting('tickwise.probe', true) IS NOT DISTINCT FROM 'on')::int
