"""Notices through Apprise: Teams, ntfy, PagerDuty and a hundred other services by its addresses.

    scheduler ──address and text, over a pipe──► apprise_child, a process of its own ──► service
                                    └─ killed after its time

Apprise is code for a hundred services with a hundred ways to read an address. In a process of its own it can hold up
nothing, connects only to addresses that are judged, runs no program and opens no file but those of Python.

Processes are few, so notices wait for a turn. A namespace has half of them at most, and channels whose newest try
failed or took long have half of those: a service that hangs holds up no other. The time of a try begins with its turn;
a notice that had none in time was not tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from tickwise.adapters.senders.outcomes import DELIVERED, UNTRIED, later, refused
from tickwise.domain.errors import Invalid
from tickwise.domain.notices.channels import check_apprise
from tickwise.domain.notices.rules import NoticeChannel, Severity
from tickwise.ports.senders import ChannelSender, DeliveryResult, NoticeMessage

CHILD: Final = "tickwise.adapters.senders.apprise_child"
PROCESSES: Final = 4
"""At once; each has 60 MB."""
OF_NAMESPACE: Final = 2
"""Of one namespace."""
FAILING_PROCESSES: Final = 2
"""For channels whose newest try failed or took long."""
FAILING_OF_NAMESPACE: Final = 1
"""Of one namespace."""
TURN_SHARE: Final = 0.5
"""The longest wait for a turn, as a share of the time of a try."""
REPLY_BYTES: Final = 64 << 10
TYPES: Final = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}
MISSING: Final = (
    "the scheduler has no Apprise: install it beside Tickwise with `pip install 'tickwise[apprise]'` and start the "
    "scheduler again"
)


class ChildReply(msgspec.Struct):
    """The last words of the process."""

    outcome: str
    """`delivered`, `later`, `refused` or `missing`."""
    error: str = ""


_decode: Final = msgspec.json.Decoder(ChildReply).decode


class Turns:
    """A number of turns, of which a namespace has a part at most."""

    def __init__(self, most: int, of_namespace: int) -> None:
        self._turns = asyncio.Semaphore(most)
        self._most_of_namespace = of_namespace
        self._of_namespace: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def enter(self, turn: AsyncExitStack, namespace: str) -> None:
        """Wait for a turn, which lasts until `turn` ends. That of the namespace comes first, so none has more than its
        part in the queue for all."""
        if (own := self._of_namespace.get(namespace)) is None:
            own = self._of_namespace[namespace] = asyncio.Semaphore(self._most_of_namespace)
        await turn.enter_async_context(own)
        await turn.enter_async_context(self._turns)


class AppriseSender(ChannelSender):
    """The sender of kind `apprise`."""

    def __init__(self) -> None:
        self._turns = Turns(PROCESSES, OF_NAMESPACE)
        self._failing = Turns(FAILING_PROCESSES, FAILING_OF_NAMESPACE)

    async def send(
        self, channel: NoticeChannel, secrets: Mapping[str, str], message: NoticeMessage, *, timeout: float
    ) -> DeliveryResult:
        """See the port."""
        url = secrets.get("url", "")
        try:
            check_apprise(url)
        except Invalid as error:
            return refused(error.detail, secrets)
        asked = msgspec.json.encode(
            {
                "url": url,
                "title": message.title,
                "text": message.text,
                "type": TYPES[message.notice.severity],
                "allow_private": channel.allow_private,
            }
        )
        async with AsyncExitStack() as turn:
            try:
                async with asyncio.timeout(timeout * TURN_SHARE):
                    if channel.failures or channel.is_slow:
                        await self._failing.enter(turn, channel.namespace)
                    await self._turns.enter(turn, channel.namespace)
            except TimeoutError:
                return UNTRIED
            return await _tried(asked, secrets, timeout)

    async def load(self) -> None:
        """Nothing: the library is loaded in the process of each try."""

    async def close(self) -> None:
        """See the port."""


async def _tried(asked: bytes, secrets: Mapping[str, str], timeout: float) -> DeliveryResult:
    try:
        async with asyncio.timeout(timeout):
            reply = await _ask_child(asked)
    except TimeoutError:
        return later(f"the service did not answer within {timeout:g} s", secrets)
    except OSError as error:
        return later(f"no process can be started: {error.strerror}", secrets)
    return _result(reply, secrets)


async def _ask_child(asked: bytes) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        CHILD,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"LANG": "C.UTF-8", "HOME": "/nonexistent"},
        limit=REPLY_BYTES,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(asked)
            await process.stdin.drain()
            process.stdin.close()
        return await process.stdout.read(REPLY_BYTES)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _result(text: bytes, secrets: Mapping[str, str]) -> DeliveryResult:
    try:
        reply = _decode(text)
    except msgspec.MsgspecError:
        return later("Apprise ended without a word", secrets)
    if reply.outcome == "delivered":
        return DELIVERED
    if reply.outcome == "missing":
        return later(MISSING, secrets)
    return refused(reply.error, secrets) if reply.outcome == "refused" else later(reply.error, secrets)


def child_request(text: bytes) -> dict[str, Any]:
    """The request as the process reads it."""
    request: dict[str, Any] = msgspec.json.decode(text)
    return request
