"""Wake-ups: in one process, or through the database."""
