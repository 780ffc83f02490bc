"""`KeeperLink`: one connection of a client to the owner of a shard.

    connect ──► compare the certificate ──► hello ──► call, call, …  ──► its end: calls without an answer are in doubt

A keeper that says nothing between `SILENT_LOOKS` looks while it is asked is given up: another one may have the shard by
then. Looks are counted, not seconds: a process that was held up itself has not listened meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tickwise import __version__
from tickwise.adapters.store.keeper.wire.forms import FORMS, Refusal, encoded, error_of, handovers, reader
from tickwise.adapters.store.keeper.wire.frames import (
    FRAME_MAX_BYTES,
    NOTICE,
    REQUEST,
    RESPONSE,
    FrameProtocol,
    Response,
)
from tickwise.adapters.store.keeper.wire.greeting import ALIVE, CALLS_MOST, ELSEWHERE, HELLO, Hello, Welcome
from tickwise.adapters.store.keeper.wire.pinning import Endpoint, check_pinned, client_context
from tickwise.domain.errors import InDoubt, KeeperAway, Misconfigured, StoreUnavailable, Unauthenticated
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover

CONNECT_SECONDS: Final = 3.0
CLOSE_SECONDS: Final = 1.0
"""The longest wait for the farewell of the other end: a keeper that is frozen says none."""
LOOK_SECONDS: Final = 1.0
SILENT_LOOKS: Final = 4
"""In seconds this is more than a keeper computes at a stretch, and less than its lease and a takeover."""

_refusals: Final = reader(Refusal | None)
_welcome: Final = reader(Welcome)
_response: Final = reader(Response)
_result: Final = reader(tuple[msgspec.Raw, msgspec.Raw])
_context: Final = client_context()


class KeeperLink(FrameProtocol):
    """Made by `connect`."""

    def __init__(self, endpoint: Endpoint, clock: Clock, tell: Callable[[Handover], None]) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.welcome = Welcome("", "")
        self.has_ended = False
        self._gone = asyncio.Event()
        """Nothing of the connection is left."""
        self.is_left = False
        """The shard is elsewhere: no call begins here any more."""
        self.frame_max_bytes = FRAME_MAX_BYTES
        self._clock = clock
        self._tell = tell
        self._numbers = 0
        self._why = ""
        """The reason for the end, if it is known."""
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._left: set[int] = set()
        """The calls whose callers went away: what they hand over is told all the same."""
        self._room = asyncio.Semaphore(CALLS_MOST)
        self._silent_looks = 0
        """Since something was heard."""
        self._watch: asyncio.TimerHandle | None = None

    @classmethod
    async def connect(
        cls, endpoint: Endpoint, *, key: str, shard: int, clock: Clock, tell: Callable[[Handover], None]
    ) -> KeeperLink:
        """Raises `StoreUnavailable` if the owner does not answer there, and `Misconfigured` if it does not know the
        key."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, link = await loop.create_connection(
                    lambda: cls(endpoint, clock, tell), endpoint.host, endpoint.port, ssl=_context
                )
        except (OSError, TimeoutError, ValueError) as failure:  # a name that is none is a ValueError
            why = str(failure) or type(failure).__name__
            raise KeeperAway(f"the keeper of shard {shard} at {endpoint.address} does not answer: {why}") from None
        try:
            check_pinned(transport.get_extra_info("ssl_object").getpeercert(binary_form=True), endpoint)
            async with asyncio.timeout(CONNECT_SECONDS):
                answer = await link.ask(HELLO, encoded(Hello(key, shard, __version__)))
            link.welcome = _welcome(answer)
        except Unauthenticated as refused:
            transport.abort()
            raise Misconfigured(f"the keeper at {endpoint.address} refuses this process: {refused.detail}") from None
        except (InDoubt, TimeoutError, msgspec.DecodeError):
            transport.abort()
            raise KeeperAway(f"the keeper of shard {shard} at {endpoint.address} did not answer") from None
        except BaseException:
            transport.abort()
            raise
        return link

    @property
    def is_open(self) -> bool:
        """True while calls can begin here."""
        return not (self.is_left or self.has_ended)

    async def call(self, name: str, body: bytes) -> msgspec.Raw:
        """Make a call; the bytes of its answer. Raises what the store raises, `InDoubt` if the link broke before the
        answer came, and `StoreUnavailable` if it had broken before the call was sent."""
        async with self._room:
            answer, heard = _result(await self.ask(name, body))
        self._hand_over(heard)
        found: msgspec.Raw = answer
        return found

    async def ask(self, name: str, body: bytes) -> msgspec.Raw:
        """Send one request; the bytes of the result. Raises as `call` does."""
        if self.is_left or self.has_ended or self.transport is None or self.transport.is_closing():
            raise StoreUnavailable(f"the link to the keeper at {self.endpoint.address} has ended")
        self._numbers += 1
        number = self._numbers
        self.send(encoded((REQUEST, number, name, msgspec.Raw(body))))
        if not self._waiting:
            self._silent_looks = 0
        waiting: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        try:
            return await waiting
        except asyncio.CancelledError:
            if name in FORMS and not self.has_ended:
                self._left.add(number)
            raise
        finally:
            self._waiting.pop(number, None)
            self._end_if_left()

    def leave(self) -> None:
        """Begin no call here any more; the last answer ends the connection."""
        self.is_left = True
        self._end_if_left()

    async def close(self) -> None:
        """End the connection after what was sent, and wait until nothing of it is left: the event loop may end next."""
        self.end()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._gone.wait()
        finally:
            self.abort()
        await self._gone.wait()

    def _end_if_left(self) -> None:
        if self.is_left and not self._waiting:
            self.end()

    def heard(self, body: bytes) -> None:
        self._silent_looks = 0
        response: Response = _response(body)
        if response.kind == NOTICE:
            if response.number == ELSEWHERE:
                self.leave()
            return
        if response.kind != RESPONSE or isinstance(response.number, str):
            raise msgspec.ValidationError("a client asks, and is asked nothing")
        waiting = self._waiting.get(response.number)
        refused = _refusals(response.error)
        if refused is not None or response.number in self._left:
            self._hand_over(_result(response.result)[1])
        if waiting is None or waiting.done():
            self._left.discard(response.number)
            return  # of the watch, or its caller went away
        if refused is None:
            waiting.set_result(response.result)
        else:
            waiting.set_exception(error_of(refused))

    def _hand_over(self, raw: Any) -> None:
        for each in handovers(raw):
            self._tell(each)

    def _look(self) -> None:
        """While calls wait: does the keeper still answer?"""
        self._watch = None
        if self.transport is None or not self._waiting:
            return
        self._silent_looks += 1
        if self._silent_looks >= SILENT_LOOKS:
            self._why = f": nothing came for {SILENT_LOOKS * LOOK_SECONDS:g} s"
            self.abort()
            return
        self.send(encoded((REQUEST, 0, ALIVE, None)))
        self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def not_understood(self, why: str) -> None:
        self._why = f": it sent what cannot be read ({why})"

    def lost(self) -> None:
        self.has_ended = True
        self._gone.set()
        failure = InDoubt(f"the link to the keeper at {self.endpoint.address} broke before its answer came{self._why}")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(failure)
                waiting.exception()
