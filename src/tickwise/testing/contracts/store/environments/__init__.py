"""The environments that jobs declare."""
