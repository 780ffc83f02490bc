"""Suites of questions about many runs at once."""
