"""Passwords: which are taken, and how they are hashed.

NIST SP 800-63B, section 3.1.1: a length, a list of common ones, no rule about kinds of characters, all of Unicode. The
hash is argon2id with the parameters of RFC 9106, section 4, second choice (64 MiB, three passes).

A hash takes a core for a tenth of a second and 64 MiB, and anybody may ask for one. So few are made at once, few wait,
and all others are told to come again: memory and the cores of other requests stay bounded. People who are known where
they sign in have places of their own and come first, so that a flood of guesses does not keep them out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from tickwise.domain.errors import Busy, Invalid

T = TypeVar("T")

MIN_CHARACTERS: Final = 12
"""Between the 15 that NIST asks for where a password is all, and the 8 beside a second factor: common ones are refused
besides."""
MAX_CHARACTERS: Final = 256
MAX_WAITING: Final = 16
"""Hashes that wait for their turn: one and a half seconds of work."""

SERVICE: Final = "tickwise"
OWN_CHARACTERS_MIN: Final = 8
"""Of a password without what follows from its context: as many as NIST asks for at least."""
CONTEXT_WORD_CHARACTERS_MIN: Final = 3
RUN_CHARACTERS_MIN: Final = 3
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_REPEATED: Final = re.compile(r"(.{1,64}?)\1+")

_GUESSES_LOG10_MIN: Final = 6.0
"""A password that is found among the first million guesses is common."""
_MEASURED_CHARACTERS: Final = 72
"""The estimate takes longer than linear time."""
_MEMORY_KIB: Final = 64 * 1024
_PASSES: Final = 3


def normalized(password: str) -> str:
    """The password in the one form that is hashed (NFKC), so that it is the same from every keyboard."""
    return unicodedata.normalize("NFKC", password)


def check_password(password: str, pointer: str, about: Collection[str] = ()) -> None:
    """Raises `Invalid` for a password that is too short, too long or easily guessed. `about`: words of the person, such
    as the name and the e-mail."""
    text = normalized(password)
    if len(text) < MIN_CHARACTERS:
        raise Invalid(
            f"the password has {len(text)} characters, and needs {MIN_CHARACTERS}: take some words, for instance",
            pointer=pointer,
            code="password_weak",
        )
    if len(text) > MAX_CHARACTERS:
        raise Invalid(f"a password has {MAX_CHARACTERS} characters at most", pointer=pointer, code="password_weak")
    if len(own_part(text, about)) < OWN_CHARACTERS_MIN:
        raise Invalid(
            f"the password consists mostly of a name, an e-mail address, the word {SERVICE}, a year, or of repeated or "
            "consecutive characters, which are tried first; add some words that have nothing to do with the person",
            pointer=pointer,
            code="password_weak",
        )
    # 30,000 common passwords and as many words: 30 ms to load, so only where a password is chosen.
    from zxcvbn import zxcvbn

    words = [SERVICE, *about, *(part for word in about for part in word.replace("@", ".").split("."))]
    estimate = zxcvbn(text[:_MEASURED_CHARACTERS], user_inputs=[word for word in words if word])
    if float(estimate["guesses_log10"]) < _GUESSES_LOG10_MIN:
        raise Invalid(
            "the password is common, or follows from a name or a pattern: it is among the first that are tried; "
            "take some words that do not belong together",
            pointer=pointer,
            code="password_weak",
        )


def own_part(password: str, about: Collection[str] = ()) -> str:
    """The letters and digits that remain of a password without what follows from its context: the words of `about`,
    the service's name, years, and all but the first of repeated parts and of consecutive characters.

    NIST SP 800-63B, 3.1.1.2 asks for context-specific words to be refused; an estimate of guesses counts a word that is
    written three times as three words.
    """
    words = {SERVICE}
    for each in about:
        parts = re.findall(r"[^\W_]+", each.casefold())
        words |= {"".join(parts), *parts}
    text = password.casefold()
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= CONTEXT_WORD_CHARACTERS_MIN:
            text = text.replace(word, " ")
    text = "".join(re.findall(r"[^\W_]", _YEAR.sub(" ", text)))
    return _REPEATED.sub(r"\1", _without_runs(text))


def _without_runs(text: str) -> str:
    """The first character of each run of three or more that count up or down, such as 1234 or cba."""
    kept: list[str] = []
    place = 0
    while place < len(text):
        end, step = place + 1, 0
        while end < len(text) and (ord(text[end]) - ord(text[end - 1])) in ((step,) if step else (1, -1)):
            step = ord(text[end]) - ord(text[end - 1])
            end += 1
        kept.append(text[place] if end - place >= RUN_CHARACTERS_MIN else text[place:end])
        place = end
    return "".join(kept)


class Passwords:
    """Hashes and verifies, a few at once."""

    def __init__(self, *, at_once: int | None = None, max_waiting: int = MAX_WAITING) -> None:
        """`at_once`: None: half of the cores, so that the other half serves other requests."""
        self._hasher = PasswordHasher(time_cost=_PASSES, memory_cost=_MEMORY_KIB, parallelism=1, type=Type.ID)
        self._at_once = at_once or max(1, (os.cpu_count() or 2) // 2)
        self._threads = ThreadPoolExecutor(self._at_once, thread_name_prefix="passwords")
        self._max_waiting = max_waiting
        self._under_way = 0
        self._known: deque[asyncio.Future[None]] = deque()
        """Those that come first, each until it is its turn."""
        self._others: deque[asyncio.Future[None]] = deque()
        self._decoy: str | None = None

    async def hash(self, password: str) -> str:
        """The encoded hash. Raises `Busy`."""
        return await self._run(lambda: self._hasher.hash(normalized(password)))

    async def verify(self, encoded: str | None, password: str, *, first: bool = False) -> bool:
        """Check whether the password belongs to the hash. With None (no user of that name, or a user without a
        password) the answer is False, after as much work: the time shows nothing. `first`: before those that wait,
        but for others like it. Raises `Busy`."""
        text = normalized(password)[: MAX_CHARACTERS + 1]
        if encoded is None:
            if self._decoy is None:
                self._decoy = await self._run(lambda: self._hasher.hash("decoy"))
            await self._run(lambda: self._verified(self._decoy or "", text), first=first)
            return False
        return await self._run(lambda: self._verified(encoded, text), first=first)

    def check_room(self, *, first: bool = False) -> None:
        """Raise `Busy` if a `verify` of now would find no place to wait, so that what leads to it need not be done."""
        if self._under_way >= self._at_once and len(self._known if first else self._others) >= self._max_waiting:
            raise _busy()

    def close(self) -> None:
        """End the threads; what is under way is waited for."""
        self._threads.shutdown()

    def _verified(self, encoded: str, text: str) -> bool:
        try:
            return self._hasher.verify(encoded, text)
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, work: Callable[[], T], *, first: bool = False) -> T:
        loop = asyncio.get_running_loop()
        if self._under_way < self._at_once:
            self._under_way += 1
        else:
            await self._turn(loop.create_future(), self._known if first else self._others)
        done = loop.run_in_executor(self._threads, work)
        # A caller that leaves frees no place: its work is still in the thread.
        done.add_done_callback(self._ended)
        return await asyncio.shield(done)

    async def _turn(self, turn: asyncio.Future[None], waiting: deque[asyncio.Future[None]]) -> None:
        """Wait for the place of one that has ended."""
        if len(waiting) >= self._max_waiting:
            raise _busy()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            with contextlib.suppress(ValueError):
                waiting.remove(turn)
            raise

    def _ended(self, done: asyncio.Future[T]) -> None:
        self._pass_on()
        if not done.cancelled():
            done.exception()  # read: the caller may have left

    def _pass_on(self) -> None:
        """The place of one that has ended is that of the next."""
        for waiting in (self._known, self._others):
            while waiting:
                turn = waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._under_way -= 1


def _busy() -> Busy:
    return Busy("too many people sign in at once; try again in a few seconds")
