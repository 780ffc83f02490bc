"""Environments that uv builds keep the promises of the port, with real builds of packages that the tests make."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.environments import opened
from tests.support.packages import add_wheel
from tickwise.ports.environments import EnvironmentDemand
from tickwise.testing.contracts.environments import EnvironmentsContract, EnvironmentStage


class TestUvEnvironments(EnvironmentsContract):
    @pytest_asyncio.fixture
    async def stage(self, tmp_path: Path) -> AsyncIterator[EnvironmentStage]:
        links = tmp_path / "links"
        links.mkdir()
        add_wheel(links, "tickle", "WORD = 'hello'\n")
        async with opened(tmp_path, find_links=str(links)) as first, opened(tmp_path, find_links=str(links)) as second:
            yield EnvironmentStage(
                environments=first,
                other=second,
                demand=EnvironmentDemand("default", "tickle"),
                module="tickle",
                impossible=EnvironmentDemand("default", "tickle>=2"),
            )
