"""Live events for callers: streams of changes, and logs that are followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from uuid import UUID

from tickwise.control.access import check_namespace, holds_everywhere, requires, requires_none
from tickwise.control.context import ControlContext
from tickwise.control.live.filters import EventFilter
from tickwise.control.live.log_follower import LogFollower, LogPosition, LogWriter, written_lines
from tickwise.control.live.permits import Credential, Permits
from tickwise.control.live.reader import FeedReader, LiveTelemetry
from tickwise.control.live.streams import End, EventStream
from tickwise.domain.errors import Busy, Forbidden, Invalid
from tickwise.domain.feed import read_event_id
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """The limits of open streams, and the place where they are counted."""

    streams: int = 1_500
    """Of one process."""
    of_caller: int = 1_000
    telemetry: LiveTelemetry | None = None


class LiveService:
    """Streams."""

    def __init__(self, context: ControlContext, options: LiveOptions | None = None) -> None:
        self._context = context
        self._limits = options or LiveOptions()
        self._telemetry = self._limits.telemetry
        self._reader = FeedReader(context.store.feed, context.clock, self._telemetry)
        self._permits = Permits(context.clock)
        self._open: Counter[str] = Counter()
        self._stopping = False

    @requires(Permission.RUNS_READ, by_labels=True)
    async def events(
        self, who: Principal, asked: EventFilter, credential: Credential, last_id: str | None = None
    ) -> AsyncGenerator[bytes]:
        """The changes that match, as server-sent events, from now on or from an earlier event's id on. With a filter
        without a namespace, those of all, for callers who may see runs everywhere. Raises `Busy` if there are too many
        streams, `Invalid` for an id that is none, `StoreUnavailable`."""
        if asked.namespace is None and not holds_everywhere(who, Permission.RUNS_READ):
            raise Forbidden("to see the events of all namespaces, runs:read in the whole installation is needed")
        if asked.namespace is not None:
            check_namespace(who, asked.namespace)
        resumed = None if last_id is None else read_event_id(last_id)
        if last_id is not None and resumed is None:
            raise Invalid("this Last-Event-ID is not from this server: begin without one")
        stream = self._opened(who, asked, credential)
        try:
            await self._reader.join(stream, resumed)
        except BaseException:
            stream.abandon()
            raise
        return stream.chunks()

    @requires(Permission.RUNS_READ, by_labels=True)
    async def log(
        self,
        who: Principal,
        run: UUID,
        credential: Credential,
        position: LogPosition,
        write: LogWriter = written_lines,
    ) -> AsyncGenerator[bytes]:
        """The output of a run as server-sent events, line by line or as `write` has it, until it has ended. Raises
        `NotFound`, `Busy`, `StoreUnavailable`."""
        row = await self._context.run(who, run)
        asked = EventFilter(namespace=row.namespace, runs=frozenset({run.bytes}))
        stream = self._opened(who, asked, credential)
        try:
            await self._reader.join(stream, None)
        except BaseException:
            stream.abandon()
            raise
        return LogFollower(self._context, who, run, stream, position, write).chunks()

    def _opened(self, who: Principal, asked: EventFilter, credential: Credential) -> EventStream:
        name = who.full_name
        if self._stopping:
            raise Busy("this process stops: open the stream again, another one serves it")
        if self._open.total() >= self._limits.streams:
            raise Busy(f"this process has {self._limits.streams} open streams, the most that it may have")
        if self._open[name] >= self._limits.of_caller:
            raise Busy(f"this caller has {self._limits.of_caller} open streams here: close one first")
        self._open[name] += 1

        def left(stream: EventStream) -> None:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]
            self._permits.remove(stream, credential)
            self._reader.leave(stream)
            if self._telemetry is not None:
                self._telemetry.stream_ended(stream.end_reason)

        stream = EventStream(asked, who.within, self._context.clock.monotonic, left)
        self._permits.add(stream, credential)
        if self._telemetry is not None:
            self._telemetry.stream_opened()
        return stream

    @requires_none("the life of the process")
    def end_streams(self) -> None:
        """End all streams, for this process stops; their clients come back to another one."""
        self._stopping = True
        self._reader.end_all(End.STOPPING)

    @requires_none("the life of the process")
    async def stop(self) -> None:
        """End all streams, and read nothing more."""
        self.end_streams()
        await self._permits.stop()
        await self._reader.stop()
