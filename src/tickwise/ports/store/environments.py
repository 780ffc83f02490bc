"""Environments that jobs declare: executors build them before the first run of a job is due.

    job or task stored ──► declare ──► one row for each declaration, queue and labels, however many jobs have it
    executor ──► wanted(its queues, labels, namespaces) ──► builds ──► report(failure, or None)
    explain ──► fault(namespace, digest)

Invariant: nothing depends on a row. One that is lost costs a build at the first run of its job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure

MAX_DECLARED_OF_NAMESPACE: Final = 200
"""Rows that are kept of one namespace: those that were declared last. As many as an executor keeps environments."""
MAX_LOOKED_AT: Final = 1_000
"""Rows of one queue that a look reads: those that were declared last."""
DECLARED_SECONDS: Final = 40 * 86_400.0
"""A row is kept for so long after its declaration was stored last; one whose job has a time to come, until then."""
MAX_FAULT_CHARACTERS: Final = 2_000


class DeclaredEnvironment(NamedTuple):
    """An environment, and where the runs that need it go."""

    demand: EnvironmentDemand
    queue: str
    requires: tuple[str, ...]
    """The labels of people that an executor must have, sorted: without those of kinds and functions."""
    job_id: UUID | None
    """The job that declares it; None: a stored task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedQuery:
    """The environments that one executor may have to run scripts in."""

    queues: Sequence[str]
    labels: Sequence[str]
    namespaces: Sequence[str] | None
    """None: all of them."""
    limit: int


class WantedEnvironment(NamedTuple):
    """An environment that scripts will run in."""

    demand: EnvironmentDemand
    failed: bool
    """A failed build of it is on record."""


class EnvironmentFault(NamedTuple):
    """The last failed build of an environment."""

    reason: str
    """One of `ENVIRONMENT_REASONS`."""
    detail: str
    failed_at: float
    """Seconds since the epoch, by the store's clock."""
    executor: str
    """The name of the executor that tried."""


class EnvironmentStore(Protocol):
    """Environments that jobs declare. They go with their namespace."""

    async def declare(self, environments: Sequence[DeclaredEnvironment]) -> None:
        """Note that these are declared now. Those of a namespace that is being removed are passed over. Of a namespace
        `MAX_DECLARED_OF_NAMESPACE` are kept."""
        ...

    async def wanted(self, query: WantedQuery) -> Sequence[WantedEnvironment]:
        """The environments for runs that this executor may claim, each once, at most `limit`: in turn one of each
        namespace, those first whose job is due first, then those that were declared last. Looks at `MAX_LOOKED_AT` of
        each queue."""
        ...

    async def report(self, demand: EnvironmentDemand, failure: EnvironmentFailure | None, executor: str) -> None:
        """Put on record that a build failed; None: it is there, and a failure that is on record goes."""
        ...

    async def fault(self, demand: EnvironmentDemand) -> EnvironmentFault | None:
        """The failed build on record; None: there is none, or nothing declares it."""
        ...

    async def forget(self) -> int:
        """Drop what was not declared for `DECLARED_SECONDS` and has no job with a time to come; how many."""
        ...
