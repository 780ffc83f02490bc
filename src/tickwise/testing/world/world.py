"""One world: made from its seed, let go through its rough time and its calm, and judged."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any, Final

from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.decision import NEVER
from tickwise.domain.errors import Unavailable
from tickwise.domain.history.checker import Status, judge
from tickwise.ports.store import OperationStatus
from tickwise.testing.world.broker import Post
from tickwise.testing.world.clients import pause
from tickwise.testing.world.link import at_once
from tickwise.testing.world.loop import PROCESS, Stalled, WorldLoop
from tickwise.testing.world.nodes import Ground, SimulatedNode
from tickwise.testing.world.process import ProcessClock, SimulatedProcess
from tickwise.testing.world.signals import Bell
from tickwise.testing.world.swarm import Swarm, draw
from tickwise.testing.world.verdict import books_out_of_balance, direct, history_of, lives_through
from tickwise.testing.world.watch import EventTally, Watch
from tickwise.testing.world.weather import Mishaps, Storm, Weather
from tickwise.testing.world.workload import Clients

MAX_CALM_SECONDS: Final = 900.0
"""In so long, everything must have ended. Tasks take at most 22 s, four attempts, and a queue of them waits."""
LOOK_SECONDS: Final = 1.0
TAIL: Final = 120
"""Lines of the trace that a failure shows."""
ERRORS: Final = frozenset({"error", "exception", "critical"})
OF_LEASES: Final = frozenset({"executor_expired", "lease_over"})
"""Errors that an executor logs of its lease. They need something that befell it."""
ALARMS: Final = frozenset(
    {
        "claimed_in_time",
        "fired_in_time",
        "followed_in_time",
        "heard_in_time",
        "stepped_in_time",
        "expired_in_time",
        "held_as_told",
    }
)
"""Invariants that a fault or a crowd may break for a while. Any other one that is broken is a finding."""


SOMETIMES: Final = (
    "stale outcome refused",
    "start refused",
    "lease expired while running",
    "lease expired while holding",
    "executor expired and registered again",
    "lost signal",
    "duplicate signal",
    "commit in doubt",
    "claim in doubt given back",
    "died between a commit and its answer",
    "frozen between a commit and its answer",
    "cancel against completion",
    "submit repeated",
    "give-back",
    "retry",
    "ended: poison",
    "ended: executor_lost",
    "ended: unknown_outcome",
    "sequence went on",
    "operation went on",
    "redrive ok",
    "decide ok",
    "hold ok",
    "skipped: maintenance",
    "limit waited for",
    "rate waited for",
    "catch-up",
    "clock change",
    "skipped: misfire",
    "skipped: overlap",
    "skipped: paused",
    "claimed by name",
    "hint lost",
    "hint repeated",
    "result lost",
    "result repeated",
    "result unconfirmed",
    "broker away",
    "failover",
    "acknowledged writes lost",
    "runs held otherwise",
)
"""The events that must occur at least once in a few hundred worlds. A world in which it cannot happen tests nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedReport:
    """The result of one seed."""

    seed: int
    findings: Sequence[str]
    seen: Mapping[str, int]
    """The number of times that each notable event happened."""
    digest: str
    """Of the whole trace."""
    virtual_seconds: float
    steps: int
    counts: Mapping[str, int]
    tail: Sequence[str] = ()
    """The end of the trace, if there are findings; or all of it."""

    def as_text(self) -> str:
        """For people: what is wrong, and how to see it again."""
        if not self.findings:
            return f"seed {self.seed}: good, {self.virtual_seconds:.0f} s in {self.steps} steps"
        lines = [f"seed {self.seed}: {len(self.findings)} findings"]
        lines += [f"  {finding}" for finding in self.findings]
        lines += ["  the trace ends so:", *(f"    {line}" for line in self.tail)]
        lines.append(f"run it again with: make sim SEED={self.seed}")
        return "\n".join(lines)


@dataclass(slots=True)
class World:
    """Everything that is there."""

    swarm: Swarm
    loop: WorldLoop = field(init=False)
    store: MemoryStore = field(init=False)
    watch: Watch = field(init=False)
    weather: Weather = field(init=False)
    bell: Bell = field(init=False)
    post: Post | None = field(init=False)
    clients: Clients = field(init=False)
    nodes: list[SimulatedNode] = field(init=False)
    tally: EventTally = field(default_factory=EventTally)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        swarm, seed = self.swarm, self.swarm.seed
        loop = self.loop = WorldLoop(Random(f"{seed}/order"), lag_seconds=swarm.lag_seconds)
        loop.tasks_made = _keep
        loop.set_exception_handler(self._unhandled)
        clock = ProcessClock(loop, start=swarm.start, seed=f"{seed}/store")
        self.store = MemoryStore(clock, near_seconds=swarm.horizon_seconds)
        self.watch = Watch(self.store, loop.time, self.tally)
        self.bell = Bell(loop, Random(f"{seed}/bell"), seen=self.tally)
        self.weather = Weather(loop, swarm, Random(f"{seed}/weather"), self.tally)
        self.weather.watch = self.watch
        self.post = None
        if swarm.broker:
            self.post = Post(loop, Random(f"{seed}/post"), start=swarm.start, seen=self.tally)
        ground = Ground(
            loop=loop,
            swarm=swarm,
            store=self.store,
            weather=self.weather,
            watch=self.watch,
            bell=self.bell,
            post=self.post,
            dice=Random(f"{seed}/ground"),
        )
        counts = {"scheduler": swarm.schedulers, "executor": swarm.executors, "api": swarm.apis}
        counts["recorder"] = swarm.recorders
        self.nodes = [SimulatedNode(ground, kind, n + 1) for kind, count in counts.items() for n in range(count)]
        self.weather.nodes = self.nodes
        self.watch.tasks_of = lambda process: sum(
            task.runner.process is process for node in self.nodes for task in node.host.active.values()
        )
        apis = [node for node in self.nodes if node.kind == "api"]
        self.clients = Clients(loop, swarm, apis, Random(f"{seed}/clients"), watch=self.watch, tell=self.tally)

    # ------------------------------------------------------------------ its time

    async def live(self) -> None:
        """From its beginning to its end."""
        loop, swarm, weather = self.loop, self.swarm, self.weather
        for node in self.nodes:
            node.boot()
        storm = Random(f"{swarm.seed}/storm")
        Storm(weather, swarm, self.bell, storm, restart=self._restart, standby=self._standby).begin()
        if self.post is not None:
            Mishaps(weather, swarm, self.post, Random(f"{swarm.seed}/mishaps")).begin()
        await self.clients.ask()
        self.watch.asking = False
        self.watch.note("calm")
        weather.calm()
        self.bell.sound = type(self.bell.sound)()
        if self.post is not None:
            self.post.carriage, self.post.exchange.away = type(self.post.carriage)(), False
        await self.clients.settled()
        begun = loop.time()
        while not self.is_quiet():
            if loop.time() - begun > MAX_CALM_SECONDS:
                self.findings.append(f"not everything has ended {MAX_CALM_SECONDS:.0f} s after the last fault")
                break
            await pause(loop, LOOK_SECONDS)

    def is_quiet(self) -> bool:
        """Check that no run is unfinished, no work is due, and every node is up."""
        state = self.store.state
        return (
            not state.runs
            and not state.completions
            and not state.taken
            and all(operation.row.status is not OperationStatus.RUNNING for operation in state.operations.values())
            and self.clients.is_served()
            and all(node.alive for node in self.nodes)
            and not any(node.host.active for node in self.nodes)
            and all(timer.pending.due == NEVER for timer in state.timers())
            and next(books_out_of_balance(self.nodes), None) is None
        )

    def _restart(self) -> None:
        self._hang_up()
        at_once(self.store.open())

    def _hang_up(self) -> None:
        for node in self.nodes:
            if node.link is not None:
                node.link.hang_up()

    def _standby(self) -> Callable[[], None]:
        snapshot, mark = self.store.snapshot(), self.watch.mark()

        def promote() -> None:
            self._hang_up()
            self.store.set_back(snapshot)
            self.watch.set_back(mark)

        return promote

    def _unhandled(self, _loop: object, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if not isinstance(failure, Unavailable):
            self.findings.append(f"unhandled: {context.get('message')}: {type(failure).__name__}: {failure}")

    # ------------------------------------------------------------------ what came of it

    def report(self, *, whole: bool) -> SeedReport:
        """Judge it."""
        swarm, watch = self.swarm, self.watch
        if swarm.clock_changes is not None and lives_through(self.store, swarm.clock_changes):
            self.tally("clock change")
        history = history_of(self.store, watch, self.clients, self.nodes, swarm)
        verdict = judge(history)
        findings = [*self.findings, *watch.findings, *self.clients.broken]
        findings += [f"{found.kind}: {found.text}" for found in verdict.findings]
        findings += direct(self.store, self.nodes, self.clients)
        for node in self.nodes:
            for process in node.all_processes:
                findings += [
                    f"a task of {process} died of {type(failure).__name__}: {failure}"
                    for failure in process.unheard()
                    if not isinstance(failure, Unavailable)
                ]
        if verdict.status is Status.UNKNOWN:
            self.tally("nothing happened")
        text = "\n".join(watch.trace)
        return SeedReport(
            seed=swarm.seed,
            findings=tuple(findings),
            seen=self.tally.as_dict(),
            digest=sha256(text.encode()).hexdigest(),
            virtual_seconds=self.loop.time(),
            steps=self.loop.steps,
            counts=dict(verdict.counts),
            tail=tuple(watch.trace if whole else watch.trace[-TAIL:]) if findings or whole else (),
        )

    def end(self) -> None:
        """Close what the dead left, then the loop."""
        for node in self.nodes:
            for process in node.all_processes:
                process.alive = False
                process.clean_up()
        self.loop.close()


def play(seed: int, *, whole: bool = False) -> SeedReport:
    """Everything that happens under one seed. The same again for the same; with its `whole` trace if that is wanted."""
    return played(draw(seed), whole=whole)


def played(swarm: Swarm, *, whole: bool = False) -> SeedReport:
    """Play a world that was put together by hand."""
    world = World(swarm)
    collects = gc.isenabled()
    gc.disable()  # What it finds would be closed at a moment that no seed decides.
    try:
        with logs_of(world):
            try:
                world.loop.run_until_complete(world.live())
            except Stalled as stalled:
                world.findings.append(str(stalled))
            try:
                return world.report(whole=whole)
            finally:
                world.end()
    finally:
        if collects:
            gc.enable()


class _Log:
    """The log of the product's modules, as lines of the trace. An error that it logs is a finding."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, level: str) -> Any:
        def log(event: str, **said: Any) -> None:
            watch, process = self._world.watch, PROCESS.get()
            cause = ""
            if level == "exception":
                failure = sys.exc_info()[1]
                cause = f"{type(failure).__name__}: {failure}"
            words = " ".join(f"{name}={value}" for name, value in said.items())
            watch.note(process, "logs", level, event, words, cause)
            if event == "leave_unheard" and isinstance(process, SimulatedProcess):
                self._world.weather.hit(process)
            if event in OF_LEASES:
                if not watch.is_explained(said["executor"]):
                    self._world.findings.append(f"{process} logs {event}, and nothing had befallen it")
            elif event == "held_otherwise" and watch.gaps:
                self._world.tally("runs held otherwise", said["count"])
            elif event == "invariant_violated" and said["invariant"] in ALARMS:
                self._world.tally(f"alarm: {said['invariant']}")
            elif level in ERRORS:
                self._world.findings.append(f"{process} logs {event}: {words} {cause}")

        return log


@contextmanager
def logs_of(world: World) -> Iterator[None]:
    """Let the modules of the product log into the world's trace."""
    log = _Log(world)
    modules = [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(("tickwise.roles.", "tickwise.adapters.store.memory")) and hasattr(module, "logger")
    ]
    before = [module.logger for module in modules]
    for module in modules:
        module.logger = log  # type: ignore[attr-defined]  # it has one: see above
    try:
        yield
    finally:
        for module, logger in zip(modules, before, strict=True):
            module.logger = logger  # type: ignore[attr-defined]  # as above


def _keep(process: Any, task: Any) -> None:
    if isinstance(process, SimulatedProcess):
        process.tasks.append(task)
