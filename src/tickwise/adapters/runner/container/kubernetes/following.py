"""Follows the output of a pod's task, over outages of the API and rotations of the node's file.

    2026-11-27T05:00:00.123456789Z hello↵      the kubelet writes a time before each line; it is taken out again

After a break the log is asked for since the second of the last line, and lines up to that one are passed over: by their
time, and of those of one time by their number. Counting bytes from the begin would not do: the kubelet gives its newest
file alone, and cuts that at 10 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from tickwise.adapters.runner.container.kubernetes.cluster import ClusterAway, ClusterRefused, JobCluster
from tickwise.adapters.runner.container.kubernetes.entering import ResultLines
from tickwise.adapters.runner.container.kubernetes.watch import TrackedPod
from tickwise.adapters.runner.slots import Attempt
from tickwise.ports.clock import Clock

FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 2.0
REST_SECONDS: Final = 20.0
"""The longest that the rest of a log is asked for, once the end of its pod is known and the API answers."""
MAX_STAMP: Final = 64
FOLLOWED: Final = 256
"""Logs that one executor follows at once."""
ASKED: Final = 16
"""Further logs that it asks for at once."""
ENDED: Final = 32
"""Logs of pods that are over, whose rest it reads at once."""
MAX_LOOK_SECONDS: Final = 10.0
"""Between two looks at a log that is not followed."""


class StampedLines:
    """Takes the times out of a log that comes in pieces, and passes over what was read before."""

    def __init__(self) -> None:
        self._last = ""
        """The time of the last line."""
        self._same = 0
        """The lines that were read with that time, the last one included."""
        self._size = 0
        """The bytes that were read of the last line."""
        self._is_whole = True
        self._skip_lines = 0
        self._skip_bytes = 0
        self._stamp = b""
        self._is_stamp = True
        self._passes = False
        self._is_again = False

    @property
    def since(self) -> str | None:
        """The second of the last line; None: none was read."""
        return f"{self._last[:19]}Z" if self._last else None

    def again(self) -> None:
        """The log comes once more, from `since` on."""
        self._stamp, self._is_stamp, self._passes, self._is_again = b"", True, False, True
        self._skip_lines = self._same if self._is_whole else self._same - 1

    def feed(self, piece: bytes) -> bytes:
        """The output in a piece that was not read before. Raises `ClusterAway` for a log without times."""
        output = bytearray()
        place = 0
        while place < len(piece):
            if self._is_stamp:
                space = piece.find(b" ", place)
                end = space if space >= 0 else len(piece)
                self._stamp += piece[place:end]
                place = end + 1
                if len(self._stamp) > MAX_STAMP:
                    raise ClusterAway("its log has lines without a time")
                if space >= 0:
                    self._begin_line()
                continue
            feed = piece.find(b"\n", place)
            end = len(piece) if feed < 0 else feed + 1
            if not self._passes:
                output += self._of_line(piece[place:end])
            place = end
            self._is_stamp = feed >= 0
        return bytes(output)

    def _of_line(self, content: bytes) -> bytes:
        passed = min(self._skip_bytes, len(content))
        self._skip_bytes -= passed
        self._size += len(content) - passed
        self._is_whole = content.endswith(b"\n")
        return content[passed:]

    def _begin_line(self) -> None:
        stamp, self._stamp, self._is_stamp = _comparable(self._stamp.decode("ascii", "replace")), b"", False
        self._passes = False
        if self._is_again and stamp < self._last:
            self._passes = True
        elif self._is_again and stamp == self._last and self._skip_lines > 0:
            self._skip_lines -= 1
            self._passes = True
        elif self._is_again and stamp == self._last and not self._is_whole:
            self._skip_bytes, self._is_again = self._size, False
        else:
            self._same = self._same + 1 if stamp == self._last else 1
            self._last, self._size, self._skip_bytes, self._is_again = stamp, 0, 0, False


def _comparable(stamp: str) -> str:
    """With nine digits of a second: Go leaves out zeros at the end."""
    whole, _, rest = stamp.removesuffix("Z").partition(".")
    return f"{whole}.{rest:0<9}"


class LogPlaces:
    """The connections of one executor for logs. A log that is followed holds one, with some 100 kB of TLS; when there
    are no more, logs are asked for now and then, with a pause that grows while nothing comes."""

    def __init__(self, followed: int = FOLLOWED, asked: int = ASKED, ended: int = ENDED) -> None:
        self.followed = asyncio.Semaphore(followed)
        self.asked = asyncio.Semaphore(asked)
        self.ended = asyncio.Semaphore(ended)


class PodLogFollower:
    """Follows the log of one pod."""

    def __init__(
        self, cluster: JobCluster, clock: Clock, namespace: str, tracked: TrackedPod, attempt: Attempt,
        places: LogPlaces, *, result_limit_bytes: int, grace_seconds: float,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._tracked = tracked
        self._attempt = attempt
        self._places = places
        self._grace_seconds = grace_seconds
        self._lines = StampedLines()
        self._limit: asyncio.Timeout | None = None
        self._over = asyncio.Event()
        self._read_bytes = 0
        self._look_seconds = 1.0
        self.results = ResultLines(result_limit_bytes)
        self.lost: str | None = None
        """The reason for which its end could not be read; None: all was."""

    async def to_end(self) -> None:
        """Return when all that there is was read, after the end of the pod. While the API is away, it waits."""
        pause, until = FIRST_PAUSE_SECONDS, None
        while True:
            pod = self._tracked.pod
            assert pod is not None
            is_over = pod.is_over or self._tracked.is_gone
            why, is_answer = "", True
            try:
                if is_over or not self._places.followed.locked():
                    async with self._places.ended if is_over else self._places.followed:
                        await self._read(pod.metadata.name, follow=not is_over)
                    pause = FIRST_PAUSE_SECONDS
                else:
                    await self._look(pod.metadata.name)
                if is_over:
                    break
            except ClusterAway as away:
                why, is_answer = str(away), away.is_answer
            except ClusterRefused as refused:
                why = refused.message
                if self._tracked.is_gone:
                    self.lost = f"its pod is gone: {why}"
                    break
            if is_over and is_answer:
                until = until or self._clock.monotonic() + REST_SECONDS
                if self._clock.monotonic() >= until:
                    self.lost = why
                    break
            await self._clock.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
        self._write(self.results.end())

    async def _look(self, name: str) -> None:
        """Read what there is, and wait for a while, or until something is known of the pod."""
        before = self._read_bytes
        async with self._places.asked:
            await self._read(name, follow=False)
        is_quiet = self._read_bytes == before
        self._look_seconds = min(2 * self._look_seconds, MAX_LOOK_SECONDS) if is_quiet else 1.0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._look_seconds):
                await self._over.wait()

    def over(self) -> None:
        """Wait no longer between two looks: its pod has ended."""
        self._over.set()

    def cut(self) -> None:
        """Follow no longer what does not end, for the pod has: read what there is, however slowly it comes."""
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def _read(self, name: str, *, follow: bool) -> None:
        trouble = self._attempt.trouble
        self._lines.again()
        try:
            async with asyncio.timeout(None) as limit:
                self._limit = limit if follow else None
                async for piece in self._cluster.log(self._namespace, name, since=self._lines.since, follow=follow):
                    if trouble.done() and trouble.result() == "output_limit":
                        return
                    fresh = self._lines.feed(piece)
                    self._read_bytes += len(fresh)
                    self._write(self.results.feed(fresh))
                    await self._attempt.sink.room()
        except TimeoutError:
            return  # it was cut
        finally:
            self._limit = None

    def _write(self, content: bytes) -> None:
        if content:
            self._attempt.write(content, grace_seconds=self._grace_seconds)
