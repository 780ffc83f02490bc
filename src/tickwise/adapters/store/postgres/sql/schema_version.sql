-- Which migration the database has, NULL without one.
SELECT version_num FROM tickwise.alembic_version
