"""From the fields of a body to what surrounds its task, and the labels that an executor must offer for it.

    isolation · allow_network · run_as · resources ──► Confinement ──► fields of the definition
                               limits.memory_bytes ──┘           └──► labels of the lane

The isolation of a `python` or `shell` job is decided once, when it is created, and stored: it never changes because
executors come or go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from tickwise.control.bodies import JobBody
from tickwise.documents.definition import Definition, JudgedDefinition, Limits
from tickwise.domain.accounts.run_as import RunAsUsers, refusal
from tickwise.domain.errors import Invalid
from tickwise.domain.model import Lane
from tickwise.domain.rules.capacities import Demand, check_resources, demand_of, needed_of_memory
from tickwise.domain.rules.confinement import (
    DESTINATIONS_MAX,
    ISOLATED_KINDS,
    PLAIN,
    Confinement,
    Isolation,
    Network,
    check_user,
    is_below_sandbox,
    needed_labels,
    read_destination,
)
from tickwise.roles.shared.served_queues import Serving

WHEN_UNKNOWN: Final = Isolation.SANDBOX
"""The isolation of a new job while no active executor serves its queue."""
BELOW_FLOOR: Final = (
    "the namespace demands isolation sandbox of python and shell tasks (min_isolation), and this is a plain process; "
    "send isolation sandbox"
)
BELOW_FLOOR_WAITS: Final = (
    "its namespace demands isolation sandbox of python and shell tasks (min_isolation), and it is a plain process: no "
    "executor starts its runs, and they wait; change it to isolation sandbox"
)
_FIELDS: Final = ("isolation", "allow_network", "run_as", "resources")
_NOTHING: Final = (UNSET,) * len(_FIELDS)
_said: Final = attrgetter(*_FIELDS)


class Confined(NamedTuple):
    """The surroundings of a job's task."""

    fields: dict[str, Any]
    """Of the definition, as far as they are off their defaults or were sent."""
    labels: tuple[str, ...]
    """That an executor must offer."""
    warnings: tuple[str, ...] = ()
    demand: Demand | None = None
    """The counted capacities that each run holds."""


NOTHING: Final = Confined({}, ())
_DEFAULTS: Final[Mapping[str, Any]] = {**PLAIN._asdict(), "resources": {}}


def confine(
    body: JobBody,
    kind: str,
    serving: Serving | None,
    queue: str,
    namespace: str,
    floor: Isolation = Isolation.PROCESS,
) -> Confined:
    """Of a new job. `serving`: the active executors; None: a job that says nothing is a plain process. `floor`: the
    least isolation that its namespace demands. Raises `Invalid`."""
    if kind not in ISOLATED_KINDS and _said(body) == _NOTHING:
        return _confined(PLAIN, body.limits, {}) if body.limits else NOTHING
    found = _merged(body, PLAIN)
    warnings: tuple[str, ...] = ()
    if kind in ISOLATED_KINDS and body.isolation in (UNSET, None):
        isolation, warnings = (floor, ()) if floor is Isolation.SANDBOX else _usual(found, serving, queue, namespace)
        found = found._replace(isolation=isolation)
    _check(found, kind)
    check_floor(found, kind, floor)
    return _confined(found, body.limits or None, _fields(found), warnings)


def reconfine(body: JobBody, kind: str, old: Definition, floor: Isolation = Isolation.PROCESS) -> Confined:
    """Of a job that is changed: what is not sent stays, as far as its kind of task can have it. `floor` as for a new
    job. Raises `Invalid`."""
    before = confinement_of(old)
    limits = old.limits if body.limits is UNSET else body.limits
    if _said(body) == _NOTHING and (before == PLAIN or kind in ISOLATED_KINDS):
        check_floor(before, kind, floor)
        return _confined(before, limits or None, {})
    if kind not in ISOLATED_KINDS:
        before = Confinement(resources=before.resources)
    found = _merged(body, before)
    _check(found, kind)
    check_floor(found, kind, floor)
    return _confined(found, limits or None, {**_DEFAULTS, **_fields(found)})


def check_floor(found: Confinement, kind: str, floor: Isolation) -> None:
    """Raises `Invalid` for a task below the least isolation of its namespace."""
    if floor is Isolation.SANDBOX and kind in ISOLATED_KINDS and found.isolation is not Isolation.SANDBOX:
        raise Invalid(BELOW_FLOOR, pointer="/isolation")


def is_below(lane: Lane, floor: Isolation) -> bool:
    """Check whether runs of this lane are below the least isolation of their namespace: no executor claims them."""
    return floor is Isolation.SANDBOX and is_below_sandbox(lane.requires)


def check_run_as(confined: Confined, namespace: str, allowed: RunAsUsers) -> Confined:
    """This, unless the setting of this process does not allow its user; without users there, executors alone know.
    Raises `Invalid`."""
    name = confined.fields.get("run_as")
    wrong = refusal(allowed, namespace, name) if name is not None and allowed.names else None
    if wrong is not None:
        raise Invalid(wrong, pointer="/run_as")
    return confined


def check_confinement(definition: Definition, kind: str) -> tuple[str, ...]:
    """Check what a definition says as if a body had said it; the labels that it needs. Raises `Invalid`."""
    found = confinement_of(definition)
    if found != PLAIN:
        _check(found, kind)
    return _labels(found, definition.limits)


def confinement_of(definition: Definition) -> Confinement:
    """The surroundings of a stored job's task."""
    return Confinement(definition.isolation, definition.allow_network, definition.run_as, definition.resources)


def _confined(
    found: Confinement, limits: Limits | None, fields: dict[str, Any], warnings: tuple[str, ...] = ()
) -> Confined:
    demand = demand_of(found.resources, None if limits is None else limits.memory_bytes)
    return Confined(fields, _labels(found, limits), warnings, demand)


def _labels(found: Confinement, limits: Limits | None) -> tuple[str, ...]:
    """The labels that an executor must offer; memory that is limited is reserved."""
    memory = None if limits is None else limits.memory_bytes
    labels = needed_labels(found)
    return labels if memory is None else (*labels, *needed_of_memory(memory))


def demand_of_job(definition: Definition | JudgedDefinition) -> Demand | None:
    """The counted capacities that a run of this job holds; None: none."""
    return demand_of(definition.resources, definition.limits.memory_bytes)


def _fields(found: Confinement) -> dict[str, Any]:
    return {name: value for name, value in _values(found).items() if value != _DEFAULTS[name]}


def _values(found: Confinement) -> dict[str, Any]:
    """As definitions have them."""
    return {**found._asdict(), "resources": dict(found.resources)}


def _merged(body: JobBody, before: Confinement) -> Confinement:
    """`before` with what was sent; `null` means the default."""
    if body.isolation is not UNSET:
        before = before._replace(isolation=body.isolation or Isolation.PROCESS)
    if body.allow_network is not UNSET:
        said = body.allow_network
        before = before._replace(allow_network=tuple(said) if isinstance(said, list) else bool(said))
    if body.run_as is not UNSET:
        before = before._replace(run_as=body.run_as)
    if body.resources is not UNSET:
        before = before._replace(resources=dict(body.resources or {}))
    return before


def _usual(
    found: Confinement, serving: Serving | None, queue: str, namespace: str
) -> tuple[Isolation, tuple[str, ...]]:
    """The isolation of a new job that names none."""
    if isinstance(found.allow_network, tuple):
        return Isolation.SANDBOX, ()  # only a sandbox can hold a task to a list
    if serving is None:
        return Isolation.PROCESS, ()
    offered = serving.offers_sandbox(queue, namespace)
    if offered is None:
        return WHEN_UNKNOWN, ()
    if offered:
        return Isolation.SANDBOX, ()
    warning = (
        f"no active executor of the queue {queue!r} offers the isolation sandbox, so it runs as a plain process; "
        "`tickwise doctor` on that machine says why"
    )
    return Isolation.PROCESS, (warning,)


def _check(found: Confinement, kind: str) -> None:
    if kind not in ISOLATED_KINDS:
        if found.isolation is not Isolation.PROCESS:
            raise Invalid(
                f"a task of the kind {kind!r} is no process of its own; isolation belongs to python and shell tasks",
                pointer="/isolation",
            )
        if found.run_as is not None:
            raise Invalid(f"run_as belongs to python and shell tasks, not to {kind!r}", pointer="/run_as")
        if found.allow_network is not False:
            raise Invalid(
                f"allow_network belongs to python and shell tasks in a sandbox, not to {kind!r}",
                pointer="/allow_network",
            )
    _check_network(found.allow_network, found.isolation)
    with _at("/resources"):
        check_resources(found.resources)
    if found.run_as is not None:
        with _at("/run_as"):
            check_user(found.run_as)


@contextmanager
def _at(pointer: str) -> Iterator[None]:
    """Refusals are about this field."""
    try:
        yield
    except Invalid as wrong:
        raise Invalid(wrong.detail, pointer=pointer) from None


def _check_network(network: Network, isolation: Isolation) -> None:
    if not isinstance(network, tuple):
        return
    if isolation is not Isolation.SANDBOX:
        raise Invalid(
            "a task in a plain process has the whole network of its executor; allow_network with destinations needs "
            "isolation sandbox",
            pointer="/allow_network",
        )
    if len(network) > DESTINATIONS_MAX:
        raise Invalid(f"allow_network names at most {DESTINATIONS_MAX} destinations", pointer="/allow_network")
    for place, text in enumerate(network):
        with _at(f"/allow_network/{place}"):
            read_destination(text)
