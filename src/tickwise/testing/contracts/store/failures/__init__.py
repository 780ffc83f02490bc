"""Suites of failures, grouped by cause."""
