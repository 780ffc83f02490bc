-- The database has this migration from now on ($1). The oldest programs that it serves stay as they are noted.
WITH noted AS (UPDATE tickwise.schema_version SET version_num = $1 RETURNING version_num)
INSERT INTO tickwise.schema_version (version_num) SELECT $1 WHERE NOT EXISTS (SELECT FROM noted)
