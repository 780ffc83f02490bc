-- Forget lanes that were freed more than $1 seconds ago.
DELETE FROM tickwise.lanes_freed WHERE freed < tickwise.now() - $1::float8 * interval '1 second'
