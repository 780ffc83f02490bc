-- name: shift
-- Move the clock that this session reads, and what it takes for the server's start, for tests.
SELECT set_config('tickwise.shift_seconds', $1::text, false), set_config('tickwise.shift_start_seconds', $2::text, false)
