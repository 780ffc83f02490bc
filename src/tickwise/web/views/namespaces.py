"""Namespaces: the list, and one with its quotas, its members, and its removal in steps.

active ──close──► closing ──remove, name typed──► removing ──► gone
          ◄─open──┘                                  what is left is shown
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.access import holds_everywhere
from tickwise.control.namespaces.service import NamespaceBody, NamespaceChangeBody, NamespaceService, QuotasBody
from tickwise.domain.errors import Conflict, Forbidden, Invalid, Refused, TickwiseError, VersionConflict
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.permissions import Permission
from tickwise.domain.quotas import Quotas, QuotaUse
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.identity.namespaces import NamespaceState
from tickwise.web import forms
from tickwise.web.page import Handler, WebPage
from tickwise.web.visit import Visit

PAGE_SIZE: Final = 50
MEMBERS: Final = 50
COUNT_MOST: Final = 1_000_000_000_000
TEXT_MAX: Final = 200
VERSION_MOST: Final = 10**15
SEE_OTHER: Final = 303
DONE: Final = {
    "added": "The namespace is there. Give people a role in it, or make it a key.",
    "changed": "The name is changed.",
    "quotas": "The quotas are set. They are in force everywhere in a few seconds.",
    "closed": "The namespace takes nothing new. What is there goes on.",
    "opened": "The namespace is open again.",
    "removing": "The namespace is being removed. This page shows what is left.",
}
QUOTAS: Final = (
    ("jobs", "jobs", "Active jobs that last"),
    ("runs_per_day", "runs_today", "Runs that are asked for in a day of UTC"),
    ("bytes", "bytes", "Bytes of definitions and stored tasks"),
    ("lanes", "lanes", "Combinations of queue, priority and labels"),
    ("calendars", "calendars", "Calendars"),
    ("windows", "windows", "Maintenance windows"),
    ("concurrent_runs", "concurrent_runs", "Runs at once"),
    ("requests_per_second", "", "Requests in a second"),
)
"""A quota, its use (empty: nobody counts it), and what it is."""
ESTIMATED: Final = ("jobs", "bytes")
"""Estimated quotas: grown from a sample where there are very many jobs."""


class QuotaLine(NamedTuple):
    """A quota, and what is used of it."""

    name: str
    title: str
    limit: float | None
    used: int | None
    """None: nobody counts it."""
    is_estimate: bool = False

    @property
    def share(self) -> float | None:
        """The used part, from 0 to 1; None: there is no quota, or no count."""
        if self.limit is None or self.used is None:
            return None
        return min(1.0, self.used / self.limit) if self.limit else 1.0


async def namespaces_page(visit: Visit) -> Response:
    """The namespaces that the visitor sees."""
    return await _list(visit)


async def _list(visit: Visit, typed: Mapping[str, str] | None = None, fault: TickwiseError | None = None) -> Response:
    after = visit.query.get("cursor") or None
    rows = await visit.control.namespaces.page(visit.who, after, PAGE_SIZE + 1)
    shown = rows[:PAGE_SIZE]
    values = {
        "namespaces": shown,
        "administers": _administers(visit),
        "typed": typed or {},
        "fault": fault,
        "next": visit.url("/namespaces", cursor=shown[-1].name) if len(rows) > PAGE_SIZE else None,
        "first": visit.url("/namespaces") if after else None,
    }
    return visit.page("namespaces.html", values, _status(fault))


async def namespace_page(visit: Visit) -> Response:
    """One namespace."""
    return await _one(visit)


async def _one(visit: Visit, fault: Refused | None = None) -> Response:
    name = _name(visit)
    row, use = await visit.control.namespaces.usage(visit.who, name)
    left = await visit.control.namespaces.left(visit.who, row)
    users, members, more = visit.control.users, None, False
    if visit.may(type(users).page):
        after = forms.identifier(visit.query.get("cursor"), "cursor")
        found = await users.page(visit.who, after, MEMBERS + 1, namespace=name)
        members, more = [each.row for each in found[:MEMBERS]], len(found) > MEMBERS
    form = visit.request.url.path.rpartition("/")[2] if fault is not None else ""
    values: dict[str, Any] = {
        "row": row,
        "lines": quota_lines(row.quotas, use),
        "left": left,
        "members": members,
        "next": visit.url(f"/namespaces/{name}", cursor=members[-1].user_id) if more and members else None,
        "administers": _administers(visit),
        "may_rename": visit.may(NamespaceService.change),
        "is_default": name == DEFAULT_NAMESPACE,
        "typed": visit.form if fault is not None else {},
        "fault": fault,
        "fault_form": form,
        "done": DONE.get(visit.query.get("done", "")),
    }
    return visit.page("namespace.html", values, _status(fault))


def quota_lines(quotas: Quotas, use: QuotaUse) -> list[QuotaLine]:
    """The quotas with their use."""
    return [
        QuotaLine(
            name,
            title,
            getattr(quotas, name),
            getattr(use, used) if used else None,
            is_estimate=use.is_estimate and name in ESTIMATED,
        )
        for name, used, title in QUOTAS
    ]


def _administers(visit: Visit) -> bool:
    """The visitor is an administrator of the installation: only they add, close, remove and set quotas."""
    return holds_everywhere(visit.who, Permission.NAMESPACES_ADMIN)


def _name(visit: Visit) -> str:
    return str(visit.request.path_params["name"])


def _status(fault: TickwiseError | None) -> int:
    return 200 if fault is None else 422 if isinstance(fault, Invalid) else 409


# ---------------------------------------------------------------------------------------------------- forms


async def add(visit: Visit) -> Response:
    """A new namespace."""
    display_name = forms.text(visit.form, "display_name", TEXT_MAX)
    try:
        name = forms.text(visit.form, "name", TEXT_MAX)
        if name is None:
            raise Invalid("give it a name", pointer="/name")
        body = NamespaceBody(name=name, display_name=UNSET if display_name is None else display_name)
        row = await visit.control.namespaces.add(visit.who, body)
    except (Invalid, Conflict) as refusal:
        return await _list(visit, visit.form, refusal)
    return RedirectResponse(visit.url(f"/namespaces/{row.name}", done="added"), SEE_OTHER)


async def _rename(visit: Visit, name: str) -> str:
    display_name = forms.text(visit.form, "display_name", TEXT_MAX)
    if display_name is None:
        raise Invalid("give it a name for people", pointer="/display_name")
    body = NamespaceChangeBody(display_name=display_name, expected_version=_version(visit))
    await visit.control.namespaces.change(visit.who, name, body)
    return "changed"


async def _set_quotas(visit: Visit, name: str) -> str:
    limits: dict[str, Any] = {}
    for quota, _, _ in QUOTAS:
        said = visit.form.get(quota, "").strip()
        if quota == "requests_per_second":
            limits[quota] = _rate(said)
        else:
            most = {"lanes": 1_000, "calendars": 1_000, "windows": 200, "concurrent_runs": 1_000_000}
            limits[quota] = forms.whole(said, quota, 0, most.get(quota, COUNT_MOST))
    least = visit.form.get("min_isolation", "")
    if least in (Isolation.SANDBOX, Isolation.CONTAINER):
        limits["min_isolation"] = Isolation(least)
    body = QuotasBody(**limits, expected_version=_version(visit))
    await visit.control.namespaces.set_quotas(visit.who, name, body)
    return "quotas"


def _rate(said: str) -> float | None:
    if not said:
        return None
    try:
        rate = float(said)
    except ValueError:
        rate = 0.0
    if not 0.001 <= rate <= 1_000_000:
        raise Invalid("write a number from 0.001 to 1000000", pointer="/requests_per_second")
    return rate


async def _close(visit: Visit, name: str) -> str:
    await visit.control.namespaces.change(
        visit.who, name, NamespaceChangeBody(state="closing", expected_version=_version(visit))
    )
    return "closed"


async def _open(visit: Visit, name: str) -> str:
    await visit.control.namespaces.change(
        visit.who, name, NamespaceChangeBody(state="active", expected_version=_version(visit))
    )
    return "opened"


async def _remove(visit: Visit, name: str) -> str:
    row = await visit.control.namespaces.quotas(visit.who, name)
    if not _administers(visit):
        raise Forbidden("an administrator of the installation can do this")
    if row.state is not NamespaceState.REMOVING and visit.form.get("confirm", "").strip() != name:
        raise Invalid("type the name of the namespace: all that it holds is deleted", pointer="/confirm")
    await visit.control.namespaces.remove(visit.who, name)
    return "removing"


def _version(visit: Visit) -> int | Any:
    """The version that the visitor saw: a change of another person in between is told."""
    version = forms.whole(visit.form.get("version"), "version", 1, VERSION_MOST)
    return UNSET if version is None else version


def _kept(handler: Callable[[Visit, str], Awaitable[str]]) -> Handler:
    """The handler of a form that keeps what was typed when control refuses it."""

    async def handled(visit: Visit) -> Response:
        name = _name(visit)
        try:
            done = await handler(visit, name)
        except (Invalid, Conflict, VersionConflict) as refusal:
            if not visit.may(NamespaceService.usage):
                raise
            return await _one(visit, refusal)
        return RedirectResponse(visit.url(f"/namespaces/{name}", done=done), SEE_OTHER)

    return handled


def _form(name: str, handler: Callable[[Visit, str], Awaitable[str]], control: Callable[..., object]) -> WebPage:
    path = f"/namespaces/{{name}}/{name}"
    return WebPage(method="POST", path=path, name=f"namespace_{name}", handler=_kept(handler), control=(control,))


NAMESPACES: Final = (
    WebPage(
        method="GET",
        path="/namespaces",
        name="namespaces",
        query=("cursor",),
        handler=namespaces_page,
        control=(NamespaceService.page,),
    ),
    WebPage(
        method="GET",
        path="/namespaces/{name}",
        name="namespace",
        query=("cursor", "done"),
        handler=namespace_page,
        control=(NamespaceService.usage,),
    ),
    WebPage(method="POST", path="/namespaces", name="namespace_add", handler=add, control=(NamespaceService.add,)),
    _form("rename", _rename, NamespaceService.change),
    _form("quotas", _set_quotas, NamespaceService.set_quotas),
    _form("close", _close, NamespaceService.change),
    _form("open", _open, NamespaceService.change),
    _form("remove", _remove, NamespaceService.remove),
)
