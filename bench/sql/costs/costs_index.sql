-- How an index is made.
SELECT replace(pg_get_indexdef($1::text::regclass), ' ON ONLY ', ' ON ');
