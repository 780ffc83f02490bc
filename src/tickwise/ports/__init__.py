"""Ports: Protocols whose docstrings are the contract. Each has one suite in `tickwise.testing.contracts`."""
