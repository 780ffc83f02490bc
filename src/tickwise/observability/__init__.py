"""Metrics and log events: each is declared here, once."""
