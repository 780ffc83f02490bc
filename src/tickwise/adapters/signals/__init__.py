"""Wake-ups, events and shared state between processes: in one process, through the database, or through Redis."""
