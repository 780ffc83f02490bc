"""Namespaces: the tenants of an installation.

- `service` adds, lists, changes and removes them; schedulers carry a removal out (`bulk.removal`). `directory` finds
  the principal of a caller in the one that it names.
"""
