"""Channels and notices on PostgreSQL."""
