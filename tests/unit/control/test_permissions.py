"""Permission belongs to control: each public method of a service declares what it needs, and checks it itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import tickwise.control
from tests.support.app import World, world
from tickwise.control.access import access_of, permissions_of, requires, requires_none
from tickwise.control.control import Control
from tickwise.domain.errors import Forbidden
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, Permission
from tickwise.ports.store import JobQuery, RunQuery

NO_SERVICE = {
    "name": "the name of the layer",
    "clock": "time",
    "context": "the ports, for the composition root and tests",
    "credentials": "authentication: no principal is known before it",
    "bearers": "authentication by a token",
    "directory": "it makes the principal of a request",
    "denials": "the refusals of the edge, for the audit log",
    "task_kinds": "for the description of the API",
    "start": "the life of the process",
    "drain": "the life of the process",
    "stop": "the life of the process",
    "buffers": "the metrics of the process",
}
"""The public attributes of `Control` that are no service, and why no principal is asked for."""


def services() -> list[type]:
    """All classes of the layer that are called services."""
    found = set()
    for module in pkgutil.walk_packages(tickwise.control.__path__, "tickwise.control."):
        for name, each in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if name.endswith("Service") and each.__module__ == module.name:
                found.add(each)
    return sorted(found, key=lambda each: each.__name__)


def public(service: type) -> Iterator[tuple[str, Any]]:
    """What callers of a service can reach."""
    return ((name, each) for name, each in vars(service).items() if not name.startswith("_"))


def is_declared(method: object) -> bool:
    """Whether it is a method that names permissions, or gives the reason why it needs none."""
    access = access_of(method) if inspect.isfunction(method) else None
    return access is not None and bool(access.permissions or access.reason)


def undeclared(service: type) -> list[str]:
    """The public attributes that are no method with a declaration."""
    return [f"{service.__name__}.{name}" for name, each in public(service) if not is_declared(each)]


def guarded() -> list[Any]:
    """Each method that needs a permission."""
    return [
        pytest.param(service, each, id=f"{service.__name__}.{name}")
        for service in services()
        for name, each in public(service)
        if (access := access_of(each)) is not None and access.permissions
    ]


def called(service: type, method: Callable[..., Any], *scopes: str) -> Any:
    """What a call by a principal with these scopes gives, before anything of it is awaited."""
    who = Principal("ada", "default", frozenset(scopes))
    needed = [
        each
        for each in list(inspect.signature(method).parameters.values())[2:]
        if each.default is inspect.Parameter.empty and each.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    named = {
        each.name: None
        for each in inspect.signature(method).parameters.values()
        if each.default is inspect.Parameter.empty and each.kind is inspect.Parameter.KEYWORD_ONLY
    }
    return method(object.__new__(service), who, *(None for _ in needed), **named)


def test_every_public_method_of_a_service_declares_its_permission() -> None:
    """Or that it needs none, with the reason. A property cannot check who asks, so a service has none."""
    assert len(services()) > 10
    assert [] == [name for service in services() for name in undeclared(service)]


def test_a_method_without_a_declaration_is_found() -> None:
    """The test above would see a method that somebody adds, and one that gives no reason."""

    class NewService:
        async def forgotten(self, who: Principal) -> None:
            """It declares nothing."""

        @requires_none("")
        async def unexplained(self) -> None:
            """It gives no reason."""

        @property
        def shortcut(self) -> int:
            """It cannot check anything."""
            return 1

        @requires(Permission.JOBS_READ)
        async def declared(self, who: Principal) -> None:
            """It is all right."""

    assert ["NewService.forgotten", "NewService.unexplained", "NewService.shortcut"] == undeclared(NewService)
    assert not is_declared(NewService.shortcut)
    for method in (NewService.forgotten, NewService.unexplained):
        with pytest.raises(TypeError, match="declares no permission"):
            permissions_of(method)
    with pytest.raises(ValueError, match="name a permission"):
        requires()


async def test_all_that_callers_reach_of_control_is_a_service() -> None:
    """A part without a check, under a public name, would be a way around all checks."""
    async with world() as here:
        control = here.control
        names = {name for name in (*vars(control), *vars(Control)) if not name.startswith("_")}
        assert set(NO_SERVICE) <= names
        assert set(services()) == {type(getattr(control, name)) for name in names - set(NO_SERVICE)}


@pytest.mark.parametrize(("service", "method"), guarded())
def test_a_principal_without_the_permission_is_refused_before_anything_happens(
    service: type, method: Callable[..., Any]
) -> None:
    """With no permission, and with all others: `Forbidden` at the call, on a service that has not even been made."""
    needed = set(permissions_of(method))
    for scopes in (set[str](), set(Permission) - needed):
        with pytest.raises(Forbidden, match=r"lacks the permission \w+:\w+"):
            called(service, method, *scopes)


@pytest.mark.parametrize(("service", "method"), guarded())
def test_one_of_the_permissions_is_enough(service: type, method: Callable[..., Any]) -> None:
    """And so is the right to everything. What the method then looks up may refuse more, by what it finds."""
    for scope in (*permissions_of(method), EVERYTHING):
        called(service, method, scope).close()


def test_no_service_knows_another() -> None:
    """A service that called another would need the permissions of both. Services share parts, which check nothing."""
    named = {service.__name__ for service in services()}
    for path in sorted(Path(str(tickwise.control.__path__[0])).rglob("*.py")):
        if path.name in {"control.py", "people.py", "assembly.py"}:  # these put services together
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert set() == imported & named, path


async def test_a_search_stays_within_the_namespace_of_its_principal() -> None:
    """The namespace of a query is that of the principal, or the search is refused."""
    ada = Principal("ada", "one", frozenset({EVERYTHING}))
    async with world() as here:
        with pytest.raises(Forbidden):
            await here.control.jobs.search(ada, JobQuery(namespace="two"))
        with pytest.raises(Forbidden):
            await here.control.runs.search(ada, RunQuery(namespace="two"))
        assert [] == list(await here.control.jobs.search(ada, JobQuery(namespace="one")))


async def test_a_refusal_names_the_permission_and_stores_nothing() -> None:
    """Pages, agents and messages get the same refusal as a request to the API."""
    async with world() as here:
        ada = Principal("ada", "default", frozenset({"jobs:read"}))
        made = await _job(here)
        with pytest.raises(
            Forbidden, match="'ada' lacks the permission jobs:write in the namespace default; an administrator"
        ):
            await here.control.requests.cancel(ada, made)
        assert "SCHEDULED" == (await here.control.jobs.get(ada, made)).status


async def _job(here: World) -> UUID:
    answer = await here.client.post("/api/v1/jobs", json={"name": "mine", "every": "1h"})
    return UUID(answer.json()["job_id"])
