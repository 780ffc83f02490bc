"""`/roles`: the active processes, by their own reports."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.wire import API, Instant, time_or_none
from tickwise.control.cluster import ClusterService
from tickwise.roles.shared.membership import RoleFacts


class RoleView(msgspec.Struct, kw_only=True):
    """One role that spoke within the last seconds."""

    role: str
    name: str
    """The host and the process, as in logs."""
    version: str
    since: Instant | None
    """The time at which it was ready, by the clock of its machine."""
    health_url: Annotated[str, Meta(extra_json_schema={"format": "uri"})] | None
    serves: list[str]
    """The parts that it serves, of an API or a recorder."""
    last_scan_at: Instant | None
    """Of a scheduler: when it last looked for what is due."""


def _view(facts: RoleFacts) -> RoleView:
    return RoleView(
        role=facts.role,
        name=facts.name,
        version=facts.version,
        since=time_or_none(facts.since),
        health_url=facts.health_url,
        serves=facts.serves,
        last_scan_at=time_or_none(facts.last_scan_at),
    )


async def roles_list(call: Call) -> Reply:
    """The active roles."""
    return answer(200, [_view(facts) for facts in await call.control.cluster.roles(call.principal)])


ROLES: Final = (
    Endpoint(
        method="GET", path=f"{API}/roles", control=ClusterService.roles, name="listRoles", tag="executors",
        summary="Processes that are alive, by role, as they said themselves within the last ten seconds.",
        description="For people: a role that cannot reach the signals (Redis, or the database) is missing here, and "
        "may work all the same. Schedulers report when they last looked for due timers.",
        handler=roles_list, answers=(list[RoleView],),
    ),
)  # fmt: skip
