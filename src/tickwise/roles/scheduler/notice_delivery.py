"""Delivers notices to their channels.

    due ──► taken, with a lease ──► words ──► sender ──► delivered
                                                    ├──► later: again after a pause, dead after a day
                                                    └──► refused: dead; a person can send it again

    later ──► its channel rests, longer with each failure: one try finds out how it is, and events gather meanwhile
    a try that takes more than 2 s lingers: it goes on beside the turns, and another channel has its turn

Any number of schedulers at once. Invariants: a notice is delivered at least once, or is on record as dead; twice only
if a scheduler ended between a delivery and its record. A channel that hangs holds up no other: one notice of it is
under way at a time, and each has a task of its own, which has a turn for 2 s. A namespace whose channels hang holds up
no other: the store gives each its share, and a smaller one to channels whose newest try failed or took long. At most
`UNDER_WAY` tries are under way. No secret of a channel is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from tickwise.documents.channel_secrets import opened_secrets
from tickwise.domain.errors import NotOpened, SealingUnavailable, Unavailable
from tickwise.domain.notices.messages import NoticeText
from tickwise.domain.notices.rules import Notice, NoticeChannel, NoticeChannelKind, NoticeState
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.senders import ChannelSender, DeliveryOutcome, DeliveryResult, NoticeMessage
from tickwise.ports.store import SEND_LEASE_SECONDS, ChannelSecrets, ChannelStore, NoticeStore, SettledNotice
from tickwise.ports.store.notices import LINGER_SECONDS

SENDS: Final = 16
"""Turns: notices under way at once, without those that linger."""
UNDER_WAY: Final = 64
"""Notices under way at once, with those that linger. Each has a connection and some kB."""
SEND_SECONDS: Final = 10.0
"""The time of one try."""
LOOK_SECONDS: Final = 0.5
"""Between two looks while there is a channel."""
IDLE_SECONDS: Final = 2.0
"""Between two looks while there is none."""
SLOW_SECONDS: Final = LINGER_SECONDS
"""A channel whose newest try took longer comes after the others."""
PAUSE_FIRST_SECONDS: Final = 5.0
PAUSE_MAX_SECONDS: Final = 900.0
PAUSE_LEAST_SHARE: Final = 0.5
"""A pause is drawn between this share of its length and all of it: receivers that come back are not met by all."""
GIVE_UP_SECONDS: Final = 86_400.0
"""After its first try; then a notice is dead."""
RECORD_SECONDS: Final = SEND_LEASE_SECONDS - 2 * SEND_SECONDS
"""While the store is away, the outcome of a try is kept for so long."""
RECORD_PAUSE_SECONDS: Final = 1.0
UNTRIED_PAUSE_SECONDS: Final = 1.0
"""A notice for which a sender had no turn is due again after so long."""

Words = Callable[[Notice], NoticeText]
Tried = Callable[[NoticeChannelKind, Sequence[str]], None]
"""Hears how a try at a channel of this kind went: `sent`; `failed`; or `failed` and `dead`."""
_RESULTS: Final[Mapping[NoticeState, Sequence[str]]] = {
    NoticeState.DELIVERED: ("sent",),
    NoticeState.WAITING: ("failed",),
    NoticeState.DEAD: ("failed", "dead"),
}

logger = structlog.get_logger("tickwise.scheduler")


class NoticeDelivery:
    """The sending of notices by one scheduler."""

    def __init__(
        self,
        notices: NoticeStore,
        channels: ChannelStore,
        senders: Mapping[NoticeChannelKind, ChannelSender],
        *,
        words: Words,
        now: Callable[[], Awaitable[float]],
        clock: Clock,
        name: str,
        tried: Tried | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
        sealer: EnvelopeSealer | None = None,
    ) -> None:
        """`sealer` opens the secrets of channels. `now` is the store's clock. `name` tells this scheduler from all
        others, also from one before it. `tried` hears of each try, for the metrics. `prepare` is awaited once, before
        the first notice is taken."""
        self._notices = notices
        self._channels = channels
        self._senders = senders
        self._words = words
        self._now = now
        self._clock = clock
        self._name = name
        self._tried_so = tried
        self._prepare = prepare
        self._sealer = sealer
        self._sends: dict[asyncio.Task[None], float] = {}
        """Each with the time at which it began."""
        self._is_loaded = False
        """The senders have loaded their libraries, because there is a channel."""
        self.wake = asyncio.Event()
        """A send has ended, so there may be another notice of its channel; or a notice was just made that is due."""

    async def step(self) -> float:
        """Take what is due and begin to send it; how long until the next look."""
        if self._prepare is not None:
            await self._prepare()
            self._prepare = None
        if (free := self._free()) <= 0:
            return LOOK_SECONDS
        found = await self._notices.due(self._name, free)
        if not found.notices:
            if found.has_channels and not self._is_loaded:
                self._is_loaded = True
                await asyncio.gather(*(sender.load() for sender in self._senders.values()))
            return LOOK_SECONDS if found.has_channels else IDLE_SECONDS
        known = {
            each.channel.channel_id: each
            for each in await self._channels.secrets([notice.channel_id for notice in found.notices])
        }
        now = await self._now()
        for notice in found.notices:
            task = asyncio.create_task(self._deliver(notice, known.get(notice.channel_id), now))
            self._sends[task] = self._clock.monotonic()
            task.add_done_callback(self._ended)
        return LOOK_SECONDS

    def _free(self) -> int:
        """The turns that are free."""
        lingers_since = self._clock.monotonic() - LINGER_SECONDS
        turns = sum(begun >= lingers_since for begun in self._sends.values())
        return min(SENDS - turns, UNDER_WAY - len(self._sends))

    async def finish(self) -> None:
        """Wait for what is under way; it takes a bounded time."""
        while self._sends:
            await asyncio.wait(self._sends)

    async def close(self) -> None:
        """End what is under way, and close the senders."""
        await end_tasks(list(self._sends))
        for sender in self._senders.values():
            await sender.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._sends.pop(task, None)
        self.wake.set()
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("notice_unrecorded", error=type(failure).__name__)

    async def _deliver(self, notice: Notice, channel: ChannelSecrets | None, now: float) -> None:
        if channel is None:  # removed while rules were asked: no notice of it can be delivered
            await self._record(SettledNotice(notice.notice_id, NoticeState.DROPPED))
            return
        begun = self._clock.monotonic()
        result = await self._tried(notice, channel, now)
        was_slow = self._clock.monotonic() - begun > SLOW_SECONDS
        settled = self._settled(notice, channel.channel, result, now)._replace(was_slow=was_slow)
        if settled.was_tried:
            log(notice, channel.channel, settled)
            if self._tried_so is not None:
                self._tried_so(channel.channel.kind, _RESULTS[settled.state])
        await self._record(settled)

    async def _tried(self, notice: Notice, channel: ChannelSecrets, now: float) -> DeliveryResult:
        sender = self._senders.get(channel.channel.kind)
        if sender is None:
            return DeliveryResult(DeliveryOutcome.LATER, f"this scheduler has no sender for {channel.channel.kind}")
        try:
            words = self._words(notice)
            message = NoticeMessage(notice, words.title, words.text, words.links, now)
            async with asyncio.timeout(2 * SEND_SECONDS):
                secrets = await opened_secrets(channel.secrets, channel.channel.channel_id, self._sealer)
                return await sender.send(channel.channel, secrets, message, timeout=SEND_SECONDS)
        except TimeoutError:
            return DeliveryResult(DeliveryOutcome.LATER, "the sender did not end in time")
        except (NotOpened, SealingUnavailable) as closed:
            return DeliveryResult(DeliveryOutcome.LATER, f"the secrets of the channel do not open: {closed.detail}")
        except Exception as error:  # noqa: BLE001  # one of a library: the notice is tried again, and the loop goes on
            # Its text may hold a secret.
            return DeliveryResult(DeliveryOutcome.LATER, f"the sender failed: {type(error).__name__}")

    def _settled(self, notice: Notice, channel: NoticeChannel, result: DeliveryResult, now: float) -> SettledNotice:
        if result.delivery is DeliveryOutcome.DELIVERED:
            return SettledNotice(notice.notice_id, NoticeState.DELIVERED, result.error)
        if result.delivery is DeliveryOutcome.UNTRIED:
            return SettledNotice(
                notice.notice_id, NoticeState.WAITING, again_seconds=UNTRIED_PAUSE_SECONDS, was_tried=False
            )
        begun = notice.tried_at if notice.tried_at is not None else now
        if result.delivery is DeliveryOutcome.REFUSED or now - begun >= GIVE_UP_SECONDS:
            return SettledNotice(notice.notice_id, NoticeState.DEAD, result.error, served=_served(notice, result))
        chance, asked = self._clock.chance(), result.retry_after or 0.0
        rest = 0.0 if notice.is_test else max(pause_seconds(channel.failures + 1, chance), asked)
        pause = max(pause_seconds(notice.tries, chance), rest, asked)
        return SettledNotice(
            notice.notice_id, NoticeState.WAITING, result.error, pause, rest_seconds=rest,
            served=_served(notice, result),
        )  # fmt: skip

    async def _record(self, settled: SettledNotice) -> None:
        """Record the outcome; while the store is away, again and again for as long as the lease may last."""
        end = self._clock.monotonic() + RECORD_SECONDS
        while True:
            try:
                await self._notices.settle(self._name, [settled])
            except Unavailable:
                if self._clock.monotonic() >= end:
                    raise
                await self._clock.sleep(RECORD_PAUSE_SECONDS)
            else:
                return


def _served(notice: Notice, result: DeliveryResult) -> tuple[str, ...]:
    """Those who have it: a try that says nothing of them, as one that ended in an error, takes nothing from anyone."""
    return tuple(dict.fromkeys((*notice.served, *result.served)))


def log(notice: Notice, channel: NoticeChannel, settled: SettledNotice) -> None:
    """Tell how a try went."""
    name, kind, notice_id = channel.name, channel.kind.value, str(notice.notice_id)
    if settled.state is NoticeState.DELIVERED:
        logger.info(
            "notice_delivered",
            notice_id=notice_id, namespace=notice.namespace, channel=name, kind=kind, events=notice.events,
            tries=notice.tries, error=settled.error,
        )  # fmt: skip
    elif settled.state is NoticeState.DEAD:
        logger.error(
            "notice_dead",
            notice_id=notice_id, namespace=notice.namespace, channel=name, kind=kind, events=notice.events,
            tries=notice.tries, error=settled.error,
        )  # fmt: skip
    else:
        logger.warning(
            "notice_delayed",
            notice_id=notice_id, namespace=notice.namespace, channel=name, kind=kind, events=notice.events,
            tries=notice.tries, error=settled.error, again_seconds=round(settled.again_seconds),
        )  # fmt: skip


def pause_seconds(tries: int, chance: float) -> float:
    """The pause after so many tries: 5 s, then twice as long each time, at most 15 min; with jitter."""
    longest = min(PAUSE_FIRST_SECONDS * 2.0 ** min(max(tries, 1) - 1, 20), PAUSE_MAX_SECONDS)
    return longest * (PAUSE_LEAST_SHARE + (1.0 - PAUSE_LEAST_SHARE) * chance)
