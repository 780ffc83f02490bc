"""REST in: bytes of a request become calls of control, and what it answers becomes JSON. One error shape for all."""

from __future__ import annotations

from tickwise.api.app import create_app

__all__ = ["create_app"]
