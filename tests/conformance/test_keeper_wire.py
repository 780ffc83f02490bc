"""A store behind the wire of a keeper keeps every promise of the store's port: nothing is lost or changed on the way.

The server and its clients speak through a real connection on loopback, with their certificate and key. The store behind
them is the one over a log in a folder, which `test_file_store.py` judges by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from tests.conformance import test_memory as plain
from tests.support.keepers import ServedStore, served
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.notices.rules import Notice
from tickwise.ports.store import Check, Store
from tickwise.testing.clock import VirtualClock


class Backend(plain.Backend):
    """A client of a keeper; the other one has a connection of its own."""

    served: ServedStore

    @pytest.fixture
    async def keeper(self, clock: VirtualClock, tmp_path: Path) -> AsyncIterator[ServedStore]:
        """The keeper of the test."""
        self.virtual_clock = clock
        async with served(tmp_path / "store", clock) as self.served:
            yield self.served

    @pytest.fixture
    async def store(self, keeper: ServedStore) -> Store:
        return await keeper.client()  # type: ignore[return-value]  # its parts are those of the port

    @pytest.fixture
    async def other(self, keeper: ServedStore) -> Store:
        return await keeper.client()  # type: ignore[return-value]  # as above

    async def restart(self, store: Store) -> None:
        await store.close()
        await self.served.store.open()
        await store.open()

    async def add_channel(self, store: Store, namespace: str, name: str) -> UUID:
        return await super().add_channel(self.served.store.memory, namespace, name)

    async def notices(self, store: Store, namespace: str = DEFAULT_NAMESPACE) -> Sequence[Notice]:
        return await super().notices(self.served.store.memory, namespace)

    async def take_notices(self, store: Store) -> None:
        await super().take_notices(self.served.store.memory)

    async def damage(self, store: Store, check: Check, subject: UUID) -> None:
        await super().damage(self.served.store.memory, check, subject)

    def module_of_groups(self, store: Store) -> str:
        return type(self.served.store.memory.error_groups).__module__


def _suites() -> dict[str, type]:
    """The suites that the memory store runs, over this backend."""
    made = {}
    for name, suite in vars(plain).items():
        if name.startswith("Test") and isinstance(suite, type):
            bases = tuple(Backend if each is plain.Backend else each for each in suite.__bases__)
            own = {name: value for name, value in vars(suite).items() if name in ("seeds", "pytestmark")}
            made[name] = type(name, bases, {**own, "__doc__": suite.__doc__, "__module__": __name__})
    return made


globals().update(_suites())
