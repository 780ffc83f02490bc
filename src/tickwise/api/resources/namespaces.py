"""`/namespaces`: the tenants of an installation."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, cursor_text, page_links
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.wire import API, Instant, time_of
from tickwise.control.namespaces.service import NamespaceBody, NamespaceChangeBody, NamespaceService, QuotasBody
from tickwise.domain.quotas import QUOTA_NAMES
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.identity.namespaces import NamespaceRow, NamespaceState

_body: Final = msgspec.json.Decoder(NamespaceBody)
_change: Final = msgspec.json.Decoder(NamespaceChangeBody)
_quotas: Final = msgspec.json.Decoder(QuotasBody)


class NamespacesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The page of the list."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class NamespaceLeftView(msgspec.Struct, kw_only=True):
    """The rest of a namespace that is being removed, each number up to 10,000."""

    jobs: int
    unfinished_runs: int
    """Runs that have yet to stop."""
    ended_runs: int
    """Runs on record."""


class NamespaceView(msgspec.Struct, kw_only=True):
    """A namespace."""

    name: str
    display_name: str
    state: NamespaceState
    """`closing`: it takes nothing new, and what is there goes on. `removing`: it is being removed."""
    created_at: Instant
    created_by: str | None
    """Null: somebody whom the caller does not see."""
    version: int
    left: NamespaceLeftView | None = None
    """While it is being removed, in the answer about it alone: what is left of it."""


async def _view_with_left(call: Call, row: NamespaceRow) -> NamespaceView:
    left = await call.control.namespaces.left(call.principal, row)
    if left is None:
        return _view(row)
    view = NamespaceLeftView(jobs=left.jobs, unfinished_runs=left.unfinished_runs, ended_runs=left.ended_runs)
    return _view(row, view)


def _view(row: NamespaceRow, left: NamespaceLeftView | None = None) -> NamespaceView:
    return NamespaceView(
        name=row.name,
        display_name=row.display_name,
        state=row.state,
        created_at=time_of(row.created_at),
        created_by=row.created_by or None,
        version=row.version,
        left=left,
    )


async def namespace_add(call: Call) -> Reply:
    """Add one."""
    body = decode(_body, call.body, field_names(NamespaceBody))
    return answer(201, _view(await call.control.namespaces.add(call.principal, body)))


async def namespaces_list(call: Call) -> Reply:
    """A page of them, by name."""
    query: NamespacesQuery = call.query
    rows = await call.control.namespaces.page(
        call.principal, None if query.cursor is UNSET else cursor_text(query.cursor), query.limit + 1
    )
    page = rows[: query.limit]
    last = page[-1].name if len(rows) > query.limit else None
    return answer(200, [_view(row) for row in page], headers=page_links(call, last))


async def namespace_get(call: Call) -> Reply:
    """One."""
    row = await call.control.namespaces.get(call.principal, call.path_values["namespace"])
    return answer(200, await _view_with_left(call, row))


async def namespace_change(call: Call) -> Reply:
    """Change one."""
    body = decode(_change, call.body, field_names(NamespaceChangeBody))
    row = await call.control.namespaces.change(call.principal, call.path_values["namespace"], body)
    return answer(200, _view(row))


async def namespace_remove(call: Call) -> Reply:
    """Begin to remove one."""
    row = await call.control.namespaces.remove(call.principal, call.path_values["namespace"])
    return answer(202, await _view_with_left(call, row))


class QuotasView(msgspec.Struct, kw_only=True):
    """The quotas of a namespace; null: none."""

    jobs: int | None
    runs_per_day: int | None
    bytes: int | None
    lanes: int | None
    calendars: int | None
    windows: int | None
    concurrent_runs: int | None
    requests_per_second: float | None
    min_isolation: Isolation | None
    """The least isolation of python and shell tasks; null: none is demanded."""
    version: int
    """Of the namespace."""


class UsageView(msgspec.Struct, kw_only=True):
    """The use of a namespace, beside its quotas."""

    namespace: str
    jobs: int
    runs_today: int | None
    """Since midnight UTC; null: nobody counts them, because there is no quota of runs, or none was asked for."""
    bytes: int
    lanes: int
    calendars: int
    windows: int
    concurrent_runs: int | None
    """Runs that go on under the quota of them; null: there is no such quota."""
    is_estimate: bool
    """True if `jobs` and `bytes` are grown from a sample, because the table of jobs is large."""
    quotas: QuotasView


def _quotas_view(row: NamespaceRow) -> QuotasView:
    said = {name: getattr(row.quotas, name) for name in QUOTA_NAMES}
    least = row.quotas.min_isolation
    return QuotasView(**{**said, "min_isolation": None if least is None else Isolation(least)}, version=row.version)


async def quotas_get(call: Call) -> Reply:
    """The quotas of one."""
    row = await call.control.namespaces.quotas(call.principal, call.path_values["namespace"])
    return answer(200, _quotas_view(row))


async def quotas_set(call: Call) -> Reply:
    """Replace the quotas of one."""
    body = decode(_quotas, call.body, field_names(QuotasBody))
    row = await call.control.namespaces.set_quotas(call.principal, call.path_values["namespace"], body)
    return answer(200, _quotas_view(row))


async def usage_get(call: Call) -> Reply:
    """The use of one."""
    row, use = await call.control.namespaces.usage(call.principal, call.path_values["namespace"])
    return answer(
        200,
        UsageView(
            namespace=row.name,
            jobs=use.jobs,
            runs_today=use.runs_today,
            bytes=use.bytes,
            lanes=use.lanes,
            calendars=use.calendars,
            windows=use.windows,
            concurrent_runs=use.concurrent_runs,
            is_estimate=use.is_estimate,
            quotas=_quotas_view(row),
        ),
    )


NAMESPACES: Final = (
    Endpoint(
        method="POST", path=f"{API}/namespaces", control=NamespaceService.add, name="createNamespace", tag="namespaces",
        summary="Add a namespace: a tenant, with jobs, keys and members of its own.",
        description="For administrators of the installation. The same body again is answered with the namespace "
        "that is there.",
        handler=namespace_add, body=NamespaceBody, answers=(NamespaceView,), status=201, refuses=(409,),
    ),
    Endpoint(
        method="GET", path=f"{API}/namespaces", control=NamespaceService.page, name="listNamespaces", tag="namespaces",
        summary="Namespaces by name: all for an administrator of the installation, else that of the request.",
        handler=namespaces_list, answers=(list[NamespaceView],), query=NamespacesQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/namespaces/{{namespace}}", control=NamespaceService.get, name="getNamespace",
        tag="namespaces", summary="One namespace.", handler=namespace_get, answers=(NamespaceView,), refuses=(404,),
    ),
    Endpoint(
        method="PATCH", path=f"{API}/namespaces/{{namespace}}", control=NamespaceService.change,
        name="changeNamespace", tag="namespaces",
        summary="Change the display name or the state of a namespace.",
        description="The state is for administrators of the installation. After the answer that it is `closing`, a "
        "namespace takes nothing new: jobs, runs on demand, tasks, calendars, windows, keys and members are refused "
        "with 409, `namespace_closing`. Schedules and sequences that are there go on, and it can be opened again.",
        handler=namespace_change, body=NamespaceChangeBody, answers=(NamespaceView,), refuses=(404, 409),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/namespaces/{{namespace}}", control=NamespaceService.remove,
        name="removeNamespace", tag="namespaces",
        summary="Remove a namespace that is closing, with all that it holds. This cannot be undone.",
        description="Keys, members and roles of the namespace lose access at once. Schedulers then cancel its jobs, "
        "wait for the runs to stop, and delete everything: jobs, history, logs, letters, tasks, calendars, windows, "
        "holds, operations. `GET` shows the state `removing` and what is left, and answers 404 at the end; from then "
        "on the name is free.",
        handler=namespace_remove, answers=(NamespaceView,), status=202, refuses=(404, 409),
    ),
    Endpoint(
        method="GET", path=f"{API}/namespaces/{{namespace}}/quotas", control=NamespaceService.quotas,
        name="getQuotas", tag="namespaces", summary="The quotas of a namespace.",
        handler=quotas_get, answers=(QuotasView,), refuses=(404,),
    ),
    Endpoint(
        method="PUT", path=f"{API}/namespaces/{{namespace}}/quotas", control=NamespaceService.set_quotas,
        name="setQuotas", tag="namespaces", summary="Replace the quotas of a namespace.",
        description="For administrators of the installation. What is left out has no quota. They are in force within "
        "four seconds; what is there already stays.",
        handler=quotas_set, body=QuotasBody, answers=(QuotasView,), refuses=(404, 412),
    ),
    Endpoint(
        method="GET", path=f"{API}/namespaces/{{namespace}}/usage", control=NamespaceService.usage,
        name="getUsage", tag="namespaces", summary="What a namespace uses of its quotas, counted now.",
        handler=usage_get, answers=(UsageView,), refuses=(404,),
    ),
)  # fmt: skip
