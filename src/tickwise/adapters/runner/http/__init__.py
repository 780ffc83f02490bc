"""Runs http tasks: one request each, to addresses that are allowed."""
