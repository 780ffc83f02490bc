"""A circuit breaker for each host that the http tasks of a namespace call: one that does not answer is left alone for a
while. Each namespace has its own circuits: its requests to a host neither stop another namespace nor tell it anything.

                 5 failures in a row                    30 s later
    closed ───────────────────────────► open ─────────────────────► half open: one probe, nobody else
      ▲                                  ▲                             │
      └──────── the probe succeeds ──────┼─────────────────────────────┤
                                         └────── the probe fails ──────┘   (cancelled: the next one is the probe)

It is of one process and never written down: what it learns is worth half a minute. A host fails if it does not answer,
in time, or answers that the fault is its own (5xx, unless the task expects that). Any other answer shows that
it is there, also 429, which says by itself when to come again.

Invariants: while it is open nobody is let through; while it is half open, at most one. The memory is bounded: only
targets that failed, and of those the latest.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

FAILURES: Final = 5
"""Failures in a row, of one host, over all jobs of a namespace."""
OPEN_SECONDS: Final = 30.0
PROBE_SECONDS: Final = 5.0
"""The time until the next request while a probe is under way."""
MAX_TARGETS: Final = 1_000

_logger = logging.getLogger(__name__)


class Target(NamedTuple):
    """A host, as the tasks of one namespace call it."""

    namespace: str
    host: str


class Heard(Enum):
    """The knowledge of a request about its host."""

    WELL = "well"
    FAILED = "failed"
    NOTHING = "nothing"
    """It was ended before it could tell."""


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    open_until: float | None = None
    """None: it is closed."""
    probing: object | None = None
    """The request that may find out whether the host is there again."""


class Breakers:
    """Of all targets. Instants are on the caller's monotonic clock, in seconds."""

    def __init__(
        self, *, failures: int = FAILURES, open_seconds: float = OPEN_SECONDS, probe_seconds: float = PROBE_SECONDS
    ) -> None:
        self._failures_most = failures
        self._open_seconds = open_seconds
        self._probe_seconds = probe_seconds
        self._circuits: OrderedDict[Target, _Circuit] = OrderedDict()

    @property
    def known(self) -> int:
        """The number of targets on record."""
        return len(self._circuits)

    def admit(self, target: Target, who: object, now: float) -> float | None:
        """Let `who` call it (None), or say in how many seconds to ask again. Each admitted request must be `heard`."""
        circuit = self._circuits.get(target)
        if circuit is None or circuit.open_until is None:
            return None
        if now < circuit.open_until:
            return circuit.open_until - now
        if circuit.probing is not None and circuit.probing is not who:
            return self._probe_seconds
        circuit.probing = who
        return None

    def heard(self, target: Target, who: object, what: Heard, now: float) -> None:
        """Take over the result of a request to it."""
        circuit = self._circuits.get(target)
        if circuit is None:
            if what is not Heard.FAILED:
                return
            circuit = self._circuits[target] = _Circuit()
        is_probe = circuit.probing is who
        if is_probe:
            circuit.probing = None
        if what is Heard.WELL:
            self._close(target, circuit)
        elif what is Heard.FAILED:
            self._failed(target, circuit, now, is_probe=is_probe)

    def _close(self, target: Target, circuit: _Circuit) -> None:
        if circuit.open_until is not None:
            _logger.info("%s answers the namespace %s again", target.host, target.namespace)
        del self._circuits[target]

    def _failed(self, target: Target, circuit: _Circuit, now: float, *, is_probe: bool) -> None:
        circuit.failures += 1
        self._circuits.move_to_end(target)
        if circuit.open_until is None and circuit.failures >= self._failures_most:
            _logger.warning(
                "%s failed the namespace %s %d times in a row: for %.0f s tasks are given back, then one of them tries",
                *(target.host, target.namespace, circuit.failures, self._open_seconds),
            )
            circuit.open_until = now + self._open_seconds
        elif is_probe:
            circuit.open_until = now + self._open_seconds
        # Else it is a request from before it opened: that is known already.
        while len(self._circuits) > MAX_TARGETS:
            self._circuits.popitem(last=False)
