"""Secrets in answers: declared by the type of the field, so that no route keeps one by mistake.

    key: Secret ──► the type of an answer ──► Endpoint refuses to be made without `secret=True`
                                                 └─► no answer of it is kept for an Idempotency-Key

Invariant: an answer with a secret is never stored.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Meta

_MARK: Final = Meta(extra_json_schema={"format": "password"})
Secret = Annotated[str, _MARK]
"""A text that lets its holder in, and is told once."""


def tells_secret(answer: Any) -> bool:
    """Check whether an answer of this type has a secret, at any depth."""
    return _tells(answer, set())


def _tells(kind: Any, seen: set[Any]) -> bool:
    if _MARK in getattr(kind, "__metadata__", ()):
        return True
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in seen:
            return False
        seen.add(kind)
        return any(_tells(each, seen) for each in get_type_hints(kind, include_extras=True).values())
    return any(_tells(each, seen) for each in get_args(kind))
