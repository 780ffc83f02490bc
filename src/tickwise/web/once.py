"""A form that is sent twice does its work once: it carries a name of its own, and the answer is kept under it.

page ──hidden `once`──► form ──► receipt with the effect ──► sent again: the first answer
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeVar
from uuid import UUID

from tickwise.control.context import ReceiptFor
from tickwise.control.receipts import Once
from tickwise.ports.store import Replay
from tickwise.web.visit import Visit

T = TypeVar("T")

FIELD: Final = "once"
_NAME: Final = re.compile(r"[0-9a-f]{32}")


def new_name(visit: Visit) -> str:
    """A name for a form."""
    return visit.control.clock.random_bytes(16).hex()


def receipt_for(visit: Visit, route: str, made_by: Callable[[T], UUID]) -> ReceiptFor[T] | None:
    """Makes the receipt of what the form makes, whose id `made_by` tells; None: the form has no name."""
    name = visit.form.get(FIELD, "")
    if not _NAME.fullmatch(name):
        return None
    kept = Once(f"page {route}", name, sha256(name.encode()).digest())
    return lambda made: kept.receipt(visit.who, 303, str(made_by(made)).encode())


def made_before(replay: Replay) -> UUID:
    """The thing that the form made when it was sent first."""
    return UUID(replay.body.decode())
