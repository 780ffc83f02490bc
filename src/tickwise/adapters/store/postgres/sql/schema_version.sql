-- Which migration the database has, and the oldest whose programs it serves; no row without one.
SELECT version_num, serves FROM tickwise.schema_version
