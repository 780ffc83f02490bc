"""Failures, grouped by cause, in memory."""
