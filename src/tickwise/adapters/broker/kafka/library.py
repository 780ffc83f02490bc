"""The client library, loaded only when it is needed; and its complaints, each logged once.

librdkafka repeats what troubles it every second from each of its threads. Here each kind of trouble is logged once,
until the broker was heard again.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import structlog

from tickwise.domain.errors import Misconfigured

MAX_SAID: Final = 200
USUAL: Final = ("GETPID", "REQTMOUT", "OFFSET")
"""Warnings that the library resolves by itself: a coordinator that still loads, a slow answer, a group that
begins where a log begins."""

REFUSALS: Final = ("uthentication fail", "certificate verify failed", "mechanism handshake")
"""Of a password, a certificate or a way to log in; the library has no code for these where it answers."""

STOP_SECONDS: Final = 10.0
"""The longest time that a client may take to end. One of the library may never end (librdkafka issues 4674 and
4528): its threads are left to the end of the process then, and the broker takes the member for lost when its session is
over."""

logger = structlog.get_logger("tickwise.kafka")


def client_library() -> ModuleType:
    """confluent-kafka. Raises `Misconfigured` where it is not installed."""
    try:
        import confluent_kafka
    except ImportError as missing:
        raise Misconfigured(
            "broker_url is kafka://, and its client is not installed: pip install 'tickwise[kafka]'"
        ) from missing
    return confluent_kafka


def admin_library() -> ModuleType:
    """Its part that makes topics. Its names are not declared as exported, so they are asked for by name."""
    return importlib.import_module("confluent_kafka.admin")


async def free(last: Callable[[], None], complaints: Complaints) -> None:
    """Drop the last reference to a client in a thread of its own: the library joins its threads there."""
    thread = threading.Thread(target=last, name="kafka free", daemon=True)
    thread.start()
    await asyncio.to_thread(complaints.joined, thread, STOP_SECONDS)


class Complaints:
    """Log the library's messages, from any thread, each kind once until all is well again."""

    def __init__(self) -> None:
        self.last = ""
        """The newest error, for messages that say why the broker is away."""
        self.refusal = ""
        """The newest that says that broker and client do not come to terms, which no waiting mends."""
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def log(self, level: int, _format: str, *args: Any) -> None:
        """Log in the form of `logging.Logger.log`, as the library calls it: its facility, its thread, a text."""
        facility, text = (str(args[0]), str(args[-1])) if args else ("", _format)
        self.complain(facility, text, level=min(level, 10) if facility in USUAL else level)

    def complain(self, kind: str, text: str, *, level: int = 30) -> None:
        """Say this, unless this kind was said since all was well."""
        self.last = text
        if any(sign in text for sign in REFUSALS):
            self.refusal = text
        with self._lock:
            if kind in self._said or len(self._said) >= MAX_SAID:
                return
            self._said.add(kind)
        if level >= 30:
            logger.warning("kafka_trouble", kind=kind, detail=text)
        else:
            logger.debug("kafka_says", kind=kind, detail=text)

    def joined(self, thread: threading.Thread, seconds: float) -> None:
        """Wait until this thread has ended, or so long, and say so then. Blocks."""
        thread.join(seconds)
        if thread.is_alive():
            self.complain("stop", f"the thread {thread.name!r} did not end within {seconds:g} s, and is left behind")

    def failed(self, who: str) -> None:
        """Log an unexpected error under way: with its traceback, every time."""
        logger.exception("kafka_failed", who=who)  # noqa: LOG004 - who calls this handles one

    def errors(self, then: Callable[[Any], None]) -> Callable[[Any], None]:
        """A function for the library's `error_cb`: complains, and passes the error on."""

        def heard(error: Any) -> None:
            self.complain(error.name(), error.str())
            then(error)

        return heard

    def recovered(self) -> None:
        """Note that the library works again, and log it once."""
        self.refusal = ""
        with self._lock:
            said, self._said = self._said, set()
        if said:
            logger.info("kafka_well_again", after=sorted(said))
