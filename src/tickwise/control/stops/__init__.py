"""Stops: what of a namespace does not start for a time."""
