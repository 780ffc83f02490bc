"""Jobs and runs as rows and as fields; a log with the origin of each line."""
