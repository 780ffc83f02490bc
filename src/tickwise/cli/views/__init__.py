"""Jobs and runs as rows and as fields."""
