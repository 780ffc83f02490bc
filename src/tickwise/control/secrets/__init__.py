"""Secrets that Tickwise keeps itself: set, list, remove, and wrap their keys anew."""
