"""Tickwise: a self-hosted, distributed job scheduler."""

__version__ = "0.1.0"
