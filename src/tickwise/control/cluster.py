"""The installation itself: the processes that work for it, and its figures."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.control.access import requires, requires_none
from tickwise.control.context import ControlContext
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.shared_state import SharedState
from tickwise.ports.store import ExecutorRow, StoreStats
from tickwise.roles.shared.membership import RoleFacts, active_roles


class ClusterService:
    """Everything about the processes of the installation."""

    def __init__(self, context: ControlContext, membership: SharedState | None = None) -> None:
        """`membership` is the shared state where roles note that they are active. None: no role does."""
        self._context = context
        self._membership = membership

    @requires(Permission.EXECUTORS_READ)
    async def roles(self, _who: Principal) -> Sequence[RoleFacts]:
        """The roles that are active, as they say. Raises `Unavailable` if that cannot be read."""
        return [] if self._membership is None else await active_roles(self._membership)

    @requires(Permission.EXECUTORS_READ)
    async def executors(self, _who: Principal) -> Sequence[ExecutorRow]:
        """Active executors, and those gone lately."""
        return await self._context.store.executors.all()

    @requires_none("readiness is open to load balancers; counts of the whole installation name nothing")
    async def stats(self) -> StoreStats:
        """Counts for metrics and readiness. Raises `StoreUnavailable`."""
        return await self._context.store.upkeep.stats()
