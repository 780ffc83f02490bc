"""Records: searches, dead letters and operations."""
