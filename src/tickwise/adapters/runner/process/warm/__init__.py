"""Warm starts: scripts that are forked from interpreters which have begun."""
