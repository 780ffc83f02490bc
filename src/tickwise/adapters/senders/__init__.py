"""Senders of notices, one for each kind of channel (`ports.senders`)."""
