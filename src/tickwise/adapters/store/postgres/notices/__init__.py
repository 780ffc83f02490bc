"""Channels, notification rules, the events that they are asked about, alerts and notices, on PostgreSQL."""
