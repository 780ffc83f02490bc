"""Notification rules, the events that they are asked about, and the alerts that they make of them."""
