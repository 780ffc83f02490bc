"""Suites of notices."""
