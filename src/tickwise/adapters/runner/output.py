"""An attempt's output on its way to blob storage, while it is written.

    task ──write──────────► buffer ──every half second──► logs/<run>/<attempt>/000000, 000001, …, 00000n.last
         ├─tell_progress──► the newest one ──┤            logs/<run>/<attempt>.progress
    us ──┴─write_own──────► buffer, and where┘            logs/<run>/<attempt>.own      before the part that it is about

A store that refuses content for good (`SpoolFull`) costs that content alone: a line in the log says how much was lost.

Lines of ours are known by their place (`documents.log_origin`), never by their text, which a task can print as well.

An attempt that says nothing costs nothing: no buffer, no task, no blob.
"""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

from tickwise.documents.log_origin import Range, Ranges, joined, lines_of_ours, own_key, ranges_content
from tickwise.documents.progress import RunProgress, progress_content, progress_key, progress_of
from tickwise.domain.errors import Unavailable
from tickwise.domain.secrets.output_masking import MaskedStream, ValueForms
from tickwise.ports.blobs import Blobs, SpoolFull, log_chunk_key
from tickwise.ports.clock import Clock

FLUSH_SECONDS = 0.5
"""The greatest age of output that a reader in another process cannot see yet."""
CHUNK_BYTES = 1 << 20
"""Most bytes of one chunk, so that a reader never has to hold more."""
TAIL_BYTES = 2_000
"""The part of the end of the output that an error message may quote."""
WAITING_SECONDS = 600.0
"""The time that a successful run waits for a blob store that is full or away: a failed run would repeat its work."""
CLOSING_TRIES = 5
"""The number of times that the end of any other log is offered to a blob store that is away, before it is given up."""
MAX_CLOSING_SECONDS = 30.0
"""The longest time that the end of any other run waits for its log."""
MAX_PENDING_BYTES = 4 << 20
"""Output that waits to be stored before its source is made to wait, or loses what it says further."""
DROPPED = b"\n[output was dropped here: blob storage could not keep up]\n"

_logger = logging.getLogger(__name__)


class OutputSink:
    """Takes one attempt's output, keeps at most `limit_bytes` of it. For one event loop."""

    def __init__(
        self,
        blobs: Blobs,
        clock: Clock,
        run_id: UUID,
        attempt: int,
        *,
        limit_bytes: int,
        forms: ValueForms | None = None,
    ) -> None:
        """`forms`: of the secrets that are masked in it."""
        self._blobs = blobs
        self._clock = clock
        self._run_id = run_id
        self._attempt = attempt
        self._limit = self._room = limit_bytes
        self._pending = bytearray()
        self._progress: RunProgress | None = None
        self._chunk_count = 0
        self._writing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._hurried = asyncio.Event()
        self._stored = asyncio.Event()
        self._lost: str | None = None
        self._refused_bytes = 0
        self._refusal = ""
        self._refused_before = 0
        self._dropping = False
        self._tail = b""
        self._own_pending: list[Range] = []
        self._own: Ranges = ()
        self._own_told: Ranges = ()
        self._stored_bytes = 0
        self.forms = forms
        self._masked = None if forms is None else MaskedStream(forms)

    @property
    def is_full(self) -> bool:
        """Check whether so much output waits to be stored that no more may be added."""
        return self.pending_bytes > MAX_PENDING_BYTES

    @property
    def pending_bytes(self) -> int:
        """Output that was taken and is neither stored nor lost."""
        return len(self._pending)

    async def room(self) -> None:
        """Return when it is not full: for a source that can wait."""
        while self.is_full:
            self._stored.clear()
            await self._stored.wait()

    @property
    def kept_bytes(self) -> int:
        """The bytes of the log: what was taken of the output, less what was lost, with the lines about that."""
        return self._limit - self._room - self._refused_before - self._refused_bytes

    @property
    def lost(self) -> str | None:
        """The reason why some of the output could not be stored; None: all of it is, once this is closed."""
        return self._lost

    @property
    def tail(self) -> str:
        """The end of the output, as text."""
        rest = b"" if self._masked is None else self._masked.rest()
        return (self._tail + rest)[-TAIL_BYTES:].decode(errors="replace")

    def begin_task(self) -> None:
        """Count the output so far as none of the task: an error does not quote it."""
        self._tail = b""

    def write(self, content: bytes) -> bool:
        """Keep it; False once the limit is passed: then what was beyond the limit is gone."""
        return self._keep(content if self._masked is None else self._masked.feed(content))

    def _keep(self, content: bytes) -> bool:
        kept = content[: self._room]
        self._room -= len(kept)
        if kept:
            self._tail = (self._tail + kept)[-TAIL_BYTES:]
            if self._lost is not None:
                return len(kept) == len(content)
            self._pending += kept
            self._begin_writing()
        return len(kept) == len(content)

    def write_own(self, *texts: str) -> None:
        """Keep lines of Tickwise itself, each a line of its own in the log. They come before output that is held back
        because a secret may begin in it."""
        if self.is_full:
            self._drop()
            return
        said = lines_of_ours(texts)
        if self.forms is not None:
            said = self.forms.masked_text(said)
        if self._tail and not self._tail.endswith(b"\n"):
            said = f"\n{said}"
        begin = len(self._pending)
        self._keep(said.encode(errors="replace"))
        if len(self._pending) > begin:
            self._own_pending.append((begin, len(self._pending)))

    def end_output(self) -> None:
        """The task has ended: what waits behind a secret that may begin in it is kept now, before lines of ours."""
        if self.forms is not None and self._masked is not None:
            self._keep(self._masked.end())
            self._masked = MaskedStream(self.forms)

    def tell_progress(self, share: float, text: str) -> None:
        """Keep how far the attempt is, from 0 to 1, in the place of what was said before."""
        told = text if self.forms is None else self.forms.masked_text(text)
        self._progress = progress_of(share, told, self._clock.now())
        self._begin_writing()

    def _begin_writing(self) -> None:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_chunks())

    def write_or_drop(self, content: bytes) -> None:
        """Keep it, for a source that cannot wait: while it is full, a note stands for what is lost."""
        if not self.is_full:
            self._dropping = False
            self.write(content)
        else:
            self._drop()

    def _drop(self) -> None:
        """Let a line stand for what is lost from here on."""
        if not self._dropping:
            self._dropping = True
            begin = len(self._pending)
            self._keep(DROPPED)
            self._own_pending.append((begin, len(self._pending)))

    async def close(self, *, patient: bool = False) -> None:
        """Store the rest and mark the log as complete. Returns when that is done, or given up; raises nothing.

        `patient`: it is given up after `WAITING_SECONDS`, or as soon as `hurry` is called and a last try has failed."""
        if self._masked is not None:
            self._keep(self._masked.end())
        self._closing.set()
        writing = self._writing
        if writing is None:
            return
        limit = WAITING_SECONDS
        if patient:
            hurried = asyncio.ensure_future(self._hurried.wait())
            await asyncio.wait([writing, hurried], timeout=WAITING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            hurried.cancel()
        if not patient or self._hurried.is_set():
            self._hurried.set()
            limit = MAX_CLOSING_SECONDS
            await asyncio.wait([writing], timeout=MAX_CLOSING_SECONDS)
        if not writing.done():
            writing.cancel()
            self._lose(f"blob storage took more than {limit:.0f} s")

    def hurry(self) -> None:
        """Tell `close` to wait no longer: the process ends, or the run belongs to another executor."""
        self._hurried.set()

    def _lose(self, why: str) -> None:
        """Give the log up: that must not cost the run its ending."""
        _logger.warning("output of run %s attempt %d is incomplete: %s", self._run_id, self._attempt, why)
        self._lost = why
        self._pending.clear()
        self._own_pending.clear()
        self._stored.set()

    async def _write_chunks(self) -> None:
        failures = 0
        while True:
            closing = await self._closed_within(FLUSH_SECONDS)
            try:
                await self._put_progress()
                while len(self._pending) > CHUNK_BYTES:
                    await self._put(CHUNK_BYTES, last=False)
                if closing or self._pending:
                    await self._put(len(self._pending), last=closing)
                failures = 0
            except SpoolFull as full:
                failures += 1
                if closing and failures >= CLOSING_TRIES:
                    self._lose(f"{self._refused_bytes} bytes: {full.detail}")
                    return
                self._refuse(full.detail)
            except Unavailable as error:
                failures += 1
                if closing and failures >= CLOSING_TRIES and self._hurried.is_set():
                    self._lose(error.detail)
                    return
                await self._clock.sleep(0.1 * 2 ** min(failures, 4))
                continue
            except Exception as error:  # noqa: BLE001  # an unknown failure of the storage; a retry would not help
                self._lose(f"{type(error).__name__}: {error}")
                return
            if closing:
                return

    async def _closed_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _put_progress(self) -> None:
        """Before the output that tells of it: a reader that sees the line finds the progress."""
        progress, self._progress = self._progress, None
        if progress is not None:
            try:
                await self._blobs.put(progress_key(self._run_id, self._attempt), progress_content(progress))
            except Unavailable:
                self._progress = self._progress or progress
                raise

    async def _put(self, length: int, *, last: bool) -> None:
        key = log_chunk_key(self._run_id, self._attempt, self._chunk_count, last=last)
        note = self._note_of_loss()
        own = await self._put_own(len(note), length)
        await self._blobs.put(key, note + bytes(self._pending[:length]))
        if note:
            self._refused_before += self._refused_bytes - len(note)
            self._refused_bytes = 0
        self._chunk_count += 1
        self._own = own
        self._stored_bytes += len(note) + length
        self._own_pending = [(max(0, begin - length), end - length) for begin, end in self._own_pending if end > length]
        del self._pending[:length]
        self._stored.set()

    async def _put_own(self, note_bytes: int, length: int) -> Ranges:
        """Store which parts of the log are ours once the next part is there, before it is: a reader that sees a line
        knows whose it is. After a refusal the ranges of what is lost are taken back, before other content has their
        place. The ranges."""
        begins = self._stored_bytes + note_bytes
        coming = ((begins + begin, begins + min(end, length)) for begin, end in self._own_pending if begin < length)
        own = joined((*self._own, (self._stored_bytes, begins), *coming))
        if own != self._own_told:
            await self._blobs.put(own_key(self._run_id, self._attempt), ranges_content(own))
            self._own_told = own
        return own

    def _refuse(self, why: str) -> None:
        """Count what waits as lost. The progress is the newest one only, and is told again."""
        self._refused_bytes += len(self._pending)
        self._refusal = why
        self._pending.clear()
        self._own_pending.clear()
        self._stored.set()

    def _note_of_loss(self) -> bytes:
        """The line for the place in the log where output is missing; empty: none is."""
        if not self._refused_bytes:
            return b""
        return f"\n[{self._refused_bytes} bytes of output were lost here: {self._refusal}]\n".encode()
