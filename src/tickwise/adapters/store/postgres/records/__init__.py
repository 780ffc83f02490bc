"""What is on record: searches, dead letters and operations."""
