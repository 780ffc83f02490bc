"""The permissions of callers with open streams, looked up again every `EACH_SECONDS`.

Streams of one credential in one namespace share the question, so a thousand streams of one page's user cost one look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import structlog

from tickwise.control.access import admitted, holds_everywhere
from tickwise.control.live.streams import End, EventStream
from tickwise.domain.errors import Forbidden, NotFound, TickwiseError, Unauthenticated, Unavailable
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock

EACH_SECONDS: Final = 1.0
_ENDS: Final = ((Unauthenticated, End.UNAUTHENTICATED), (Forbidden, End.FORBIDDEN), (NotFound, End.NOT_FOUND))

logger = structlog.get_logger("tickwise.live")


class Credential(NamedTuple):
    """The key or token of a stream, in one namespace."""

    name: tuple[str | bytes, ...]
    """Streams with one name share the look-up."""
    ask: Callable[[], Awaitable[Principal]]
    """The principal as it is now. Raises `Unauthenticated`, `Forbidden`, `NotFound`, `StoreUnavailable`."""


class Permits:
    """Ends streams whose callers may not see them any more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._streams: dict[tuple[str | bytes, ...], tuple[Credential, set[EventStream]]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, stream: EventStream, credential: Credential) -> None:
        """Ask for this stream from now on."""
        self._streams.setdefault(credential.name, (credential, set()))[1].add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="permits of streams")

    def remove(self, stream: EventStream, credential: Credential) -> None:
        """Ask for this stream no longer."""
        found = self._streams.get(credential.name)
        if found is not None:
            found[1].discard(stream)
            if not found[1]:
                del self._streams[credential.name]

    async def _run(self) -> None:
        while self._streams:
            await self._clock.sleep(EACH_SECONDS)
            for credential, streams in list(self._streams.values()):
                try:
                    await self._look(credential, streams)
                except Exception:
                    logger.exception("live_permits_failed")

    async def _look(self, credential: Credential, streams: set[EventStream]) -> None:
        try:
            who = admitted(await credential.ask(), Permission.RUNS_READ, by_labels=True)
        except Unavailable:
            return  # as for requests: what was known counts for as long as the authenticator says
        except TickwiseError as refusal:
            reason = next((end for kind, end in _ENDS if isinstance(refusal, kind)), End.FORBIDDEN)
            for stream in tuple(streams):
                stream.end(reason)
            return
        everywhere = holds_everywhere(who, Permission.RUNS_READ)
        for stream in tuple(streams):
            if stream.filter.namespace is None and not everywhere:
                stream.end(End.FORBIDDEN)
            stream.within = who.within

    async def stop(self) -> None:
        """Ask no more."""
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None
