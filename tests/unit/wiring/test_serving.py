"""The port that the world sees."""

from __future__ import annotations

import resource
from contextlib import closing
from typing import Any

import pytest

from tickwise.api.connections import ConnectionLimits
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.wiring.listening import address_of, listen
from tickwise.wiring.serving import limits_of, serving


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An app that is never asked."""


async def test_a_port_on_which_somebody_else_listens_first_is_named() -> None:
    """Both were bound to it when nobody listened: it is refused like any port in use, and is no defect of ours."""
    with closing(listen("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with closing(listen("127.0.0.1", port)) as ours:
            place = address_of(ours)
            other.listen()
            with pytest.raises(Misconfigured, match=f"nothing can be served at {place}: .*--port"):
                async with serving(nothing, [ours]):
                    pass


@pytest.mark.parametrize(("files", "expected"), [(1_048_576, 2_048), (1_024, 768), (100, 64)])
def test_connections_leave_files_for_everything_else(
    monkeypatch: pytest.MonkeyPatch, files: int, expected: int
) -> None:
    """A table of files that clients have filled would stop the store's connections and the tasks."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert expected == limits_of(Settings(connections_limit=2_048)).connections


def test_the_limits_of_connections_are_the_settings() -> None:
    """Each of them."""
    settings = Settings(
        connections_limit=20, header_limit_bytes=5_000, uri_limit_bytes=2_000, header_seconds=3.0,
        keep_alive_seconds=7.0, body_bytes_per_second_least=9.0,
    )  # fmt: skip
    expected = ConnectionLimits(
        connections=20, header_bytes=5_000, uri_bytes=2_000, header_seconds=3.0,
        keep_alive_seconds=7.0, body_bytes_per_second=9.0,
    )  # fmt: skip
    assert expected == limits_of(settings)
