"""The registry of keepers leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.registry import CassandraRegistry
from tickwise.testing.clock import VirtualClock


class SilentLink:
    """A link to a cluster that is silent."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, _name: str, *_values: Any) -> Any:
        """No answer, until the caller goes away."""
        self.asked += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.asked -= 1


async def test_a_look_under_way_ends_with_the_registry() -> None:
    """Those who waited for it are told; the link below is closed next, and must not be asked any more."""
    link = SilentLink()
    registry = CassandraRegistry(cast(CassandraLink, link), [0])
    waiting = asyncio.create_task(registry.owners())
    await VirtualClock().settle()
    assert 1 == link.asked
    await registry.close()
    assert 0 == link.asked
    with pytest.raises(asyncio.CancelledError):
        await waiting
