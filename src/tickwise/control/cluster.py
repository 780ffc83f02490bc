"""The installation itself: the processes that work for it, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tickwise.control.access import holds_everywhere, requires, requires_none
from tickwise.control.context import ControlContext
from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.shared_state import SharedState
from tickwise.ports.store import ExecutorRow, StoreStats
from tickwise.roles.shared.costly import CostlyAnswers
from tickwise.roles.shared.membership import RoleFacts, active_roles


class SettingInForce(NamedTuple):
    """One setting of this process."""

    name: str
    value: str
    """As people write it; masked, if it is secret."""
    origin: str
    """`default`, the file, the variable of the environment, or the option of the command line."""
    unit: str
    """Such as `s`; empty: it has none."""
    meaning: str
    secret: bool


class ClusterService:
    """Everything about the processes of the installation."""

    def __init__(
        self,
        context: ControlContext,
        membership: SharedState | None = None,
        settings: Sequence[SettingInForce] = (),
    ) -> None:
        """`membership` is the shared state where roles note that they are active. None: no role does. `settings`: those
        of this process."""
        self._context = context
        self._settings = settings
        self._membership = membership
        self._stats: CostlyAnswers[str, StoreStats] = CostlyAnswers(context.clock)

    @requires(Permission.EXECUTORS_READ)
    async def roles(self, _who: Principal) -> Sequence[RoleFacts]:
        """The roles that are active, as they say. Raises `Unavailable` if that cannot be read."""
        return [] if self._membership is None else await active_roles(self._membership)

    @requires(Permission.EXECUTORS_READ)
    async def executors(self, who: Principal) -> Sequence[ExecutorRow]:
        """Active executors, and those gone lately. A principal of one namespace is shown those that may claim its runs:
        the names of other namespaces, and the machines of their own, are not its business."""
        rows = await self._context.store.executors.all()
        if holds_everywhere(who, Permission.EXECUTORS_READ):
            return rows
        return [
            row if row.namespaces is None else replace(row, namespaces=(who.namespace,))
            for row in rows
            if row.takes(who.namespace)
        ]

    @requires(Permission.NAMESPACES_ADMIN)
    async def settings(self, who: Principal) -> Sequence[SettingInForce]:
        """The settings in force in the process that answers. Raises `Forbidden` for all but administrators of the
        installation: folders and addresses of the machine are nobody else's business."""
        if not holds_everywhere(who, Permission.NAMESPACES_ADMIN):
            raise Forbidden("an administrator of the installation can see the settings")
        return self._settings

    @requires_none("readiness is open to load balancers; counts of the whole installation name nothing")
    async def stats(self) -> StoreStats:
        """Counts for people, up to 30 s old while they cost the store much. Raises `StoreUnavailable`."""
        return await self._stats.of("", self._context.store.upkeep.stats)
