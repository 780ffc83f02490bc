"""Suites of notices: channels, rules, events, alerts, delays, deliveries."""
