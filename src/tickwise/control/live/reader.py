"""The one reader of the feed in a process, for however many streams; none while no stream is open.

    live      one page every `POLL_SECONDS`, from begin to begin, for all that are up to date
    coming back    those with a Last-Event-ID read what they missed together, page by page, beside it

A stream that comes back joins the others between two of their pages, once it has all that they have; what it has beyond
that is passed over. So there is no gap, and nothing comes twice.

Invariant: the namespaces that are asked of the feed are those of the streams that get the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol
from uuid import UUID

import msgspec
import structlog

from tickwise.control.live.filters import Audience, asks_for_labels, takes_labels
from tickwise.control.live.streams import (
    RATE,
    RATE_OF_ALL,
    ROOM_SECONDS,
    ROOM_SECONDS_BESIDE_OTHERS,
    At,
    End,
    EventStream,
    marker,
)
from tickwise.control.times import written
from tickwise.domain.errors import Unavailable
from tickwise.domain.feed import FeedPlace, Resumed, page_id
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.feed import FeedPage, FeedStore, RunChanges
from tickwise.roles.shared.service import wait_for

POLL_SECONDS: Final = 0.1
"""A change is read this much after its commit at most, if there is time."""
BREATH_SECONDS: Final = 0.02
"""The pause after a page that took so long that the next one is due."""
AGAIN_SECONDS: Final = 1.0
"""Between two looks at a store that is away."""
WATCH_EACH_SECONDS: Final = 30.0
PAGE_BATCHES: Final = 200
LABELS_SECONDS: Final = 3.0
"""A job that was given other labels is shown by them after this time."""
MAX_LABELS: Final = 50_000
EVENT_BYTES_JOINED: Final = 64 << 10

logger = structlog.get_logger("tickwise.live")


class LiveTelemetry(Protocol):
    """The counts of streams."""

    def stream_opened(self) -> None:
        """A stream was opened."""
        ...

    def stream_ended(self, reason: str) -> None:
        """`reason`: of `End`, or `client` for one whose client went."""
        ...

    def events_sent(self, sent: int, coalesced: int) -> None:
        """Events that were put into buffers, and events beyond the rate of their streams."""
        ...


class Labels:
    """The labels of jobs, a few seconds old at most."""

    def __init__(self, feed: FeedStore, monotonic: Callable[[], float]) -> None:
        self._feed = feed
        self._monotonic = monotonic
        self._known: dict[bytes, tuple[float, dict[str, str]]] = {}

    async def of(self, jobs: Iterable[bytes]) -> dict[bytes, dict[str, str]]:
        """The labels of each of these jobs."""
        now = self._monotonic()
        wanted = set(jobs)
        missing = [job for job in wanted if self._known.get(job, (0.0,))[0] <= now]
        if missing:
            if len(self._known) + len(missing) > MAX_LABELS:
                self._known.clear()
                missing = list(wanted)
            found = await self._feed.labels([UUID(bytes=job) for job in missing])
            for job in missing:
                self._known[job] = (now + LABELS_SECONDS, dict(found.get(UUID(bytes=job), {})))
        return {job: self._known[job][1] for job in wanted}


class FeedReader:
    """Reads while there are streams."""

    def __init__(self, feed: FeedStore, clock: Clock, telemetry: LiveTelemetry | None = None) -> None:
        self._feed = feed
        self._clock = clock
        self._telemetry = telemetry
        self._audiences: dict[str | None, Audience[EventStream]] = {}
        self._live: set[EventStream] = set()
        self._new: set[EventStream] = set()
        """Those of them that have had no page yet: they may have more than the others."""
        self._at = At()
        self._returning: set[EventStream] = set()
        self._caught_up: dict[EventStream, FeedPlace] = {}
        """Those that came back, and have all up to a place: the next page takes them in."""
        self._catching: asyncio.Task[None] | None = None
        self._joining: list[tuple[EventStream, asyncio.Future[None]]] = []
        self._labels = Labels(feed, clock.monotonic)
        self._place: FeedPlace | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._watched_until = 0.0

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._live) + len(self._returning) + len(self._caught_up) + len(self._joining)

    async def join(self, stream: EventStream, resumed: Resumed | None) -> None:
        """Let a stream take part; returns once each later change will reach it. Raises `StoreUnavailable`."""
        stream.resumed = resumed
        joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._joining.append((stream, joined))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="live events")
        self._wake.set()
        try:
            await joined
        except BaseException:
            self.leave(stream)
            raise

    def leave(self, stream: EventStream) -> None:
        """A stream takes part no longer."""
        self._joining = [each for each in self._joining if each[0] is not stream]
        self._returning.discard(stream)
        self._caught_up.pop(stream, None)
        if stream in self._live:
            self._live.remove(stream)
            self._new.discard(stream)
            audience = self._audiences[stream.filter.namespace]
            audience.remove(stream)
            if audience.is_empty:
                del self._audiences[stream.filter.namespace]

    def end_all(self, reason: End) -> None:
        """End every stream."""
        for stream in (*self._live, *self._returning, *self._caught_up):
            stream.end(reason)
        for stream, joined in self._joining:
            stream.end(reason)
            if not joined.done():
                joined.set_result(None)

    async def stop(self) -> None:
        """Read nothing more."""
        await end_tasks(task for task in (self._task, self._catching) if task is not None)
        self._task = self._catching = None

    # ------------------------------------------------------------------------------------------- the loop

    async def _run(self) -> None:
        while self.streams:
            self._wake.clear()
            begun = self._clock.monotonic()
            try:
                if await self._step():
                    pause = 0.0
                else:  # the time of the page does not come on top: on a busy machine it is as long again
                    pause = max(BREATH_SECONDS, begun + POLL_SECONDS - self._clock.monotonic())
            except Unavailable as away:
                self._refuse_joining(away)
                pause = AGAIN_SECONDS
            except Exception as failure:
                logger.exception("live_events_failed")
                self._refuse_joining(failure)
                pause = AGAIN_SECONDS
            if pause:
                await wait_for(self._wake, pause)
            else:
                await self._clock.sleep(0)  # streams send what they were given before the next page comes
        # What comes from now on is read anew by the next stream, from its own place.
        self._place, self._task = None, None

    def _refuse_joining(self, failure: Exception) -> None:
        for _, joined in self._joining:
            if not joined.done():
                joined.set_exception(failure)
        self._joining.clear()

    async def _step(self) -> bool:
        """One page for those that are up to date, one for those that come back; True if there is more to read."""
        now = self._clock.monotonic()
        if self._place is None or now >= self._watched_until:
            present = await self._feed.watch()
            self._watched_until = now + WATCH_EACH_SECONDS
            if self._place is None:
                self._place = present
        more = False
        self._take_in()
        if self._live:
            page = await self._feed.since(self._place, limit=PAGE_BATCHES, namespaces=_namespaces(self._audiences))
            await self._hand_over(page)
            more = page.more
        if self._joining:
            await self._let_in()
        if self._returning and (self._catching is None or self._catching.done()):
            self._catching = asyncio.create_task(self._catch_up_all(), name="live events of before")
        return more

    def _take_in(self) -> None:
        """Let those take part that have all that the others have. One that was overtaken meanwhile reads on."""
        caught_up, self._caught_up = self._caught_up, {}
        for stream, place in caught_up.items():
            if self._place is not None and place.covers(self._place):
                self._go_live(stream, place)
            else:
                self._returning.add(stream)

    async def _let_in(self) -> None:
        """Streams that have just come: at the present place, or behind it."""
        joining, self._joining = self._joining, []
        if not self._live:
            # Nothing was read lately: the present place is that of now.
            self._place = await self._feed.watch()
        place = self._place
        if place is None:
            return
        for stream, joined in joining:
            if stream.ended or joined.cancelled():
                continue
            if stream.resumed is None:
                self._go_live(stream, place)
            else:
                self._returning.add(stream)
                stream.at = At(stream.resumed.place.text())
            if not joined.done():
                joined.set_result(None)

    def _go_live(self, stream: EventStream, place: FeedPlace) -> None:
        self._live.add(stream)
        self._new.add(stream)
        stream.at = At(place.text())
        namespace = stream.filter.namespace
        self._audiences.setdefault(namespace, Audience()).add(stream)

    # ------------------------------------------------------------------------------------------- live

    async def _hand_over(self, page: FeedPage) -> None:
        before, after = self._place, page.place
        if before is None:
            return
        if page.lost:
            logger.warning("live_events_gap", streams=len(self._live))
            for stream in self._live:
                stream.put(marker("gap", {"reason": "expired"}, place=after.text()))
        sharing = sum(not stream.filter.brief for each in self._audiences.values() for stream in each.broad)
        rate = min(RATE, RATE_OF_ALL / max(1, sharing))
        parts: dict[EventStream, list[bytes]] = {}
        ids = page_id(before, after)
        for changes in page.changes:
            for audience in (self._audiences.get(changes.namespace), self._audiences.get(None)):
                if audience is None:
                    continue
                matched = await self._matched(audience, changes)
                if not matched:
                    continue
                batch = EventBatch(changes, ids, page.place.epoch)
                for stream, indexes in matched.items():
                    self._give(stream, batch, indexes, rate, parts)
        self._place = after
        text = after.text()
        news = marker("changed", {}, place=text)
        sent = coalesced = 0
        for stream, events in parts.items():
            if stream.filter.brief:
                events.append(news)
            sent += len(events)
            if stream.skipped:
                coalesced += stream.skipped.total()
                events.append(_coalesced(stream, text))
            if events:
                stream.put(b"".join(events))
        self._at.text = text
        for stream in self._new:
            stream.at = self._at
        self._new.clear()
        if self._telemetry is not None and parts:
            self._telemetry.events_sent(sent, coalesced)

    def _give(
        self,
        stream: EventStream,
        batch: EventBatch,
        indexes: Sequence[int],
        rate: float,
        parts: dict[EventStream, list[bytes]],
    ) -> None:
        changes, resumed = batch.changes, stream.resumed
        if resumed is not None:
            indexes = [index for index in indexes if not resumed.has(changes.transaction, changes.number(index))]
        if not indexes or stream.ended:
            return
        events = parts.setdefault(stream, [])
        if stream.filter.brief:
            return
        passed = stream.allowed(len(indexes), rate)
        events += map(batch.event, indexes[:passed])
        if passed < len(indexes):
            stream.skipped[changes.state] += len(indexes) - passed

    async def _matched(self, audience: Audience[EventStream], changes: RunChanges) -> dict[EventStream, Sequence[int]]:
        matched = audience.match(changes)
        if any(asks_for_labels(stream) for stream in matched):
            jobs = changes.jobs.each()
            labels = await self._labels.of(jobs)
            for stream, indexes in matched.items():
                if asks_for_labels(stream):
                    matched[stream] = [index for index in indexes if takes_labels(stream, labels[jobs[index]])]
        return matched

    # ------------------------------------------------------------------------------------------- coming back

    async def _catch_up_all(self) -> None:
        """Beside the live pages, so that a client which reads slowly what it missed delays nobody else's events."""
        while self._returning:
            try:
                more = await self._catch_up()
            except Unavailable:
                await self._clock.sleep(AGAIN_SECONDS)
                continue
            await self._clock.sleep(0.0 if more else POLL_SECONDS / 10)

    async def _catch_up(self) -> bool:
        """One page of what those that come back have missed; whether there is more."""
        group = {
            stream: stream.resumed for stream in self._returning if not stream.ended and stream.resumed is not None
        }
        self._returning &= group.keys()
        if not group:
            return False
        place = _common([resumed.place for resumed in group.values()])
        page = await self._feed.since(
            place, limit=PAGE_BATCHES, namespaces=_namespaces({stream.filter.namespace for stream in group})
        )
        if page.lost:
            self._drop_lost(group, page)
            return True
        audience: Audience[EventStream] = Audience()
        for stream in group:
            audience.add(stream)
        ids = page_id(place, page.place)
        for changes in page.changes:
            batch = EventBatch(changes, ids, page.place.epoch)
            for stream, indexes in (await self._matched(audience, changes)).items():
                if stream.filter.namespace in (None, changes.namespace):
                    seconds = ROOM_SECONDS if len(group) == 1 else ROOM_SECONDS_BESIDE_OTHERS
                    await self._give_missed(stream, batch, indexes, seconds)
        for stream, resumed in group.items():
            if stream in self._returning and not stream.ended:
                stream.resumed = resumed._replace(place=_joined(resumed.place, page))
                stream.at = At(page.place.text())
                if not page.more:
                    self._returning.discard(stream)
                    self._caught_up[stream] = page.place
        return page.more

    def _drop_lost(self, group: dict[EventStream, Resumed], page: FeedPage) -> None:
        """Those whose place the feed does not reach back to go on from the present, and are told so."""
        for stream, resumed in group.items():
            lost = page.floor is None or resumed.place.next > page.seen.next or not resumed.place.covers(page.floor)
            if lost:
                stream.put(marker("gap", {"reason": "expired"}, place=page.place.text()))
                stream.resumed = Resumed(page.place)

    async def _give_missed(
        self, stream: EventStream, batch: EventBatch, indexes: Sequence[int], seconds: float
    ) -> None:
        resumed = stream.resumed
        if resumed is None:
            return
        if stream.filter.brief:
            has = (resumed.has(batch.changes.transaction, batch.changes.number(index)) for index in indexes)
            if stream.is_empty and not all(has):
                stream.put(marker("changed", {}, place=resumed.place.text()))
            return
        events: list[bytes] = []
        size = 0
        for index in indexes:
            if resumed.has(batch.changes.transaction, batch.changes.number(index)):
                continue
            events.append(batch.event(index))
            size += len(events[-1])
            if size > EVENT_BYTES_JOINED:
                if not (await stream.room(seconds) and stream.put(b"".join(events))):
                    return
                events, size = [], 0
        if events and await stream.room(seconds):
            stream.put(b"".join(events))


class EventBatch:
    """Changes of one batch as they are sent; each is written once for all streams."""

    def __init__(self, changes: RunChanges, ids: str, epoch: int) -> None:
        """`ids`: the begin of the ids of the page."""
        self.changes = changes
        namespace = msgspec.json.encode(changes.namespace).decode()
        self._id = f"id: {ids}{changes.batch:x}."
        self._change = f'","change":"{epoch:x}.{changes.batch:x}.'
        self._middle = f'","namespace":{namespace},"status":"{changes.state}","attempt":'
        self._time = f',"time":"{written(changes.at)}'
        self._written: dict[int, bytes] = {}

    def event(self, index: int) -> bytes:
        """The event of one change."""
        found = self._written.get(index)
        if found is None:
            run, job = _uuid(self.changes.runs.at(index)), _uuid(self.changes.jobs.at(index))
            attempt = self.changes.attempts[index]
            found = self._written[index] = (
                f'{self._id}{index:x}\nevent: run\ndata: {{"run_id":"{run}","job_id":"{job}{self._middle}{attempt}'
                f'{self._time}{self._change}{index:x}"}}\n\n'
            ).encode()
        return found


def _uuid(packed: bytes) -> str:
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _namespaces(asked: Collection[str | None]) -> set[str] | None:
    return None if None in asked else {name for name in asked if name is not None}


def _common(places: Sequence[FeedPlace]) -> FeedPlace:
    """The transactions that all of them have. One of another epoch is lost, and the store says so of all."""
    found = places[0]
    for place in places[1:]:
        if place.epoch != found.epoch:
            return min(found, place, key=lambda each: each.epoch)
        found = found.common(place)
    return found


def _joined(place: FeedPlace, page: FeedPage) -> FeedPlace:
    """The place of a stream after a page that began at or before its own."""
    if not page.more:
        return page.place
    for transaction in place.ends(changes.transaction for changes in page.changes):
        place = place.through(transaction, page.seen)
    return place


def _coalesced(stream: EventStream, place: str) -> bytes:
    counts = {state.value: count for state, count in stream.skipped.items()}
    stream.skipped.clear()
    return marker("coalesced", {"skipped": sum(counts.values()), "by_status": counts}, place=place)
