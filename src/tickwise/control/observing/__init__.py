"""Services about many runs at once."""
