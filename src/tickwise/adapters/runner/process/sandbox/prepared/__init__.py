"""Sandboxes that are prepared ahead: one bubblewrap for many tasks, each in namespaces of its own."""
