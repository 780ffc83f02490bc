"""Namespaces: the tenants of an installation.

- `service` adds, lists, changes and removes them. `directory` finds the principal of a caller in the one that it names.
"""
