"""Runs functions in warm worker processes.

    launch ──► lane (one per function) ──batches──► worker process ──reports──► ended
                  ▲                                     │ given back, or died before it began
                  └─────────────────────────────────────┘

A lane knows how long its function takes. Quick ones travel in batches of hundreds; a slow synchronous one gets a
worker to itself; slow asynchronous ones run beside each other. A run that waits behind a run that turns out to be slow
comes back and goes elsewhere. A run that does not stop takes its worker with it, and nobody else who had not begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from operator import attrgetter
from uuid import UUID

from tickwise.adapters.runner.function.queue import FunctionQueue, QueuedRun
from tickwise.adapters.runner.function.wire import Hello, Report, Result
from tickwise.adapters.runner.function.worker_process import WorkerProcess, WorkerSettings
from tickwise.adapters.runner.kinds import FunctionKind
from tickwise.adapters.runner.output import OutputSink
from tickwise.adapters.runner.process.tree import UNKILLABLE, Survivors
from tickwise.adapters.runner.process.work_folder import WorkFolder
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.runner.slots import with_log
from tickwise.domain.errors import Bug, Misconfigured
from tickwise.ports.runner import Assignment, Ending, Reports, TaskKind, Verdict

BATCH_RUNS = 250
ENTRY_POINTS = "tickwise.functions"
WINDOW_RUNS = 1_000
"""Most quick runs that a worker holds: about 30 ms of work, enough that it never waits for us."""
ASYNC_RUNS = 100
"""Most slow asynchronous runs beside each other in one worker."""
IDLE_SECONDS = 60.0
"""A worker that had nothing to do for so long ends; one stays."""
HOUSE_SECONDS = 1.0
"""Between two looks at idle workers, and at runs that keep their worker from saying anything."""
RESTART_SECONDS = (0.1, 0.5, 2.0, 10.0)
"""Pauses before another start after workers that ended before they were ready."""
START_SECONDS = 60.0
MAX_WAIT_SECONDS = 5.0
"""The longest time that a run may wait here for a worker. Quick runs wait milliseconds; one that waits for seconds
stands behind slow ones, and another executor may be idle. Given back sooner, it would be claimed and given back in a
circle."""

_logger = logging.getLogger(__name__)


def _last_words(worker: WorkerProcess) -> str:
    """The facts about a worker's death."""
    if worker.unkillable:
        return "its worker process does not end although it was killed: it hangs inside the kernel"
    if worker.sacrificed:
        return "its worker process was killed because another run in it did not stop"
    tail = worker.stderr_tail.decode(errors="replace").strip()
    status = worker.exit_status
    how = f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
    return f"its worker process ended ({how}){': ' + tail if tail else ''}"


_oldest = attrgetter("oldest")
_new_ending = tuple.__new__
"""An ending without the steps of its constructor, for the one sort that is made tens of thousands of times a second."""
_OK = Verdict.OK


def _installed_functions() -> bool:
    """Check whether an installed package brings functions."""
    return bool(entry_points(group=ENTRY_POINTS))


class FunctionRunner:
    """The runner of kind `function`. Without modules and entry points it offers nothing and starts no process."""

    def __init__(self, settings: RunnerSettings, *, workers: int, modules: Sequence[str]) -> None:
        self._settings = settings
        self._workers_most = workers
        self._modules = modules
        self._lanes: dict[str, FunctionQueue] = {}
        self._runs: dict[int, QueuedRun] = {}
        """By the run's id as a number, which has a quicker hash than the id itself."""
        self._workers: list[WorkerProcess] = []
        self._worker_count = 0
        self._labels: tuple[str, ...] = ()
        self._arrivals = 0
        self._released = 0
        """Give back every run that arrived until then and has not begun."""
        self._failed_starts = 0
        self._may_start_at = 0.0
        self._restart: asyncio.TimerHandle | None = None
        self._known: asyncio.Future[Hello] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self._closing_sinks: dict[int, OutputSink] = {}
        """Of runs that are over and whose output is being stored, by the number of the run."""
        self._housekeeping: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="function-runner")
        self._survivors = Survivors(self._threads, settings.clock)
        self._folder: WorkFolder | None = None
        """Nothing is written there; it is how the next start knows what a killed executor's workers left behind."""
        self._closing = False
        self._kinds = (FunctionKind(),)
        self._reports: Reports
        self._now: Callable[[], float]

    @property
    def kinds(self) -> Sequence[TaskKind]:
        return self._kinds

    def offers(self) -> Sequence[str]:
        return sorted(self._lanes)

    def labels(self) -> Sequence[str]:
        return self._labels

    def spare(self) -> int:
        """The number of further runs that would begin at once now, at best: what an executor may claim before it knows
        their pace.

        Without a quick or an asynchronous function that is one for each worker with nothing to do, or not yet started.
        """
        free = [w for w in self._workers if not (w.exclusive or w.reserved or w.killed)]
        unstarted = self._workers_most - len(self._workers)
        lanes = self._lanes.values()
        if any(lane.is_quick for lane in lanes):
            places = unstarted * WINDOW_RUNS + sum(WINDOW_RUNS - worker.brief for worker in free)
        elif any(lane.is_async for lane in lanes):
            places = unstarted * ASYNC_RUNS + sum(ASYNC_RUNS - len(worker.slow) for worker in free)
        else:
            places = unstarted + sum(not worker.brief for worker in free)
        return max(0, places - sum(len(lane.waiting) for lane in lanes)) if lanes else 0

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Start a first worker to learn which functions there are. Raises `Misconfigured` if one cannot be loaded."""
        self._reports, self._now = reports, now
        if not self._workers_most or not (self._modules or _installed_functions()):
            return
        settings = self._settings
        self._folder = await WorkFolder.open(
            settings.work_root, threads=self._threads, clock=settings.clock, lease_file=settings.lease_file
        )
        self._known = asyncio.get_running_loop().create_future()
        self._start_worker()
        try:
            hello = await asyncio.wait_for(self._known, START_SECONDS)
        except TimeoutError:
            await self.close()
            raise Misconfigured(
                f"the modules of function_modules ({', '.join(self._modules)}) take longer than {START_SECONDS:.0f} s "
                "to import; move the work done at import into their functions"
            ) from None
        except Misconfigured:
            await self.close()
            raise
        if hello.problems:
            await self.close()
            raise Misconfigured("functions could not be loaded: " + "; ".join(hello.problems))
        self._housekeeping = asyncio.get_running_loop().create_task(self._housekeep())

    # ---------------------------------------------------------------------------------------- in

    def launch(self, assignments: Sequence[Assignment]) -> None:
        runs, lanes = self._runs, self._lanes
        arrival, now = self._arrivals, self._settings.clock.monotonic()
        for assignment in assignments:
            lane = lanes.get(assignment.task["name"])
            if lane is None or self._closing:
                self._refuse(assignment)
                continue
            run = runs[assignment.run_id.int] = QueuedRun(assignment, lane, arrival := arrival + 1, now)
            lane.waiting.append(run)
        self._arrivals = arrival
        self._feed()

    def _refuse(self, assignment: Assignment) -> None:
        now = self._now()
        if self._closing:
            self._reports.ended(assignment.run_id, Ending(Verdict.RELEASED, now, now))
            return
        error = (
            f"this executor has no function {assignment.task['name']!r}; "
            "add the module that registers it to function_modules, or send the job to a queue whose executors have it"
        )
        self._reports.ended(assignment.run_id, Ending(Verdict.UNOFFERED, now, now, "unknown_function", error))

    def stop(self, run_id: UUID, *, grace_seconds: float) -> None:
        run = self._runs.get(run_id.int)
        if run is not None:
            self._stop(run, "cancelled", grace_seconds)
        elif (sink := self._closing_sinks.get(run_id.int)) is not None:
            sink.hurry()

    def _stop(self, run: QueuedRun, reason: str, grace_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        if run.stop_reason is not None:
            if run.deadline is not None and until < run.patience_until:
                run.deadline.cancel()
                run.patience_until = until
                run.deadline = loop.call_later(grace_seconds, self._out_of_patience, run)
            return
        run.stop_reason = reason
        worker = run.worker
        if worker is None:
            run.lane.waiting.remove(run)
            self._release(run)
            return
        if run.deadline is not None:
            run.deadline.cancel()
        worker.ask_to_stop(run)
        run.patience_until = until
        run.deadline = loop.call_later(grace_seconds, self._out_of_patience, run)

    def _out_of_patience(self, run: QueuedRun) -> None:
        worker = run.worker
        if worker is None or self._runs.get(run.assignment.run_id.int) is not run:
            return
        if run.started is None and worker.current() != run.number:
            return  # it waits in the worker, which answers the request when it gets to it
        worker.sacrificed = True
        worker.kill()

    def release_waiting(self) -> None:
        self._released = self._arrivals
        for lane in self._lanes.values():
            while lane.waiting:
                self._release(lane.waiting.popleft())
        for worker in self._workers:
            if worker.held:
                worker.recall()

    def _give_up_waiting(self, now: float) -> None:
        """Give back runs that waited too long behind others: another executor may have a free worker."""
        error = f"no worker was free for it within {MAX_WAIT_SECONDS:.0f} s"
        for lane in self._lanes.values():
            while lane.waiting and now - lane.waiting[0].launched > MAX_WAIT_SECONDS:
                run = lane.waiting.popleft()
                # Until the executor has joined the store there is no run, and no time of the store.
                moment = self._now()
                self._report(run, Ending(Verdict.UNOFFERED, moment, moment, "busy", error))

    # ---------------------------------------------------------------------------------------- feeding

    def _feed(self) -> None:
        if self._closing:
            return
        for worker in self._workers:
            # A queue that still needs a worker reserves it again below; the queue of the oldest run goes first.
            worker.reserved = False
        while any(self._feed_lane(lane) for lane in self._hungry()):
            pass

    def _hungry(self) -> Sequence[FunctionQueue]:
        """Lanes with something to do, in the order of their oldest runs, so none starves."""
        lanes = [lane for lane in self._lanes.values() if lane.waiting]
        return sorted(lanes, key=_oldest) if len(lanes) > 1 else lanes

    def _feed_lane(self, lane: FunctionQueue) -> bool:
        """Send some of a lane's runs to the best worker; False if there is no place now."""
        if lane.is_quick:
            worker = self._least_loaded(lambda worker: WINDOW_RUNS - worker.brief)
            room = min(BATCH_RUNS, WINDOW_RUNS - worker.brief) if worker else 0
        elif lane.is_async:
            worker = self._least_loaded(lambda worker: ASYNC_RUNS - len(worker.slow))
            room = 1 if lane.mean_seconds is None else ASYNC_RUNS - len(worker.slow) if worker else 0
        else:
            worker = self._free_for_long()
            room = 1
        if worker is None:
            return False
        waiting = lane.waiting
        runs = [waiting.popleft() for _ in range(min(room, len(waiting)))]
        worker.send(runs)
        if not lane.is_quick:
            if lane.is_async:
                worker.slow.update(run.number for run in runs)
            else:
                worker.exclusive = True
        return True

    def _least_loaded(self, room: Callable[[WorkerProcess], int]) -> WorkerProcess | None:
        best: WorkerProcess | None = None
        for worker in self._workers:
            if (
                worker.ready
                and not (worker.exclusive or worker.reserved or worker.killed)
                and room(worker) > 0
                and (best is None or len(worker.held) < len(best.held))
            ):
                best = worker
        if best is None or (best.brief >= BATCH_RUNS and len(self._workers) < self._workers_most):
            self._start_worker()
        return best

    def _free_for_long(self) -> WorkerProcess | None:
        """A worker with nothing in it; else one whose main thread is free; else one is kept from taking more."""
        usable = [w for w in self._workers if w.ready and not (w.exclusive or w.killed)]
        free = min((w for w in usable if not w.brief), key=lambda w: len(w.held), default=None)
        if free is not None and (not free.held or len(self._workers) >= self._workers_most):
            return free
        self._start_worker()
        if len(self._workers) >= self._workers_most and usable and not any(w.reserved for w in usable):
            min(usable, key=lambda w: w.brief).reserved = True
        return None

    # ---------------------------------------------------------------------------------------- workers

    def _start_worker(self) -> None:
        if len(self._workers) >= self._workers_most or self._closing or any(not w.ready for w in self._workers):
            return
        wait = self._may_start_at - self._settings.clock.monotonic()
        if wait > 0:
            if self._restart is None:
                self._restart = asyncio.get_running_loop().call_later(wait, self._start_again)
            return
        assert self._folder is not None
        self._worker_count += 1
        worker = WorkerProcess(
            WorkerSettings(
                modules=self._modules,
                pass_environment=self._settings.pass_environment,
                clock=self._settings.clock,
                threads=self._threads,
                survivors=self._survivors,
                marks=self._folder.marks,
                events=self,
                now=self._now,
            ),
            self._worker_count,
        )
        self._workers.append(worker)
        worker.start()

    def _start_again(self) -> None:
        self._restart = None
        self._feed()

    def worker_ready(self, worker: WorkerProcess, hello: Hello) -> None:
        """Note the functions that a started worker offers."""
        self._failed_starts = 0
        worker.idle_since = self._settings.clock.monotonic()
        for name, is_async in hello.functions:
            if name not in self._lanes:
                self._lanes[name] = FunctionQueue(name, is_async=is_async)
        names = self.offers()
        self._labels = ("task:function", "function:*", *(f"function:{name}" for name in names)) if names else ()
        if self._known is not None and not self._known.done():
            self._known.set_result(hello)
        self._feed()

    def worker_reported(self, worker: WorkerProcess, report: Report) -> None:
        """Runs of it began, wrote, ended, or came back."""
        held = worker.held
        for number, started in report.began:
            self._began(held.get(number), started)
        for number, content in report.outputs:
            self._wrote(held.get(number), content)
        for number, share, text in report.progress:
            self._told_progress(held.get(number), share, text)
        if report.results:
            self._take_results(held, report.results)
        if report.returned:
            # Sorted, they are in the order in which they were sent: the worker gives the last ones back first.
            self._take_back([held.pop(number) for number in sorted(report.returned) if number in held])
            worker.exclusive = worker.brief > 0
        if worker.slow:
            worker.slow &= held.keys()
        if worker.exclusive and not worker.brief:
            worker.exclusive = False
        if not held:
            worker.idle_since = self._settings.clock.monotonic()
        self._feed()

    def worker_ended(self, worker: WorkerProcess) -> None:
        """Runs that ran in it failed; runs that waited in it go elsewhere."""
        self._workers.remove(worker)
        if not worker.ready and not self._closing:
            self._start_failed(worker)
        waiting: list[QueuedRun] = []
        for run in worker.held.values():
            if worker.has_begun(run):
                self._died(run, worker)
            elif self._closing or run.stop_reason is not None:
                self._release(run)
            else:
                waiting.append(run)
        worker.held.clear()
        self._take_back(waiting)
        self._feed()

    def _start_failed(self, worker: WorkerProcess) -> None:
        tail = worker.stderr_tail.decode(errors="replace").strip()
        if self._known is not None and not self._known.done():
            self._known.set_exception(Misconfigured(f"the function worker ended before it was ready: {tail[-500:]}"))
            return
        pause = RESTART_SECONDS[min(self._failed_starts, len(RESTART_SECONDS) - 1)]
        self._failed_starts += 1
        self._may_start_at = self._settings.clock.monotonic() + pause
        _logger.error("a function worker ended before it was ready, the next start is in %.1f s: %s", pause, tail)

    def _take_back(self, runs: Sequence[QueuedRun]) -> None:
        """Put runs that had not begun in front of their lanes, in their order."""
        for run in reversed(runs):
            run.worker, run.number = None, 0
            if run.stop_reason is not None or self._closing or run.arrival <= self._released:
                self._release(run)
            else:
                run.lane.waiting.appendleft(run)

    # ---------------------------------------------------------------------------------------- out

    def _began(self, run: QueuedRun | None, started: float) -> None:
        if run is None or run.started is not None:
            return
        run.started = started
        limit = run.assignment.timeout_seconds
        if limit is not None and run.stop_reason is None:
            left = max(0.0, started + limit - self._now())
            grace = self._settings.kill_grace_seconds
            run.deadline = asyncio.get_running_loop().call_later(left, self._stop, run, "timeout", grace)
        elif run.stop_reason is not None and run.deadline is None:
            self._out_of_patience(run)
        self._reports.began(run.assignment.run_id, started)

    def _wrote(self, run: QueuedRun | None, content: bytes) -> None:
        if run is not None:
            # Reading slower would hold up the results of all runs of the worker.
            self._sink_of(run).write_or_drop(content)

    def _told_progress(self, run: QueuedRun | None, share: float, text: str) -> None:
        if run is not None:
            self._sink_of(run).tell_progress(share, text)

    def _sink_of(self, run: QueuedRun) -> OutputSink:
        if run.sink is None:
            assignment = run.assignment
            run.sink = OutputSink(
                self._settings.blobs,
                self._settings.clock,
                assignment.run_id,
                assignment.attempt,
                limit_bytes=assignment.limits.output_bytes,
            )
        return run.sink

    def _take_results(self, held: dict[int, QueuedRun], results: Sequence[Result]) -> None:
        """Report the ends of runs. Most runs end well, silently and without a limit: those take few steps."""
        runs = self._runs
        endings: list[tuple[UUID, Ending]] = []
        for result in results:
            run = held.pop(result.number, None)
            if run is None:
                continue
            if result.verdict is None:
                started, ended = result.started, result.ended
                run.lane.took(ended - started)
                if result.result is None:
                    ending = _new_ending(Ending, (_OK, started, ended, None, None, None, None, (), None))
                else:
                    ending = self._with_result(result)
            else:
                ending = self._without_success(run, result, Verdict(result.verdict))
            run_id = run.assignment.run_id
            if run.sink is None and run.deadline is None and runs.pop(run_id.int, None) is run:
                endings.append((run_id, ending))
            else:
                self._report(run, ending)
        if endings:
            self._reports.ended_many(endings)

    def _without_success(self, run: QueuedRun, result: Result, verdict: Verdict) -> Ending:
        started, ended = result.started, result.ended
        if run.stop_reason not in (None, "cancelled") and verdict is Verdict.CANCELLED:
            return self._stopped_ending(run, started, ended)
        return Ending(
            verdict, started, ended, result.reason, result.error, None, result.retry_after_seconds, result.symptoms
        )

    def _with_result(self, result: Result) -> Ending:
        assert result.result is not None
        most = self._settings.result_limit_bytes
        size = len(result.result) * 4
        if size > most:  # no character takes more than four bytes: only a text near the limit is measured
            size = len(result.result.encode())
        if size <= most:
            return Ending(Verdict.OK, result.started, result.ended, result=result.result)
        error = f"the result has {size} bytes of JSON, {most} are the most; store it elsewhere and return where"
        return Ending(Verdict.FAILED, result.started, result.ended, "result", error)

    def _stopped_ending(self, run: QueuedRun, started: float, ended: float) -> Ending:
        if run.stop_reason == "cancelled":
            return Ending(Verdict.CANCELLED, started, ended, "cancelled")
        error = f"it ran longer than its {run.assignment.timeout_seconds:g} s"
        return Ending(Verdict.FAILED, started, ended, run.stop_reason, error)

    def _died(self, run: QueuedRun, worker: WorkerProcess) -> None:
        now = self._now()
        started = now if run.started is None else run.started
        if worker.unkillable:
            cancelled = run.stop_reason == "cancelled" or self._closing
            verdict = Verdict.CANCELLED if cancelled else Verdict.FAILED
            self._report(run, Ending(verdict, started, now, UNKILLABLE, _last_words(worker)))
        elif run.stop_reason is not None:
            self._report(run, self._stopped_ending(run, started, now))
        elif self._closing:
            self._report(run, Ending(Verdict.CANCELLED, started, now, "cancelled"))
        else:
            self._report(run, Ending(Verdict.FAILED, started, now, "crashed", _last_words(worker)))

    def _release(self, run: QueuedRun) -> None:
        now = self._now()
        self._report(run, Ending(Verdict.RELEASED, now, now))

    def _report(self, run: QueuedRun, ending: Ending) -> None:
        """The one way out of a run."""
        if self._runs.pop(run.assignment.run_id.int, None) is not run:
            raise Bug(f"run {run.assignment.run_id} ended twice in its runner")
        if run.deadline is not None:
            run.deadline.cancel()
        if run.sink is None:
            self._reports.ended(run.assignment.run_id, ending)
            return
        task = asyncio.get_running_loop().create_task(self._report_with_output(run, run.sink, ending))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _report_with_output(self, run: QueuedRun, sink: OutputSink, ending: Ending) -> None:
        name = run.assignment.run_id.int
        self._closing_sinks[name] = sink
        try:
            if self._closing:
                sink.hurry()
            await sink.close(patient=ending.verdict is Verdict.OK)
        finally:
            del self._closing_sinks[name]
        self._reports.ended(run.assignment.run_id, with_log(ending, sink))

    # ---------------------------------------------------------------------------------------- upkeep

    async def _housekeep(self) -> None:
        """Ends idle workers, and sees runs that hold a worker so tightly that it cannot even say so."""
        seen: Mapping[WorkerProcess, int] = {}
        while True:
            await self._settings.clock.sleep(HOUSE_SECONDS)
            now = self._settings.clock.monotonic()
            currents: dict[WorkerProcess, int] = {}
            idle = [w for w in self._workers if w.ready and not w.held and now - w.idle_since > IDLE_SECONDS]
            for worker in idle if len(idle) < len(self._workers) else idle[1:]:
                worker.kill()
            self._give_up_waiting(now)
            for worker in self._workers:
                current = currents[worker] = worker.current()
                if current and seen.get(worker) == current:
                    self._began(worker.held.get(current), self._now() - HOUSE_SECONDS)
            seen = currents

    async def close(self) -> None:
        self._closing = True
        for handle in (self._housekeeping, self._restart):
            if handle is not None:
                handle.cancel()
        for lane in self._lanes.values():
            while lane.waiting:
                self._release(lane.waiting.popleft())
        workers = list(self._workers)
        for worker in workers:
            worker.kill()
        for worker in workers:
            await worker.ended()
        for sink in self._closing_sinks.values():
            sink.hurry()
        if self._endings:
            await asyncio.wait(list(self._endings))
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.get_running_loop().run_in_executor(self._threads, folder.close)
        self._survivors.leave()
        self._threads.shutdown(wait=False)
