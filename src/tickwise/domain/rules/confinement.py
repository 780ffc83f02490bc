"""The confinement of a task while it runs: its isolation, its way to a network, its user, and what is counted for it.

    Confinement ──needed_labels──► labels that an executor must offer: isolation:sandbox, resource:gpu, run_as:anna

An executor offers a label only while it can give what the label says, so no run reaches one that cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from tickwise.domain.errors import Invalid
from tickwise.domain.rules.capacities import MEMORY_PREFIX, RESOURCE_PREFIX, needed_of_resources

ISOLATED_KINDS: Final = frozenset({"python", "shell"})
"""The kinds of tasks that are processes of their own, so that something can surround them."""
CONTAINER_KIND: Final = "container"
"""The kind of tasks that are always in a container."""
SANDBOX_LABEL: Final = "isolation:sandbox"
CONTAINER_LABEL: Final = "isolation:container"
RUN_AS_PREFIX: Final = "run_as:"
OFFERED_PREFIXES: Final = ("isolation:", RESOURCE_PREFIX, RUN_AS_PREFIX, MEMORY_PREFIX)
"""Of the labels that follow from a confinement. An executor's record holds those that it offers."""
DESTINATIONS_MAX: Final = 64
PORT_MAX: Final = 65_535
_HOST: Final = re.compile(r"(?=.{1,253}$)(\*\.)?[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*", re.ASCII)
_USER: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,30}\$?", re.ASCII)


class Isolation(StrEnum):
    """The wall around a task."""

    PROCESS = "process"
    """A process of its own, with its own session and limits. It sees the machine as its user does."""
    SANDBOX = "sandbox"
    """Namespaces of its own: a read-only system, a private /tmp, and no network but what its job allows."""
    CONTAINER = "container"
    """A container of its own, with the files of an image."""


class Destination(NamedTuple):
    """A place in a network that a task may reach."""

    host: str
    """Lower case: a name, `*.NAME` for all names below one, or an address; of IPv6 without brackets."""
    port: int
    """0: each port."""


_AT_LEAST: Final = {
    Isolation.SANDBOX: (SANDBOX_LABEL, CONTAINER_LABEL),
    Isolation.CONTAINER: (CONTAINER_LABEL,),
}
"""The labels of tasks with this isolation or more."""
Network = bool | tuple[str, ...]
"""True: all that the executor reaches; False: nothing; or the destinations, each `HOST:PORT`."""


class Confinement(NamedTuple):
    """The confinement of a job's task."""

    isolation: Isolation = Isolation.PROCESS
    allow_network: Network = False
    """Of a sandbox or a container. A task in a process has the network of its executor."""
    run_as: str | None = None
    """The system user that it runs as; None: the one of its namespace."""
    resources: Mapping[str, int] = MappingProxyType({})
    """Counted capacities of its executor that it holds while it runs, by name."""
    container_image: str | None = None
    """The image of a script in a container."""


PLAIN: Final = Confinement()
"""Of a job that says nothing of it."""


def needed_labels(confinement: Confinement) -> tuple[str, ...]:
    """The labels that an executor must offer, sorted."""
    if confinement == PLAIN:
        return ()
    found = needed_of_resources(confinement.resources)
    if confinement.isolation is Isolation.SANDBOX:
        found.append(SANDBOX_LABEL)
    elif confinement.isolation is Isolation.CONTAINER:
        found.append(CONTAINER_LABEL)
    if confinement.run_as is not None:
        found.append(f"{RUN_AS_PREFIX}{confinement.run_as}")
    return tuple(sorted(found))


def offered_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Those labels of an executor that follow from what it can give, sorted."""
    return tuple(sorted(label for label in labels if label.startswith(OFFERED_PREFIXES)))


def is_plain_lane(requires: Iterable[str]) -> bool:
    """Check whether the labels of a lane are those of a task that is a plain process: no wall is around it."""
    return frozenset(requires).isdisjoint((SANDBOX_LABEL, CONTAINER_LABEL))


def is_below(requires: Iterable[str], floor: Isolation) -> bool:
    """Check whether the labels of a lane are those of tasks that could have this isolation or more, and have less."""
    labels = frozenset(requires)
    has_it = floor is Isolation.PROCESS or not labels.isdisjoint(_AT_LEAST[floor])
    return not has_it and not labels.isdisjoint(f"task:{kind}" for kind in ISOLATED_KINDS)


def is_less(found: Isolation, floor: Isolation) -> bool:
    """Check whether an isolation is less than another one: process, sandbox, container."""
    order = list(Isolation)
    return order.index(found) < order.index(floor)


def own_labels(labels: Iterable[str]) -> list[str]:
    """The labels of an executor that its operator gave it: those with a colon are Tickwise's own."""
    return [label for label in labels if ":" not in label]


def offered_levels(labels: Iterable[str]) -> list[Isolation]:
    """The levels of isolation that an executor with these labels offers."""
    held = frozenset(labels)
    walls = {SANDBOX_LABEL: Isolation.SANDBOX, CONTAINER_LABEL: Isolation.CONTAINER}
    return [Isolation.PROCESS, *(level for label, level in walls.items() if label in held)]


def offered_users(labels: Iterable[str]) -> list[str]:
    """The users that tasks may name on an executor with these labels."""
    return sorted(label.removeprefix(RUN_AS_PREFIX) for label in labels if label.startswith(RUN_AS_PREFIX))


def read_destination(text: str) -> Destination:
    """`HOST:PORT`; the host is a name, `*.NAME`, an IPv4 address or `[IPv6]`, the port a number or `*`. Raises
    `Invalid`."""
    from ipaddress import IPv6Address  # the command line loads this module, and never these

    from tickwise.domain.networks import is_odd_number

    host, colon, port = text.strip().lower().rpartition(":")
    if not colon:
        raise Invalid(f"{text[:80]!r} names no port; write HOST:PORT, such as api.example.com:443")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            IPv6Address(host)
        except ValueError:
            raise Invalid(f"{text[:80]!r}: {host!r} is no address of IPv6") from None
    elif not _HOST.fullmatch(host.removesuffix(".")):
        raise Invalid(f"{text[:80]!r} names no host; write HOST:PORT, such as api.example.com:443 or [2001:db8::1]:443")
    elif is_odd_number(host.removesuffix(".")):
        raise Invalid(f"{text[:80]!r}: programs read {host!r} in different ways; write a name or 10.0.0.5")
    if port == "*":
        return Destination(host.removesuffix("."), 0)
    if not port.isdecimal() or not 0 < int(port[:6]) <= PORT_MAX:
        raise Invalid(f"{text[:80]!r}: a port is a number from 1 to {PORT_MAX}, or * for each")
    return Destination(host.removesuffix("."), int(port))


def check_user(name: str) -> None:
    """Raises `Invalid` for a text that is no name of a system user."""
    if not _USER.fullmatch(name):
        raise Invalid(f"{name[:80]!r} is no name of a system user; write one such as backup")
