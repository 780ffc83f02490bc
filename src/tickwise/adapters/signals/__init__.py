"""What processes tell each other: in one process, through the database, or through Redis."""
