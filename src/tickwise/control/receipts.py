"""Answers that are kept under an Idempotency-Key, so that the same request again has the same answer."""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwise.control.access import requires_none
from tickwise.control.context import ControlContext
from tickwise.ports.store import Receipt, Replay

_CHECKED: Final = "an answer is kept under the name of its principal, and the request itself is checked"


class Once(NamedTuple):
    """An Idempotency-Key, with what was asked for under it."""

    route: str
    key: str
    digest: bytes


class ReceiptService:
    """Finds and keeps answers."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires_none(_CHECKED)
    async def find(self, principal: str, route: str, key: str) -> Replay | None:
        """The answer that was given under an Idempotency-Key."""
        return await self._context.store.receipts.find(principal, route, key)

    @requires_none(_CHECKED)
    async def keep(self, receipt: Receipt) -> Replay | None:
        """Keep an answer whose effect is the same however often it is asked for; or the one that was kept before."""
        return await self._context.surely(lambda: self._context.store.receipts.keep(receipt))
