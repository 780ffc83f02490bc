"""The port that the world sees."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from tickwise.domain.errors import Misconfigured
from tickwise.wiring.serving import address_of, listen, serving


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
