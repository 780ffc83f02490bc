"""The nodes: places that run one process of a role after the other, each process with an identity of its own.

    node "executor-1" ──boot──► process executor-1.1 ──dies──► (a while) ──► process executor-1.2 …

The role's code is the product's. What is ours stands around it: its link, its clock, its bell, its runners.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.adapters.store.memory import MemoryStore
from tickwise.control.bulk.authorized import AuthorizedPages
from tickwise.control.bulk.removal import NamespaceRemoval
from tickwise.control.context import ControlContext
from tickwise.control.control import Control
from tickwise.domain.errors import NotFound, Unavailable
from tickwise.domain.model import DEFAULT_QUEUE
from tickwise.ports.blobs import BlobInfo
from tickwise.ports.store import Retention
from tickwise.roles.executor.capacity import RunnerConfig
from tickwise.roles.executor.role import Executor
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.recorder.role import ResultsRecorder
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings
from tickwise.roles.shared.handovers import handover_bell
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.roles.shared.service import Service
from tickwise.testing.world.broker import Post, ProcessBroker
from tickwise.testing.world.link import CallFaults, LinkedStore
from tickwise.testing.world.loop import WorldLoop
from tickwise.testing.world.process import ProcessClock, SimulatedProcess
from tickwise.testing.world.signals import Bell, ProcessSignals
from tickwise.testing.world.swarm import Swarm
from tickwise.testing.world.tasks import QUICK, SLOW, Host, SimulatedRunner, SimulatedTaskKind
from tickwise.testing.world.watch import Watch

DAY: float = 86_400.0
RETENTION = Retention(runs_seconds=30 * DAY, failed_seconds=30 * DAY)
KINDS = {name: SimulatedTaskKind(name) for name in (SLOW, QUICK)}
DRAIN_SECONDS = 5.0
INVARIANTS_SECONDS = 20.0
SIDE = "side"
"""A queue beside the default one, which is held now and then."""
GRACE_SECONDS = 0.5


class NodeFaults(CallFaults, Protocol):
    """Decides what becomes of the processes of nodes, too."""

    def hit(self, process: SimulatedProcess) -> None:
        """This process may lose its lease now."""
        ...

    def die(self, process: SimulatedProcess) -> None:
        """Kill this process, and boot its node again later."""
        ...

    def poisoned(self, process: SimulatedProcess) -> None:
        """A task of this process takes it down."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The shared base of all nodes of a world."""

    loop: WorldLoop
    swarm: Swarm
    store: MemoryStore
    weather: NodeFaults
    watch: Watch
    bell: Bell
    post: Post | None
    """The broker, if there is one."""
    dice: Random


class SimulatedNode:
    """A place for one role."""

    def __init__(self, ground: Ground, kind: str, number: int) -> None:
        self.kind = kind
        self.name = f"{kind}-{number}"
        self.process: SimulatedProcess | None = None
        self.role: Any = None
        self.link: LinkedStore | None = None
        self.clock: ProcessClock | None = None
        self.broker: ProcessBroker | None = None
        self.lives = 0
        self.all_processes: list[SimulatedProcess] = []
        self.started = False
        """Its role is at work."""
        self.leaving = False
        self.parting = False
        """It has drained and ends its registration: no heartbeat renews its lease, and a call without an answer is
        awaited until the lease may be over."""
        self._ground = ground
        swarm = ground.swarm
        self.host = Host(
            self.name,
            ground.loop,
            Random(f"{swarm.seed}/{self.name}/host"),
            swarm.start,
            kill_seconds=0.4 if swarm.can("latency") else 0.05,
        )

    @property
    def alive(self) -> bool:
        """True if a process runs on this node, frozen or not."""
        return self.process is not None and self.process.alive

    def boot(self) -> None:
        """Another life begins."""
        ground, swarm = self._ground, self._ground.swarm
        self.lives += 1
        self.started = self.leaving = self.parting = False
        process = self.process = SimulatedProcess(ground.loop, f"{self.name}.{self.lives}")
        self.all_processes.append(process)
        ground.watch.note(process.name, "boots")
        self.clock = ProcessClock(ground.loop, start=swarm.start, seed=f"{swarm.seed}/{process.name}")
        self.link = LinkedStore(ground.store, process, loop=ground.loop, weather=ground.weather, observer=ground.watch)
        if ground.post is not None:
            self.broker = ground.post.of(process, self.clock)
        # The role is made inside of its process, so that whatever it makes belongs to it.
        self.role = process.context.copy().run(self._make, process)
        self._spawn(process, self._live(process, self.role))

    def _make(self, process: SimulatedProcess) -> Service | Control:
        ground, swarm = self._ground, self._ground.swarm
        assert self.link is not None
        assert self.clock is not None
        signals = ground.bell.of(process)
        self.link.on_handover(handover_bell(signals, self._hint_publisher()))
        if self.kind == "scheduler":
            settings = SchedulerSettings(
                name=process.name,
                horizon_seconds=swarm.horizon_seconds,
                heal_seconds=swarm.heal_seconds,
                invariants_seconds=INVARIANTS_SECONDS,
                lease_seconds=swarm.lease_seconds,
                retention=RETENTION,
            )
            return Scheduler(
                store=self.link,
                blobs=NoBlobs(),
                signals=signals,
                clock=self.clock,
                settings=settings,
                telemetry=Silent(),
                carry_out=AuthorizedPages(self._context(signals)).page,
                carry_out_removal=NamespaceRemoval(self._context(signals)).page,
                hint_publisher=self._hint_publisher(),
            )
        if self.kind == "api":
            return self._control(signals)
        if self.kind == "recorder":
            assert self.broker is not None
            return ResultsRecorder(
                store=self.link, broker=self.broker, signals=signals, clock=self.clock, telemetry=Silent()
            )
        return Executor(
            store=self.link,
            runner_configs=self._runner_configs(process),
            signals=signals,
            clock=self.clock,
            settings=ExecutorSettings(
                name=process.name,
                queues=(DEFAULT_QUEUE, SIDE),
                slots=swarm.places,
                lease_seconds=swarm.lease_seconds,
                heartbeat_seconds=swarm.heartbeat_seconds,
                poll_seconds=swarm.poll_seconds,
                drain_seconds=DRAIN_SECONDS,
                kill_grace_seconds=GRACE_SECONDS,
                results="broker" if swarm.recorders else "direct",
            ),
            telemetry=Silent(),
            broker=self.broker,
        )

    def _hint_publisher(self) -> HintPublisher | None:
        return None if self.broker is None else HintPublisher(self.broker)

    def _context(self, signals: ProcessSignals) -> ControlContext:
        assert self.link is not None
        assert self.clock is not None
        return ControlContext(
            sandboxes=False,
            store=self.link,
            blobs=NoBlobs(),
            signals=signals,
            clock=self.clock,
            near_seconds=self._ground.swarm.horizon_seconds,
            hint_publisher=self._hint_publisher(),
        )

    def _control(self, signals: ProcessSignals) -> Control:
        assert self.link is not None
        return Control(
            self._context(signals),
            keys=self.link.keys,
            kinds=KINDS,
            calendars=CalendarFiles(),
        )

    def _runner_configs(self, process: SimulatedProcess) -> Sequence[RunnerConfig]:
        def poisoned() -> None:
            self._ground.weather.poisoned(process)

        slow, quick = (
            SimulatedRunner(self.host, process, KINDS[name], places=self._ground.swarm.places, poisoned=poisoned)
            for name in (SLOW, QUICK)
        )
        return [RunnerConfig(slow), RunnerConfig(quick, quick.spare)]

    async def _live(self, process: SimulatedProcess, role: Any) -> None:
        """A process whose store is away when it starts gives up, as the real ones do, and is started anew."""
        try:
            await role.start()
            self.started = True
        except Unavailable as away:
            self._ground.watch.note(process.name, "cannot start:", away)
            self._ground.weather.die(process)

    @staticmethod
    def _spawn(process: SimulatedProcess, life: Coroutine[Any, Any, None]) -> None:
        process.spawn(life).add_done_callback(lambda _: None)

    def leave(self) -> None:
        """SIGTERM: it drains, stops, and is gone."""
        process, role = self.process, self.role
        if process is not None and process.alive and not self.leaving:
            self.leaving = True
            self._spawn(process, self._end(process, role))

    async def _end(self, process: SimulatedProcess, role: Any) -> None:
        watch = self._ground.watch
        watch.note(process.name, "leaves")
        try:
            if not self.started:
                self._ground.weather.hit(process)
            else:
                await role.drain()
                self.parting = True
                await role.stop()
        except Unavailable as away:
            watch.note(process.name, "leaves without a farewell:", away)
            self._ground.weather.hit(process)
        process.kill()


class NoBlobs:
    """The port `Blobs` of a world in which no task writes anything and nothing is stored."""

    async def put(self, key: str, content: bytes) -> None:
        raise NotFound(f"nobody keeps {key} ({len(content)} bytes) here")

    async def get(self, key: str) -> bytes:
        raise NotFound(f"there is no {key}")

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        raise NotFound(f"there is no {key} from {start}, {length} bytes long")

    async def list(self, prefix: str) -> Sequence[BlobInfo]:  # noqa: ARG002 - there is none of any name
        return ()

    async def folders(self, prefix: str) -> Sequence[str]:  # noqa: ARG002 - as above
        return ()

    async def delete(self, keys: Sequence[str]) -> None:
        """An absent key is no error."""


class Silent:
    """Telemetry that nobody reads: the world counts for itself."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _ignore


def _ignore(*_: Any, **__: Any) -> None:
    """Nothing."""
