"""The answers of the public status pages: made at most every `FRESH_SECONDS`, for all that ask.

    /status/SLUG ──► the directory of public pages ──► 404: not in it, also a page that is not public
                              │                            └─ no look at the store: a name that is guessed costs nothing
                              └──► the page, made once for all that ask ──► HTML, JSON, Atom, each kept as bytes

While the database is away, what was made last is answered, and says so.
Invariants: a request makes no look of its own while one is under way or fresh. It waits for one for `WAIT_SECONDS` at
most. Of pages that are not in the directory nothing is kept.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from tickwise.control.observing.status_pages import PublicStatus, StatusPageService
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.observing.status_pages import StatusPage
from tickwise.ports.clock import Clock
from tickwise.web.status.lines import as_json, iso, lines_of

FRESH_SECONDS: Final = 15.0
AGAIN_SECONDS: Final = 5.0
"""After a look that failed."""
WAIT_SECONDS: Final = 2.0

Value = TypeVar("Value")
Render = Callable[[str, Mapping[str, Any]], str]
"""The text of a template with these values."""


class PublicFormat(NamedTuple):
    """A form in which a page is answered."""

    ending: str
    """Of the address."""
    media: str


HTML: Final = PublicFormat("", "text/html; charset=utf-8")
JSON: Final = PublicFormat(".json", "application/json")
ATOM: Final = PublicFormat(".atom", "application/atom+xml; charset=utf-8")
FORMATS: Final = (JSON, ATOM, HTML)
"""By the ending that is tried first."""


class PublicAnswer(NamedTuple):
    """The bytes of an answer."""

    content: bytes
    compressed: bytes
    tag: str


class LastKnown(Generic[Value]):
    """A value that is made on demand, at most once in `FRESH_SECONDS`; while that fails, the one that was made last."""

    def __init__(self, make: Callable[[], Awaitable[Value]], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._value: Value | None = None
        self._until = float("-inf")
        self._making: asyncio.Task[Value] | None = None
        self.is_current = False
        """The last look did not fail."""
        self.made = 0
        """The looks that succeeded: another value, another number."""

    async def get(self) -> Value:
        """The value. Raises `StoreUnavailable` if none was ever made."""
        if self._clock.monotonic() >= self._until:
            if self._making is None:
                self._making = asyncio.create_task(self._made(), name="status page")
                self._making.add_done_callback(self._over)
            # Where a request has waited in vain, those after it do not wait.
            waits = self.is_current or self._value is None
            await asyncio.wait({self._making}, timeout=WAIT_SECONDS if waits else 0.0)
            if self._making is not None:
                self.is_current = False
        if self._value is None:
            raise StoreUnavailable("the state cannot be told now: the database does not answer")
        return self._value

    async def _made(self) -> Value:
        return await self._make()

    def _over(self, making: asyncio.Task[Value]) -> None:
        self._making = None
        failed = making.cancelled() or making.exception() is not None
        self.is_current = not failed
        self._until = self._clock.monotonic() + (AGAIN_SECONDS if failed else FRESH_SECONDS)
        if not failed:
            self._value = making.result()
            self.made += 1


class _KeptPage:
    """One public page, with the answers that were made of it."""

    def __init__(self, status: LastKnown[PublicStatus]) -> None:
        self.status = status
        self.answers: dict[tuple[PublicFormat, bool], tuple[int, PublicAnswer]] = {}


class StatusBoard:
    """The public status pages of a process."""

    def __init__(self, service: StatusPageService, clock: Clock, *, now: Callable[[], float], render: Render) -> None:
        """`now`: the store's time, near enough for people."""
        self._service = service
        self._clock = clock
        self._now = now
        self._render = render
        self._directory: LastKnown[Mapping[str, StatusPage]] = LastKnown(self._read, clock)
        self._kept: dict[str, _KeptPage] = {}

    async def answer(self, name: str) -> tuple[PublicFormat, PublicAnswer] | None:
        """The answer to a request for `name`, a slug with or without an ending; None: there is no such page. Raises
        `StoreUnavailable` if nothing is known."""
        form = next(each for each in FORMATS if name.endswith(each.ending))
        slug = name.removesuffix(form.ending) if form.ending else name
        directory = await self._directory.get()
        if slug not in directory:
            return None
        kept = self._kept.get(slug)
        if kept is None:
            kept = self._kept[slug] = _KeptPage(LastKnown(lambda: self._view(slug), self._clock))
        status = await kept.status.get()
        is_current = kept.status.is_current and self._directory.is_current
        made, found = kept.answers.get((form, is_current), (-1, None))
        if found is None or made != kept.status.made:
            found = self._made(form, status, is_current=is_current)
            kept.answers[form, is_current] = (kept.status.made, found)
        return form, found

    async def _read(self) -> Mapping[str, StatusPage]:
        found = {page.slug: page for page in await self._service.published()}
        for slug in self._kept.keys() - found.keys():
            del self._kept[slug]
        return found

    async def _view(self, slug: str) -> PublicStatus:
        directory = await self._directory.get()
        if slug not in directory:  # it went while this look waited
            raise StoreUnavailable("the page is gone")
        return await self._service.public_view(directory[slug])

    def _made(self, form: PublicFormat, status: PublicStatus, *, is_current: bool) -> PublicAnswer:
        now = self._now()
        lines = lines_of(status, now)
        if form is JSON:
            content = msgspec.json.encode(as_json(status, lines, is_current=is_current))
        else:
            template = "status.html" if form is HTML else "status.atom"
            values = {"page": status.page, "lines": lines, "is_current": is_current, "now": now, "iso": iso}
            content = self._render(template, values).encode()
        return PublicAnswer(content, gzip.compress(content, 6, mtime=0), f'"{sha256(content).hexdigest()[:24]}"')
