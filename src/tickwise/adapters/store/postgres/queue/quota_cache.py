"""The quotas of namespaces, as this process knows them: read anew every few seconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Final, NamedTuple

import asyncpg

from tickwise.adapters.store.postgres.connection.link import Links
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.quotas import Quotas
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.clock import Clock
from tickwise.ports.identity.namespaces import QUOTAS_FRESH_SECONDS

NONE: Final[Mapping[str, Quotas]] = {}


class WalledNamespaces(NamedTuple):
    """The namespaces that demand an isolation of their tasks."""

    sandboxed: Sequence[str]
    """At least a sandbox."""
    contained: Sequence[str]
    """Those among them that demand a container."""


NO_WALLS: Final = WalledNamespaces((), ())


class QuotaCache:
    """The quotas of namespaces that have any, kept for `QUOTAS_FRESH_SECONDS`."""

    def __init__(self, links: Links, clock: Clock) -> None:
        self._links = links
        self._monotonic = clock.monotonic
        self._quotas: Mapping[str, Quotas] = NONE
        self._read_at = float("-inf")
        self._of_runs: Mapping[str, int] = {}
        self._runs_read_at = float("-inf")
        self._walled = NO_WALLS

    async def walled(self) -> WalledNamespaces:
        """The namespaces that demand an isolation of their tasks. Raises `StoreUnavailable`."""
        await self.of_runs()
        return self._walled

    async def of_runs(self) -> Mapping[str, int]:
        """The quota of runs at once of each namespace that has one. Raises `StoreUnavailable`.

        Read by a statement of its own, because an executor has no right to see the other quotas.
        """
        begun = self._monotonic()
        if begun > self._runs_read_at + QUOTAS_FRESH_SECONDS:
            async with self._links.pooled(writes=False) as connection:
                self._of_runs = dict(await connection.fetch(statement("namespaces_runs_limited")))
                walled = await connection.fetch(statement("namespaces_sandboxed"))
                self._walled = WalledNamespaces(
                    tuple(name for name, _ in walled),
                    tuple(name for name, least in walled if least == Isolation.CONTAINER),
                )
            self._runs_read_at = begun
        return self._of_runs

    async def of(self, namespaces: Iterable[str], *, by: asyncpg.Connection | None = None) -> Mapping[str, Quotas]:
        """The quotas of those that have any. `by`: a connection that the caller has, so that it waits for no other.
        Raises `StoreUnavailable`."""
        if self._monotonic() > self._read_at + QUOTAS_FRESH_SECONDS:
            await self._load(by)
        known = self._quotas
        return {name: known[name] for name in namespaces if name in known} if known else NONE

    def forget(self) -> None:
        """Ask the store anew."""
        self._read_at = self._runs_read_at = float("-inf")

    async def _load(self, by: asyncpg.Connection | None) -> None:
        begun = self._monotonic()
        async with self._links.pooled(writes=False) if by is None else nullcontext(by) as connection:
            rows = await connection.fetch(statement("namespaces_limited"))
        self._quotas = {name: Quotas.of(json.loads(said)) for name, said in rows}
        self._read_at = begun
