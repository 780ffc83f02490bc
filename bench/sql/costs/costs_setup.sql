-- What measuring needs of a server: statements counted, and their costs readable by the product's own role. Runs once, in
-- single-user mode, where a blank line ends a command.
CREATE EXTENSION pg_stat_statements;

GRANT pg_read_all_stats, pg_checkpoint TO tickwise;

GRANT EXECUTE ON FUNCTION pg_stat_statements_reset(oid, oid, bigint, boolean) TO tickwise;

