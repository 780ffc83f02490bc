-- After rows were made to wait: as they would lie there if they had come to it one by one.
VACUUM ANALYZE tickwise.runs;
