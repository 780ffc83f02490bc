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
from tickwise.domain.rules.capacities import Demand, check_resources, demand_of, needed_of_memory
from tickwise.domain.rules.confinement import (
    CONTAINER_KIND,
    DESTINATIONS_MAX,
    ISOLATED_KINDS,
    PLAIN,
    Confinement,
    Isolation,
    Network,
    check_user,
    is_less,
    needed_labels,
    read_destination,
)
from tickwise.roles.shared.served_queues import Serving

CONFINED_KINDS: Final = ISOLATED_KINDS | {CONTAINER_KIND}
CONTAINED: Final = Confinement(Isolation.CONTAINER)
"""Of a task of the kind container that says nothing of it."""
WHEN_UNKNOWN: Final = Isolation.SANDBOX
"""The isolation of a new job while no active executor serves its queue."""
_FIELDS: Final = ("isolation", "allow_network", "run_as", "resources", "container_image")
DISK_LIMITS: Final = ("disk_bytes", "files")
"""The limits that no container engine enforces."""
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
    if kind not in CONFINED_KINDS and _said(body) == _NOTHING:
        return _confined(PLAIN, body.limits, {}) if body.limits else NOTHING
    found = _merged(body, PLAIN if kind != CONTAINER_KIND else CONTAINED, kind)
    warnings: tuple[str, ...] = ()
    if kind in ISOLATED_KINDS and body.isolation in (UNSET, None):
        if found.container_image is not None:
            isolation = Isolation.CONTAINER
        elif floor is not Isolation.PROCESS:
            isolation = floor
        else:
            isolation, warnings = _usual(found, serving, queue, namespace)
        found = found._replace(isolation=isolation)
    _check(found, kind, body.limits or None)
    check_floor(found, kind, floor)
    return _confined(found, body.limits or None, _fields(found), warnings)


def reconfine(body: JobBody, kind: str, old: Definition, floor: Isolation = Isolation.PROCESS) -> Confined:
    """Of a job that is changed: what is not sent stays, as far as its kind of task can have it. `floor` as for a new
    job. Raises `Invalid`."""
    before = confinement_of(old)
    limits = old.limits if body.limits is UNSET else body.limits
    if _said(body) == _NOTHING and (before == PLAIN or kind in CONFINED_KINDS) and _kept(before, kind) == before:
        _check(before, kind, limits or None)
        check_floor(before, kind, floor)
        return _confined(before, limits or None, {})
    found = _merged(body, _kept(before, kind), kind)
    _check(found, kind, limits or None)
    check_floor(found, kind, floor)
    return _confined(found, limits or None, {**_DEFAULTS, **_fields(found)})


def below_floor(floor: Isolation) -> str:
    """The refusal of a task below the least isolation of its namespace."""
    return (
        f"the namespace demands isolation {floor} of python and shell tasks (min_isolation), and this has less; send "
        f"isolation {floor}"
    )


def below_floor_waits(floor: Isolation) -> str:
    """The reason for which runs of such a job wait."""
    return (
        f"its namespace demands isolation {floor} of python and shell tasks (min_isolation), and it has less: no "
        f"executor starts its runs, and they wait; change it to isolation {floor}"
    )


def check_floor(found: Confinement, kind: str, floor: Isolation) -> None:
    """Raises `Invalid` for a task below the least isolation of its namespace."""
    if kind in ISOLATED_KINDS and is_less(found.isolation, floor):
        raise Invalid(below_floor(floor), pointer="/isolation")


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
    if found != PLAIN or kind == CONTAINER_KIND:
        _check(found, kind, definition.limits)
    return _labels(found, definition.limits)


def confinement_of(definition: Definition) -> Confinement:
    """The surroundings of a stored job's task."""
    return Confinement(
        definition.isolation,
        definition.allow_network,
        definition.run_as,
        definition.resources,
        definition.container_image,
    )


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


def _merged(body: JobBody, before: Confinement, kind: str) -> Confinement:
    """`before` with what was sent; `null` means the default."""
    if body.isolation is not UNSET:
        usual = Isolation.CONTAINER if kind == CONTAINER_KIND else Isolation.PROCESS
        before = before._replace(isolation=body.isolation or usual)
    if body.allow_network is not UNSET:
        said = body.allow_network
        before = before._replace(allow_network=tuple(said) if isinstance(said, list) else bool(said))
    if body.run_as is not UNSET:
        before = before._replace(run_as=body.run_as)
    if body.resources is not UNSET:
        before = before._replace(resources=dict(body.resources or {}))
    if body.container_image is not UNSET:
        before = before._replace(container_image=body.container_image)
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


def _kept(before: Confinement, kind: str) -> Confinement:
    """The part of a confinement that a job keeps when its task becomes one of this kind."""
    was_of_kind = before.isolation is Isolation.CONTAINER and before.container_image is None
    if kind == CONTAINER_KIND:
        if was_of_kind:
            return before
        network = before.allow_network if before.isolation is Isolation.CONTAINER else False
        return CONTAINED._replace(allow_network=network, resources=before.resources)
    if kind not in ISOLATED_KINDS:
        return Confinement(resources=before.resources)
    if was_of_kind:
        return Confinement(Isolation.SANDBOX, resources=before.resources)
    return before


def _check(found: Confinement, kind: str, limits: Limits | None = None) -> None:
    _check_container(found, kind, limits)
    if kind not in CONFINED_KINDS:
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


def _check_container(found: Confinement, kind: str, limits: Limits | None) -> None:
    """The rules of containers. Raises `Invalid`."""
    is_contained = found.isolation is Isolation.CONTAINER
    if kind == CONTAINER_KIND and not is_contained:
        raise Invalid("a task of the kind container is in a container; leave isolation out", pointer="/isolation")
    if found.container_image is not None and (kind not in ISOLATED_KINDS or not is_contained):
        where = "has its image in its task" if kind == CONTAINER_KIND else "needs isolation container for an image"
        raise Invalid(f"a {kind} task {where}", pointer="/container_image")
    if not is_contained or kind not in CONFINED_KINDS:
        return
    if kind in ISOLATED_KINDS and found.container_image is None:
        raise Invalid("isolation container needs an image: container_image", pointer="/container_image")
    if found.run_as is not None:
        raise Invalid(
            "run_as names a user of the executor's machine; the user of a container is that of its image",
            pointer="/run_as",
        )
    for name in DISK_LIMITS if limits is not None else ():
        if getattr(limits, name) is not None:
            raise Invalid(
                f"a container engine does not enforce limits.{name}; leave it out, or use isolation sandbox",
                pointer=f"/limits/{name}",
            )


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
    if isolation is Isolation.CONTAINER:
        raise Invalid(
            "a container has the engine's network or none; a list of destinations needs isolation sandbox",
            pointer="/allow_network",
        )
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
