"""API keys.

- `service` makes, lists and revokes keys. `credentials` finds the principal of a key. `secrets`: the form of a key.

Invariant: the store keeps digests. A secret is told once, to its maker.
"""
