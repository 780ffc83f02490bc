"""The store as people use it."""
