"""Connections to PostgreSQL: dialed, kept, and the driver's errors in our words."""
