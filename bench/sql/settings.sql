-- The server's version, and its settings on which a figure depends.
SELECT name, current_setting(name) AS value
FROM unnest(ARRAY['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'wal_level',
                  'max_wal_size', 'wal_compression', 'autovacuum', 'autovacuum_naptime', 'io_method', 'jit', 'huge_pages']) AS name
WHERE current_setting(name, true) IS NOT NULL;
