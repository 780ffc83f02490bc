"""Environments that jobs declare, noted for executors, and looked up for explanations."""
