"""API keys: make, list and revoke them (`service`), and the form of their secrets (`secrets`).

Invariant: the store keeps digests. A secret is told once, to its maker.
"""
