"""The HTTP library: httpx2, or httpx, whose continuation it is, where Python is too old for httpx2 (3.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2
else:
    try:
        import httpx2
    except ImportError:
        import httpx as httpx2

__all__ = ["httpx2"]
