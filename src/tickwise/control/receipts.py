"""Answers that are kept under an Idempotency-Key, so that the same request again has the same answer."""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwise.control.access import requires_none
from tickwise.control.context import ControlContext
from tickwise.domain.model import Principal
from tickwise.ports.store import Receipt, Replay

KEY_REUSED: Final = (
    "this Idempotency-Key was used before, for another request or with other permissions; choose a new one"
)
_CHECKED: Final = "a receipt is stored under its principal's name, and the request itself is checked"


class Once(NamedTuple):
    """An Idempotency-Key, with what was asked for under it."""

    route: str
    key: str
    digest: bytes

    def receipt(self, who: Principal, status: int, body: bytes) -> Receipt:
        """The answer in its stored form, under the name of the principal."""
        return Receipt(
            principal=who.answers_name,
            route=self.route,
            key=self.key,
            body_digest=self.digest,
            status=status,
            body=body,
        )


class ReceiptService:
    """Finds and keeps answers."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires_none(_CHECKED)
    async def find(self, who: Principal, once: Once) -> Replay | None:
        """The answer that this principal had under an Idempotency-Key."""
        return await self._context.store.receipts.find(who.answers_name, once.route, once.key)

    @requires_none(_CHECKED)
    async def keep(self, who: Principal, once: Once, status: int, body: bytes) -> Replay | None:
        """Keep the answer of an idempotent request; return the one that was kept before, if there is one."""
        receipt = once.receipt(who, status, body)
        return await self._context.surely(lambda: self._context.store.receipts.keep(receipt))
