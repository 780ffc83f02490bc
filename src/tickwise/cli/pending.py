"""Requests that a server accepted and has not applied yet: what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_pending(answer: Mapping[str, Any]) -> bool:
    """Check whether the answer to a create, change or cancel is only an acceptance so far."""
    return answer.get("status") == "pending"


def taken_in(answer: Mapping[str, Any]) -> str:
    """The state of a created job in words: `is stored`, or `is accepted (pending)`."""
    return "is accepted (pending)" if is_pending(answer) else "is stored"
