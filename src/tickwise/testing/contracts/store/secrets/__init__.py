"""Suites over the secrets of a store."""
