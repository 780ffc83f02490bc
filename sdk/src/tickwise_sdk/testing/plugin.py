"""The pytest plugin of the SDK: pytest finds it where the SDK is installed. It loads nothing until it is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tickwise_sdk.testing.memory import MemoryServer


@pytest.fixture
def tickwise_server() -> Iterator[MemoryServer]:
    """A server in memory for one test: the client of every `submit` that names none."""
    from tickwise_sdk.testing.memory import MemoryServer

    with MemoryServer() as server:
        yield server
