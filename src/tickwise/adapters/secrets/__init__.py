"""Secrets: the encryption of our own store, and the places that hand out values."""
