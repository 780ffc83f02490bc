"""The roles of a process say that they are alive, and the API counts its like."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

from tickwise import __version__
from tickwise.domain.errors import Unavailable
from tickwise.roles.shared.membership import MembershipWriter, RoleFacts
from tickwise.roles.shared.service import Service
from tickwise.wiring.runtime import Runtime


@contextlib.asynccontextmanager
async def membership(
    runtime: Runtime, roles: Sequence[Service], health_url: str | None, *, api: Sequence[str] | None = None
) -> AsyncIterator[None]:
    """While the block lasts. `api`: the parts of the API that this process serves, if it does."""
    name, since = f"{socket.gethostname()}:{os.getpid()}", runtime.clock.now()
    ahead: float | None = None
    with contextlib.suppress(Unavailable):
        sent = runtime.clock.now()
        store_now = await runtime.store.now()
        ahead = round((sent + runtime.clock.now()) / 2 - store_now, 3)

    def facts(role: str, serves: Sequence[str] = (), **more: Any) -> RoleFacts:
        return RoleFacts(
            role=role,
            name=name,
            version=__version__,
            since=since,
            health_url=health_url,
            serves=[*serves],
            clock_ahead_seconds=ahead,
            **more,
        )

    def speak() -> list[RoleFacts]:
        parts = {"recorder": runtime.settings.recorder_serve}
        # A recorder may be several services, each for its part.
        said = {role.name: facts(role.name, parts.get(role.name, ()), **told(role)) for role in roles}
        return [*([] if api is None else [facts("api", api)]), *said.values()]

    def told(role: Service) -> dict[str, Any]:
        if role.name != "executor" or runtime.spool is None:
            return {**role.facts()}
        spool = runtime.spool.state
        return {**role.facts(), "output_waiting_bytes": spool.waiting_bytes, "output_failure": spool.detail}

    def heard(found: Sequence[RoleFacts]) -> None:
        runtime.coordination.api_processes.count = max(1, sum(each.role == "api" for each in found))

    call = MembershipWriter(
        runtime.coordination.shared_state,
        runtime.clock,
        speak,
        heard if runtime.coordination.limits is not None else None,
    )
    await call.start()
    try:
        yield
    finally:
        await call.stop()
