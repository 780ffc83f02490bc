"""Notification rules, events, alerts and delays."""
