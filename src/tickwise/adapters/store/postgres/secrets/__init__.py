"""Secrets: sealed bytes, by namespace and name."""
