-- Whether the data for pages are there: only they say when they were built.
SELECT to_regclass('bench.origin') IS NOT NULL
