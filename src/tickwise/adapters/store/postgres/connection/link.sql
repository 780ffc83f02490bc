-- name: shift
-- For tests: move the clock that this session reads, and its notion of the server's start.
SELECT set_config('tickwise.shift_seconds', $1::text, false), set_config('tickwise.shift_start_seconds', $2::text, false)
