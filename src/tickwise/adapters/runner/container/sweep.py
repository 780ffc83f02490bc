"""Removes the containers that no executor holds any more.

    list of this installation's containers
        ├── of this executor, and of none of its attempts ──► removed: a removal failed, or the engine was away
        └── of another executor ── does the store say that this attempt is held? ── no ──► removed

An executor that was killed leaves its containers. As soon as its lease is over the store holds their attempts for
nobody, and the next sweep of any executor on this engine removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final
from uuid import UUID

from tickwise.adapters.runner.container.composing import EXECUTOR, INSTALLATION, NAMESPACE, RUN, TOKEN
from tickwise.adapters.runner.container.engine import Engine, EngineRefused, FoundContainer
from tickwise.adapters.runner.containers import ContainerPolicy
from tickwise.domain.errors import Unavailable

SWEEP_SECONDS: Final = 10.0
"""Between two sweeps. With the time of a lease it makes less than a minute."""
_logger = logging.getLogger(__name__)


class Sweep:
    """The sweep of one executor."""

    def __init__(self, engine: Engine, policy: ContainerPolicy, executor: str) -> None:
        self._engine = engine
        self._policy = policy
        self._executor = executor

    async def once(self, own: Collection[tuple[UUID, int]]) -> int:
        """Remove what nobody holds; how many. `own`: the attempts of this executor, by run and token. Raises
        `EngineAway`."""
        removed = 0
        for each in await self._engine.left(f"{INSTALLATION}={self._policy.installation}"):
            try:
                if await self._is_left(each, own):
                    await self._engine.remove(each.container_id)
                    removed += 1
                    _logger.warning("removed a container that no executor holds: %s", dict(each.labels))
            except Unavailable:
                return removed  # the store is away: the next sweep asks again
            except EngineRefused as refused:
                _logger.warning("the container %s cannot be removed: %s", each.container_id, refused.message)
        return removed

    async def _is_left(self, container: FoundContainer, own: Collection[tuple[UUID, int]]) -> bool:
        labels = container.labels
        try:
            run_id, token = UUID(labels[RUN]), int(labels[TOKEN])
            namespace = labels[NAMESPACE]
        except (KeyError, ValueError):
            return False
        if labels.get(EXECUTOR) == self._executor:
            return (run_id, token) not in own
        is_held = self._policy.is_held
        return is_held is not None and not await is_held(namespace, run_id, token)
