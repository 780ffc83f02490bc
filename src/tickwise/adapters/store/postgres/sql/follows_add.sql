-- What follows from the ends of these runs is to be made. $1 runs, $2 whether their sequence goes by success.
INSERT INTO tickwise.follows (since, run_id, succeeded)
SELECT tickwise.now(), n.run_id, n.succeeded FROM unnest($1::uuid[], $2::boolean[]) AS n(run_id, succeeded)
ON CONFLICT DO NOTHING
