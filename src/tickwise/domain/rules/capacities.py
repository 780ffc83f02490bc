"""Counted capacities of an executor: how much of each there is, how much a run holds, and the labels that say so.

    resources {gpu: 3}  ──► resource:gpu · resource:gpu:2      a lane needs them
    limits.memory_bytes ──► memory:reserved · memory:2GiB

A number in a label is the greatest power of two that is not above the amount. An executor offers each power up to what
it has as a whole, so a run comes only to an executor that has at least half of what it needs; whether the whole amount
is there, and free, is checked where the run arrives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tickwise.domain.errors import Invalid

MEMORY: Final = "memory_bytes"
"""The name of an executor's memory among its capacities. No resource has this name: it is a limit of a job."""
RESOURCE_PREFIX: Final = "resource:"
MEMORY_PREFIX: Final = "memory:"
MEMORY_LABEL: Final = "memory:reserved"
RESOURCES_MAX: Final = 16
AMOUNT_MAX: Final = 1_000_000
_GIB: Final = 1 << 30
_UNCOUNTED_GIB: Final = 1 << 20
"""An executor that does not count its memory offers each label up to 1 PiB."""
_RESOURCE: Final = re.compile(r"[a-z][a-z0-9_.-]{0,62}", re.ASCII)
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.ASCII | re.IGNORECASE)

Demand = Mapping[str, int]
"""The amounts that a run holds while it runs, by the name of the capacity; memory in bytes."""


class Capacity(NamedTuple):
    """One capacity of an executor."""

    whole: int
    taken: int = 0

    @property
    def free(self) -> int:
        """The rest; 0 if more is taken than there is."""
        return max(0, self.whole - self.taken)


def demand_of(resources: Mapping[str, int], memory_bytes: int | None) -> Demand | None:
    """The demand of a run of a job with these fields; None: nothing that is counted."""
    if not resources and memory_bytes is None:
        return None
    return dict(resources) if memory_bytes is None else {**resources, MEMORY: memory_bytes}


def needed_of_resources(resources: Mapping[str, int]) -> list[str]:
    """The labels that an executor must offer for these amounts."""
    found = [f"{RESOURCE_PREFIX}{name}" for name in resources]
    found += [f"{RESOURCE_PREFIX}{name}:{_power(amount)}" for name, amount in resources.items() if amount > 1]
    return found


def needed_of_memory(memory_bytes: int | None) -> list[str]:
    """The labels that an executor must offer to reserve so much memory."""
    if memory_bytes is None:
        return []
    whole = memory_bytes // _GIB
    return [MEMORY_LABEL, f"{MEMORY_PREFIX}{_power(whole)}GiB"] if whole else [MEMORY_LABEL]


def offered_of(name: str, whole: int | None) -> tuple[str, ...]:
    """The labels that an executor with so much of one capacity offers. None: it does not count it (memory alone)."""
    if name == MEMORY:
        most = _UNCOUNTED_GIB if whole is None else whole // _GIB
        return (MEMORY_LABEL, *(f"{MEMORY_PREFIX}{power}GiB" for power in _powers(1, most)))
    base = f"{RESOURCE_PREFIX}{name}"
    return (base, *(f"{base}:{power}" for power in _powers(2, whole or 0)))


def lacking(demand: Demand, capacities: Mapping[str, Capacity], *, now: bool) -> dict[str, int]:
    """The parts of a demand that an executor has too little of, as a whole or free `now`; by name, what is needed. An
    executor that says nothing of its memory has enough."""
    found = {}
    for name, amount in demand.items():
        capacity = capacities.get(name)
        if capacity is None:
            if name != MEMORY:
                found[name] = amount
        elif amount > (capacity.free if now else capacity.whole):
            found[name] = amount
    return found


def check_resources(resources: Mapping[str, int]) -> None:
    """Raises `Invalid` for names and amounts that cannot be."""
    if len(resources) > RESOURCES_MAX:
        raise Invalid(f"there are at most {RESOURCES_MAX} resources")
    for name, amount in resources.items():
        if name in ("memory", MEMORY):
            raise Invalid(f"{name} is no resource of its own; a job says it by limits.memory_bytes, and reserves it")
        if not _RESOURCE.fullmatch(name):
            raise Invalid(
                f"{name[:80]!r} is no name of a resource; write small letters, digits, _ . - after a first letter: gpu"
            )
        if not 0 < amount <= AMOUNT_MAX:
            raise Invalid(f"{name} is a whole number from 1 to {AMOUNT_MAX}")


def read_resources(texts: Iterable[str]) -> dict[str, int]:
    """`gpu=2` and `license` (one) as amounts by name. Raises `Invalid`."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, amount = (part.strip() for part in text.partition("="))
        if (equals and not amount.isdecimal()) or len(amount) > len(str(AMOUNT_MAX)):
            raise Invalid(f"{text[:80]!r}: write NAME=N, such as gpu=2; N is a whole number from 1 to {AMOUNT_MAX}")
        if name in found:
            raise Invalid(f"{name!r} stands there twice; name each resource once")
        found[name] = int(amount or 1)
    check_resources(found)
    return found


def read_size(text: str) -> int:
    """`8GB`, `512MiB` or `1073741824` in bytes; KB and KiB are both 1024 bytes. Raises `Invalid`."""
    match = _SIZE.fullmatch(text.strip())
    size = 0 if match is None else int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))
    if not 0 < size < 1 << 60:
        raise Invalid(f"{text[:80]!r} is no size of memory; write one such as 8GB or 512MB")
    return size


def amount_in_words(name: str, amount: int) -> str:
    """An amount as people read it: `2 of 'gpu'`, `2.0 GB of memory`."""
    return f"{size_in_words(amount)} of memory" if name == MEMORY else f"{amount} of the resource {name!r}"


def size_in_words(size: int) -> str:
    """Bytes as people read them: `512 MB`, `2 GB`, `1.5 GB`."""
    for unit, count in (("GB", _GIB), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= count:
            return f"{size / count:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"


def _power(amount: int) -> int:
    return 1 << (amount.bit_length() - 1)


def _powers(first: int, most: int) -> list[int]:
    found = []
    while first <= most:
        found.append(first)
        first *= 2
    return found
