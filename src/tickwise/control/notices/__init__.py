"""Channels, notification rules, alerts and notices: what people may do with them (`domain.notices`)."""
