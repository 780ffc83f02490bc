"""API keys: make, list and revoke them (`service`), find their principals (`credentials`), form their secrets (`secrets`).

Invariant: the store keeps digests. A secret is told once, to its maker.
"""
