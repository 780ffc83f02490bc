"""Pages of operations, each after a look at whether its asker may still do that.

OperationRow ──► Askers.allow ──┬─ allowed ──► OperationPages.page
                                └─ not ──────► an end: FAILED, `no_longer_allowed`; finished pages stay done
"""

from __future__ import annotations

from tickwise.control.askers import Askers
from tickwise.control.bulk.access import jobs_of_operation, permissions_of_kind
from tickwise.control.bulk.pages import OperationPage, OperationPages
from tickwise.control.context import ControlContext
from tickwise.domain.errors import NoLongerAllowed
from tickwise.ports.store import OperationRow


class AuthorizedPages:
    """Carries operations out, page by page, as long as those who asked for them may."""

    def __init__(self, context: ControlContext) -> None:
        self._askers = Askers(context)
        self._pages = OperationPages(context)

    async def page(self, operation: OperationRow, size: int) -> OperationPage:
        """Carry out the next page of up to `size` subjects, or end the operation. Raises `Unavailable`: carry it out
        again later."""
        if operation.asker is not None:
            needed = permissions_of_kind(operation.kind, "write")
            try:
                await self._askers.allow(
                    operation.asker, operation.namespace, needed, within=jobs_of_operation(operation)
                )
            except NoLongerAllowed as refusal:
                return self._pages.stopped(operation, refusal)
        return await self._pages.page(operation, size)
