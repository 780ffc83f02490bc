"""Removes the containers that no executor holds any more.

    list of this installation's containers
        ├── of an attempt
        │     ├── of this executor, and of none of its attempts ──► removed: a removal failed, or the engine was away
        │     └── of another executor ── does the store say that this attempt is held? ── no ──► removed
        └── of no attempt yet: of a warm pool
              ├── of this executor, and not of its pool ──► removed at the third look
              └── of another executor ── the same containers, with the same names, at the third look? ──► removed

An executor that was killed leaves its containers. As soon as its lease is over the store holds their attempts for
nobody, and the next sweep of any executor on this engine removes them. The store knows nothing of those that wait: an
executor that lives renames one of them before each of its own sweeps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from tickwise.adapters.runner.container.engine import Engine, EngineRefused, FoundContainer
from tickwise.adapters.runner.container.names import EXECUTOR, INSTALLATION, is_waiting, owner_of
from tickwise.adapters.runner.containers import ContainerPolicy
from tickwise.domain.errors import Unavailable

SWEEP_SECONDS: Final = 10.0
"""Between two sweeps. With the time of a lease it makes less than a minute."""
LOOKS: Final = 3
"""Sweeps that must find the same before a warm container counts as left. To remove one of an executor that stood still
for so long does no harm: it makes another one."""
_logger = logging.getLogger(__name__)


class Sweep:
    """The sweep of one executor."""

    def __init__(self, engine: Engine, policy: ContainerPolicy, executor: str) -> None:
        self._engine = engine
        self._policy = policy
        self._executor = executor
        self._looks: dict[str, tuple[frozenset[tuple[str, str]], int]] = {}

    async def once(
        self, own: Callable[[], Collection[tuple[UUID, int]]], pool: Callable[[], Collection[str]] = tuple
    ) -> int:
        """Remove what nobody holds; how many. `own`: the attempts of this executor, by run and token, and `pool` the
        numbers of its warm containers, asked after the look at the engine. Raises `EngineAway`."""
        found = await self._engine.labelled(f"{INSTALLATION}={self._policy.installation}")
        held, warm = own(), pool()
        waiting = [each for each in found if is_waiting(each)]
        kept = self._of_the_living(waiting, warm)
        removed = await self._removed([each for each in waiting if each.container_id not in kept])
        for each in found:
            if is_waiting(each) or each.container_id in warm:
                continue
            try:
                if await self._is_left(each, held):
                    removed += await self._removed([each])
            except Unavailable:
                return removed  # the store is away: the next sweep asks again
        return removed

    async def _removed(self, containers: Sequence[FoundContainer]) -> int:
        removed = 0
        for each in containers:
            try:
                await self._engine.remove(each.container_id)
                removed += 1
                _logger.warning("removed a container that no executor holds: %s %s", each.name, dict(each.labels))
            except EngineRefused as refused:
                _logger.warning("the container %s cannot be removed: %s", each.container_id, refused.message)
        return removed

    def _of_the_living(self, containers: Sequence[FoundContainer], pool: Collection[str]) -> Collection[str]:
        """Those of executors that live, as far as it can be told."""
        by_executor: dict[str, set[tuple[str, str]]] = {}
        for each in containers:
            if each.container_id not in pool:
                owner = each.labels.get(EXECUTOR, "")
                by_executor.setdefault(owner, set()).add((each.container_id, each.name))
        kept = set(pool)
        looks: dict[str, tuple[frozenset[tuple[str, str]], int]] = {}
        for owner, now in by_executor.items():
            before, times = self._looks.get(owner, (frozenset(), 0))
            looks[owner] = (frozenset(now), times + 1 if before == now else 1)
            if looks[owner][1] < LOOKS:
                kept |= {number for number, _ in now}
        self._looks = looks
        return kept

    async def _is_left(self, container: FoundContainer, own: Collection[tuple[UUID, int]]) -> bool:
        owner = owner_of(container)
        if owner is None:
            return False
        if container.labels.get(EXECUTOR) == self._executor:
            return (owner.run_id, owner.token) not in own
        is_held = self._policy.is_held
        return is_held is not None and not await is_held(owner.namespace, owner.run_id, owner.token)
