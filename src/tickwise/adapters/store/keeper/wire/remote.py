"""`RemoteStore`: the port `Store`, carried out by the keeper that owns the shard.

    call ──► the link there is ──► the answer
               ├─ refused ──► look who owns the shard: another keeper? ──┐
               └─ none, or not the owner's any more ─────────────────────┴──► connect to the owner ──► the same call

A call that was not carried out is made again until `PATIENCE_SECONDS` have passed: a takeover takes less. One whose
answer was lost is `InDoubt`, as the port says, unless it changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from tickwise.adapters.store.keeper.shards import SERVED_PARTS
from tickwise.adapters.store.keeper.wire.forms import FORMS, READING, CallForm, NotServedHere
from tickwise.adapters.store.keeper.wire.link import KeeperLink
from tickwise.adapters.store.keeper.wire.pinning import Endpoint
from tickwise.domain.errors import Bug, InDoubt, KeeperAway, StoreUnavailable
from tickwise.observability.tasks import end_tasks
from tickwise.observability.waits import note_wait
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover
from tickwise.ports.store.wrapping import Call

PATIENCE_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.05
PAUSE_MAX_SECONDS: Final = 0.25
LOOK_SECONDS: Final = 0.25
"""Between two looks whether the owner to which a connection is made still is the owner."""

FindOwner = Callable[[], Awaitable[str]]
"""The endpoint of the owner as it is published; empty: nobody owns the shard."""

logger = structlog.get_logger("tickwise.store")


class RemotePart:
    """A part of the store, such as `jobs`; each method is a call to the keeper."""

    def __init__(self, calls: Mapping[str, Call]) -> None:
        self.__dict__.update(calls)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class RemoteUpkeep(RemotePart):
    """The part `upkeep`, whose name of the store came with the welcome."""

    cluster_id = ""


class RemoteStore:
    """The port `Store`, of one shard."""

    def __init__(
        self,
        find: FindOwner,
        *,
        key: Callable[[], str],
        shard: int,
        clock: Clock,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`key`: the secret of the keyspace, asked for at each connection."""
        self.shard = shard
        self.clock = clock
        self._find, self._key, self._patience = find, key, patience_seconds
        self._link: KeeperLink | None = None
        self._published = ""
        """The endpoint to which the link leads, as its owner published it."""
        self._connecting = asyncio.Lock()
        self._tell: Callable[[Handover], None] = lambda _: None
        self._is_closed = False
        calls = {name: self._method(form) for name, form in FORMS.items()}
        self.now = calls["now"]
        for part in SERVED_PARTS:
            kind = RemoteUpkeep if part == "upkeep" else RemotePart
            prefix = f"{part}."
            own = {name.removeprefix(prefix): call for name, call in calls.items() if name.startswith(prefix)}
            setattr(self, part, kind(own))

    def __getattr__(self, name: str) -> Any:  # the parts
        raise AttributeError(name)

    @property
    def served_at(self) -> str:
        """The place of the owner, as host:port; empty: there is no link to one."""
        return "" if self._link is None else self._link.endpoint.address

    async def open(self) -> None:
        """See the port."""
        self._is_closed = False
        await self._connected()

    async def close(self) -> None:
        """See the port."""
        self._is_closed = True
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """See the port."""
        self._tell = tell

    def _method(self, form: CallForm) -> Call:
        async def call(*given: Any, **named: Any) -> Any:
            return await self._call(form, form.call(given, named))

        return call

    async def _call(self, form: CallForm, body: bytes) -> Any:
        end = self.clock.monotonic() + self._patience
        pause = PAUSE_SECONDS
        while True:
            try:
                link = await self._connected()
                answer = await link.call(form.name, body)
                return form.read_answer(answer)
            except InDoubt as failure:
                if form.name not in READING:
                    raise
                if self.clock.monotonic() > end:
                    raise StoreUnavailable(failure.detail) from failure  # it changed nothing, so nothing is in doubt
                note_wait(failure)
            except StoreUnavailable as failure:
                if isinstance(failure, NotServedHere) and self._link is not None:
                    self._link.leave()
                # Not carried out: the shard is elsewhere, or on its way there.
                if self.clock.monotonic() > end:
                    raise
                note_wait(failure)
                await self._leave_if_moved()
            except asyncio.CancelledError:
                note_wait(self._unanswered(), is_guess=True)
                raise
            except msgspec.DecodeError as failure:
                raise Bug(
                    f"the answer to {form.name} cannot be read: {failure}; is the keeper of another release?"
                ) from None
            await self.clock.sleep(pause * (0.5 + self.clock.chance()))
            pause = min(2 * pause, PAUSE_MAX_SECONDS)

    async def _leave_if_moved(self) -> None:
        """Leave a keeper that refuses calls once another one owns the shard: one that lost the database alone cannot
        know of it."""
        link = self._link
        if link is None or not link.is_open:
            return
        with contextlib.suppress(StoreUnavailable):
            published = await self._find()
            if published and link is self._link and published != self._published:
                link.leave()

    def _unanswered(self) -> StoreUnavailable:
        """The reason for a call that nobody has answered or refused."""
        if self._link is not None and self._link.is_open:
            return KeeperAway(f"the keeper of shard {self.shard} at {self.served_at} has not answered yet")
        return StoreUnavailable(f"the owner of shard {self.shard} has not been found yet")

    async def _connected(self) -> KeeperLink:
        """A link to the owner. Raises `StoreUnavailable`."""
        link = self._link
        if link is not None and link.is_open:
            return link
        async with self._connecting:
            link = self._link
            if link is not None and link.is_open:
                return link
            if self._is_closed:
                raise StoreUnavailable("the store is closed")
            published = await self._find()
            if not published:
                raise KeeperAway(f"no keeper owns shard {self.shard}: start `tickwise keeper`")
            endpoint = Endpoint.read(published)
            self._link = link = await self._connect(endpoint, published)
            self._published = published
            upkeep: RemoteUpkeep = self.upkeep
            if upkeep.cluster_id not in ("", link.welcome.cluster_id):
                link.abort()
                raise StoreUnavailable(f"the keeper at {endpoint.address} serves another installation")
            upkeep.cluster_id = link.welcome.cluster_id
            logger.info("keeper_found", shard=self.shard, endpoint=endpoint.address, release=link.welcome.release)
            return link

    async def _connect(self, endpoint: Endpoint, published: str) -> KeeperLink:
        """Connect to the owner as long as it is the owner: the machine of one that is frozen takes the connection, and
        nobody says a word there."""
        connecting = asyncio.create_task(
            KeeperLink.connect(
                endpoint, key=self._key(), shard=self.shard, clock=self.clock, tell=lambda each: self._tell(each)
            )
        )
        try:
            while not (await asyncio.wait({connecting}, timeout=LOOK_SECONDS))[0]:
                if await self._find() != published:
                    raise StoreUnavailable(f"shard {self.shard} is not at {endpoint.address} any more")
        except BaseException:
            connecting.add_done_callback(_end_link)  # it may have come about meanwhile
            await end_tasks([connecting])
            raise
        return connecting.result()


def _end_link(connecting: asyncio.Task[KeeperLink]) -> None:
    """End a connection that nobody waits for any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().abort()
