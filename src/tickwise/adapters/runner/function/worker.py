"""The process that runs functions: kept warm, fed in batches, started by `FunctionRunner` as a program of its own.

    reader thread: socket ──► queue ──wakes──► main thread: event loop, runs functions ──► results ──► socket

Synchronous functions run in the main thread one after another; asynchronous ones beside each other on its loop. The
reader thread goes on while a function holds the main thread: it sends what ended before, gives queued runs back when
one takes long, tells who has begun, and passes stop requests on. Results travel together when they come quickly.

Invariants: a run is begun here or returned, never both; every run that is not returned gets one result, unless the
process dies. When the executor goes away, so does this process, with its group.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import importlib
import io
import mmap
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from typing import Any, Protocol
from uuid import UUID

import msgspec

from tickwise.adapters.runner.checks import asked_pause_seconds
from tickwise.adapters.runner.function.wire import Batch, Frames, Hello, Item, Recall, Report, Result, Stop, frame
from tickwise.adapters.runner.process.python_launcher import exception_names
from tickwise.adapters.seclusion import seclude
from tickwise.ports.runner import Verdict

FLUSH_SECONDS = 0.002
"""Results that come within so much time travel together."""
LONG_SECONDS = 0.02
"""A run that takes so long is reported as begun, and those queued behind it are returned."""
OUTPUT_FLUSH_SECONDS = 0.25
YIELD_SECONDS = 0.005
"""The longest turn of synchronous functions before asynchronous ones get theirs."""
ENTRY_POINTS = "tickwise.functions"

_monotonic = time.monotonic  # noqa: TID251  # no caller can pass a clock to this process: it is its own root
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_TASK = "tickwise-run"  # a name that need not be made for each
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_running: contextvars.ContextVar[int] = contextvars.ContextVar("running", default=0)


class Registered(Protocol):
    """The attribute `__tickwise_task__` of a task of `tickwise_sdk`."""

    name: str
    function: Callable[..., Any]
    parameters: int
    is_async: bool
    context: Callable[..., Any]


class Stopped(BaseException):
    """Raised inside a function that shall stop. Not an `Exception`, so that a broad `except` does not swallow it."""


class OutputLimit(BaseException):
    """Raised inside a function that wrote more than it may."""


class _Output:
    """The output of one run that is not sent yet, and how far it is, if it said that."""

    __slots__ = ("content", "progress", "room")

    def __init__(self, limit_bytes: int) -> None:
        self.content = bytearray()
        self.room = limit_bytes
        self.progress: tuple[float, str] | None = None


class _Capture(io.TextIOBase):
    """Stands in for stdout and stderr: text goes to the log of the run that wrote it."""

    def __init__(self, original: Any, write: Callable[[int, str], bool]) -> None:
        self._original = original
        self._write = write

    def write(self, text: str) -> int:
        number = _running.get()
        if not number or not self._write(number, text):
            self._original.write(text)
        return len(text)

    def flush(self) -> None:
        self._original.flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._original.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read only here, an attribute in the base class
        return "utf-8"


class Worker:
    """One worker process: its connection, its loop and its functions."""

    def __init__(self, connection: socket.socket, progress: mmap.mmap, functions: dict[str, Registered]) -> None:
        self._connection = connection
        self._progress = memoryview(progress).cast("Q")
        """The run that holds the main thread, or 0, and the last asynchronous one that began: what the executor still
        reads when this process was killed before it told."""
        self._functions = functions
        self._loop = asyncio.new_event_loop()
        self._main = threading.get_ident()
        self._queue: deque[tuple[float, Item]] = deque()
        self._drain_planned = False
        self._flush_planned = False
        self._sending = threading.Lock()
        self._results: deque[Result] = deque()
        self._began: deque[tuple[int, float]] = deque()
        self._returned: deque[int] = deque()
        self._outputs: dict[int, _Output] = {}
        self._items: dict[int, Item] = {}
        self._live: dict[int, asyncio.Task[None]] = {}
        self._unannounced: dict[int, float] = {}
        self._current = 0
        self._current_since = 0.0
        self._current_base = 0.0
        self._announced = 0
        self._stops: set[int] = set()
        self._flushed_at = 0.0
        self._output_flushed_at = 0.0
        self._heard_at = 0.0
        self._base = 0.0

    def serve(self) -> None:
        """Run until the executor goes away."""
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for entry in self._functions.values():
            if hasattr(entry.context, "connect"):  # not that of the first release
                entry.context.connect(self._is_asked_to_stop)
            if hasattr(entry.context, "connect_progress"):
                entry.context.connect_progress(self._tell_progress)
        sys.stdout = _Capture(sys.stdout, self._print)
        sys.stderr = _Capture(sys.stderr, self._print)
        asyncio.set_event_loop(self._loop)
        threading.Thread(target=self._read, name="tickwise-reader", daemon=True).start()
        self._loop.run_forever()

    # ---------------------------------------------------------------------------------------- main thread

    def _drain(self) -> None:
        self._drain_planned = False
        queue = self._queue
        until = _monotonic() + YIELD_SECONDS
        while queue:
            try:
                base, item = queue.popleft()
            except IndexError:
                break  # the reader returned it
            self._begin(base, item)
            if self._live and _monotonic() > until:
                self._drain_planned = True
                self._loop.call_soon(self._drain)
                break
        self._flush()

    def _begin(self, base: float, item: Item) -> None:
        entry = self._functions.get(item.name)
        started = _monotonic()
        if entry is None:
            error = f"no function {item.name!r} is registered in this worker"
            moment = base + started
            unoffered = _failed(item.number, moment, moment, "unknown_function", error, verdict=Verdict.UNOFFERED)
            self._results.append(unoffered)
            return
        self._items[item.number] = item
        self._current_since, self._current_base = started, base
        self._progress[0] = self._current = item.number
        if entry.is_async:
            self._begin_async(base, item, entry)
        else:
            try:
                result = contextvars.copy_context().run(self._call, base, started, item, entry)
            except Stopped:  # it came between the function's end and ours
                result = self._stopped(item.number, base + started, base)
            self._end(result)
        self._current = self._progress[0] = 0

    def _call(self, base: float, started: float, item: Item, entry: Registered) -> Result:
        number = item.number
        _running.set(number)
        try:
            if self._stops and number in self._stops:
                self._stops.discard(number)
                moment = base + started
                return Result(number, moment, moment, verdict=Verdict.RELEASED)
            value = entry.function(*_arguments(item, entry))
            self._current = 0  # from here on a stop request comes too late
        except BaseException as error:  # noqa: BLE001  # a function may raise anything; the worker goes on
            self._current = 0
            return self._failure(number, base + started, base, error)
        return _succeeded(number, base + started, base + _monotonic(), value)

    def _begin_async(self, base: float, item: Item, entry: Registered) -> None:
        coroutine = self._await(base, item, entry)
        if sys.version_info >= (3, 12):
            task = asyncio.Task(coroutine, loop=self._loop, name=_TASK, eager_start=True)
            if task.done():
                return
        else:
            task = asyncio.Task(coroutine, loop=self._loop, name=_TASK)
        self._live[item.number] = task
        self._unannounced[item.number] = base + self._current_since

    async def _await(self, base: float, item: Item, entry: Registered) -> None:
        number = self._progress[1] = item.number
        _running.set(number)
        started = _monotonic()
        try:
            if self._stops and number in self._stops:
                raise Stopped
            value = await entry.function(*_arguments(item, entry))
        except BaseException as error:  # noqa: BLE001  # a function may raise anything; the worker goes on
            result = self._failure(number, base + started, base, error)
        else:
            result = _succeeded(number, base + started, base + _monotonic(), value)
        if self._live.pop(number, None) is not None:
            self._unannounced.pop(number, None)
        self._end(result)
        if not self._queue and not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._flush_planned = False
        self._flush()

    def _end(self, result: Result) -> None:
        """In the main thread, after the run: what it leaves behind, and the results if they have waited enough."""
        del self._items[result.number]
        self._stops.discard(result.number)
        self._results.append(result)
        if result.number in self._outputs or _monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self._flush()

    def _failure(self, number: int, started: float, base: float, error: BaseException) -> Result:
        ended = base + _monotonic()
        if isinstance(error, Stopped | asyncio.CancelledError) and number in self._stops:
            return self._stopped(number, started, base)
        if isinstance(error, OutputLimit):
            return _failed(number, started, ended, "output_limit", "it wrote more output than the job allows")
        try:
            with contextlib.suppress(OutputLimit):  # the exception says more of the run than that its traceback is cut
                self._print(number, "".join(traceback.format_exception(_without_our_frames(error))))
            return _raised(number, started, ended, error)
        except Exception as other:  # noqa: BLE001  # its text and its attributes are code of the task's
            text = f"{type(error).__name__}, which cannot be told: {type(other).__name__}"
            return _failed(number, started, ended, "error", text)

    def _stopped(self, number: int, started: float, base: float) -> Result:
        return Result(number, started, base + _monotonic(), verdict=Verdict.CANCELLED, reason="cancelled")

    def _on_term(self, _number: int, _frame: Any) -> None:
        """Sent by our own reader thread for the current run; a TERM that came late, or from elsewhere, is ignored."""
        if self._current and self._current in self._stops and self._current not in self._live:
            raise Stopped

    def _print(self, number: int, text: str) -> bool:
        """Keep the output of a run; False if there is no such run any more."""
        item = self._items.get(number)
        if item is None:
            return False
        output = self._output_of(item)
        content = text.encode(errors="replace")
        kept = content[: output.room]
        output.room -= len(kept)
        with self._sending:
            output.content += kept
        if len(kept) < len(content):
            raise OutputLimit
        return True

    def _output_of(self, item: Item) -> _Output:
        found = self._outputs.get(item.number)
        return found or self._outputs.setdefault(item.number, _Output(item.output_limit_bytes))

    # ---------------------------------------------------------------------------------------- both threads

    def _tell_progress(self, run_id: UUID, share: float, text: str, line: str) -> None:
        """Note how far a run is; it goes with the output. Its function may tell from any thread."""
        for number, item in list(self._items.items()):
            if item.run_id == run_id.bytes:
                self._output_of(item).progress = share, _whole(text)
                self._print(number, f"{line}\n")

    def _is_asked_to_stop(self, run_id: UUID) -> bool:
        """Check whether one of the runs that are here shall stop. Its function may ask from any thread."""
        return any(number in self._stops for number, item in list(self._items.items()) if item.run_id == run_id.bytes)

    def _flush(self) -> None:
        """Send all waiting reports. The holder of the lock sends everything, in order of arrival."""
        with self._sending:
            now = _monotonic()
            results = _taken(self._results)
            report = Report(results, _taken(self._began), _taken(self._returned))
            if self._outputs:
                self._add_outputs(report, now)
            if results or report.began or report.returned or report.outputs or report.progress:
                self._connection.sendall(_framed(report))
            self._flushed_at = now

    def _add_outputs(self, report: Report, now: float) -> None:
        """All output of the runs that ended; that of the others, and their progress, if some time has passed."""
        due = [number for number in (result.number for result in report.results) if number in self._outputs]
        taken = [(number, bytes(self._outputs.pop(number).content)) for number in due]
        if now - self._output_flushed_at >= OUTPUT_FLUSH_SECONDS:
            self._output_flushed_at = now
            for number, output in list(self._outputs.items()):
                if output.content:
                    taken.append((number, bytes(output.content)))
                    output.content.clear()
                if output.progress is not None:
                    report.progress.append((number, *output.progress))
                    output.progress = None
        report.outputs = [(number, content) for number, content in taken if content]

    # ---------------------------------------------------------------------------------------- reader thread

    def _read(self) -> None:
        try:
            self._read_until_gone()
        finally:
            os.killpg(0, signal.SIGKILL)  # the executor is gone, or we are broken: leave nothing behind

    def _read_until_gone(self) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        frames = Frames()
        decode = msgspec.msgpack.Decoder(Batch | Stop | Recall).decode
        while True:
            if poll.poll(self._patience_milliseconds()):
                content = self._connection.recv(1 << 18)
                if not content:
                    return
                self._heard_at = _monotonic()
                for body in frames.feed(content):
                    message = decode(body)
                    if isinstance(message, Batch):
                        self._take(message)
                    elif isinstance(message, Stop):
                        self._stop(message.number)
                    else:
                        self._return_queued()
            self._watch()

    def _patience_milliseconds(self) -> int | None:
        if not (self._queue or self._live or self._current or self._results or self._outputs):
            return None
        return 10 if _monotonic() - self._heard_at < 0.2 else 100

    def _take(self, batch: Batch) -> None:
        base = self._base = batch.base
        self._queue.extend([(base, item) for item in batch.items])
        if not self._drain_planned:
            self._drain_planned = True
            self._loop.call_soon_threadsafe(self._drain)

    def _watch(self) -> None:
        current, since, base = self._current, self._current_since, self._current_base
        now = _monotonic()
        if current and current != self._announced and now - since >= LONG_SECONDS and current == self._current:
            self._announced = current
            self._began.append((current, base + since))
        for number, started in list(self._unannounced.items()):
            if now + self._base - started >= LONG_SECONDS:
                self._unannounced.pop(number, None)
                self._began.append((number, started))
        if current and now - since >= LONG_SECONDS:
            self._return_queued()
        if self._returned or self._began or now - self._flushed_at >= 5 * FLUSH_SECONDS:
            self._flush()

    def _return_queued(self) -> None:
        """Return the runs that have not begun; the next look reports them to the executor."""
        while self._queue:
            try:
                _, item = self._queue.pop()
            except IndexError:
                break  # the main thread took the last one
            self._returned.append(item.number)

    def _stop(self, number: int) -> None:
        self._stops.add(number)
        for entry in list(self._queue):
            if entry[1].number == number:
                try:
                    self._queue.remove(entry)
                except ValueError:
                    break  # it has just begun
                moment = entry[0] + _monotonic()
                self._stops.discard(number)
                self._results.append(Result(number, moment, moment, verdict=Verdict.RELEASED))
                self._flush()
                return
        task = self._live.get(number)
        if task is not None:
            self._loop.call_soon_threadsafe(task.cancel)
        elif self._current == number:
            signal.pthread_kill(self._main, signal.SIGTERM)
        elif number not in self._items:
            self._stops.discard(number)  # it has ended


def _taken(queue: deque[Any]) -> list[Any]:
    return [queue.popleft() for _ in range(len(queue))]


def _without_our_frames(error: BaseException) -> BaseException:
    """The traceback begins in the function, not in the worker that called it."""
    if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
        return error.with_traceback(error.__traceback__.tb_next)
    return error


def _arguments(item: Item, entry: Registered) -> tuple[Any, ...]:
    if entry.parameters == 0:
        return ()
    payload = _decode(item.payload)
    if entry.parameters == 1:
        return (payload,)
    traced = {} if item.traceparent is None else {"traceparent": item.traceparent, "tracestate": item.tracestate}
    context = entry.context(
        job_id=UUID(bytes=item.job_id),
        run_id=UUID(bytes=item.run_id),
        attempt=item.attempt,
        nominal_time=_EPOCH + timedelta(seconds=item.nominal),
        due_time=_EPOCH + timedelta(seconds=item.due),
        fencing_token=item.token,
        namespace=item.namespace,
        **traced,
    )
    return context, payload


def _succeeded(number: int, started: float, ended: float, value: Any) -> Result:
    if value is None:
        return Result(number, started, ended)
    try:
        return Result(number, started, ended, _encode(value).decode())
    except Exception as error:  # noqa: BLE001  # what it returned may be too large for our memory, too
        text = f"the function's result is not JSON: {error}"
        return _failed(number, started, ended, "result", text)


def _raised(number: int, started: float, ended: float, error: BaseException) -> Result:
    name, said = type(error).__name__, str(error)
    text = f"{name}: {said}".rstrip(": ") if said else name
    if getattr(error, "__tickwise_permanent__", False) is True:
        result = _failed(number, started, ended, "invalid", text, verdict=Verdict.INVALID)
    else:
        result = _failed(number, started, ended, "error", text)
        result.retry_after_seconds = asked_pause_seconds(getattr(error, "retry_after_seconds", None))
    result.symptoms = tuple(map(_whole, exception_names(type(error))))
    return result


def _failed(
    number: int, started: float, ended: float, reason: str, error: str, *, verdict: Verdict = Verdict.FAILED
) -> Result:
    return Result(number, started, ended, verdict=verdict, reason=reason, error=_whole(error[:4_000]))


def _whole(text: str) -> str:
    """With each lone surrogate replaced, as in names of files that are not UTF-8: on the wire a text is UTF-8."""
    return text.encode(errors="replace").decode()


def _framed(report: Report) -> bytes:
    """Ready to be sent. A result that cannot be sent becomes a failure, and the others of its report go as they are."""
    try:
        return frame(report)
    except (ValueError, TypeError, OverflowError):
        report.results = list(map(_sendable, report.results))
        return frame(report)


def _sendable(result: Result) -> Result:
    try:
        frame(Report([result]))
    except (ValueError, TypeError, OverflowError) as error:
        text = f"its result cannot be sent: {error}"
        return _failed(result.number, result.started, result.ended, "result", text)
    return result


def _looked_at(place: str, error: Exception) -> str:
    """The places in which a missing module was looked for; empty for another error."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    is_itself = f"{place}.".startswith(f"module {error.name}.")
    places = f"in {os.getcwd()}, on PYTHONPATH, and among the packages of {sys.executable}"
    return f"; it is looked for {places}" if is_itself else f"; it imports that, which is looked for {places}"


def load_functions(modules: Sequence[str]) -> tuple[dict[str, Registered], list[str]]:
    """The decorated functions of the modules and of installed packages, and what went wrong while looking."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    places: list[tuple[str, Callable[[], Any]]] = [
        (f"module {name}", functools.partial(importlib.import_module, name)) for name in modules
    ]
    places += [(f"entry point {point.name}", point.load) for point in entry_points(group=ENTRY_POINTS)]
    for place, load in places:
        try:
            loaded = load()
        except Exception as error:  # noqa: BLE001  # an import may raise anything, the operator is told
            problems.append(f"{place} cannot be loaded: {type(error).__name__}: {error}{_looked_at(place, error)}")
            continue
        values = list(vars(loaded).values()) if hasattr(loaded, "__path__") or hasattr(loaded, "__spec__") else [loaded]
        tasks = [value for value in values if hasattr(value, "__tickwise_task__")]
        if not tasks:
            problems.append(f"{place} has no function decorated with tickwise_sdk.task")
        for value in tasks:
            name = value.__tickwise_task__.name
            if found.setdefault(name, value) is not value:
                problems.append(f"{place} registers {name!r}, which another place registers too")
    # Read now: a module that was loaded after a task may have put middleware around it.
    return {name: value.__tickwise_task__ for name, value in found.items()}, problems


def main(arguments: Sequence[str]) -> None:
    """`worker SOCKET_DESCRIPTOR PROGRESS_DESCRIPTOR MODULE…`, by `FunctionRunner` only."""
    connection = socket.socket(fileno=int(arguments[0]))
    connection.setblocking(True)
    progress = mmap.mmap(int(arguments[1]), mmap.PAGESIZE)
    seclude()
    sys.path.insert(0, os.getcwd())  # as `python -m` does; only now, so that no file there shadows what we import
    functions, problems = load_functions(arguments[2:])
    connection.sendall(
        frame(Hello([(entry.name, entry.is_async) for entry in functions.values()], list(map(_whole, problems))))
    )
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    Worker(connection, progress, functions).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
