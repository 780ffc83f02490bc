"""Pages about ways in without a stored key."""
