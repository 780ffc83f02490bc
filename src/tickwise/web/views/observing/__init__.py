"""Pages about what many runs come to."""
