-- The same of a database that no program since the first release has upgraded.
SELECT version_num, version_num AS serves FROM tickwise.alembic_version
