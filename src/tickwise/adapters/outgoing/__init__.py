"""Connections to addresses that people name: http tasks and senders of notices share them."""
