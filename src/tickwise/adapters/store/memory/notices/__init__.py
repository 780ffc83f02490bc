"""Channels and notices in memory."""
