"""The faults: the fate of each call, and the faults of processes, their clocks, their links and the store.

Two kinds of faults. Those of a call are drawn when it begins (`passage`). Those of a moment come after gaps that are
drawn (`Storm`). Both end when the rough time is over: then everything that was cut, stopped or frozen goes on.

Invariant: what may cost an executor its lease is told to the watch, so that a lease which is lost without a reason is
found, and so that what runs again can be explained.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tickwise.testing.world.broker import Carriage, Post
from tickwise.testing.world.link import READS, CallFate, Passage, Way
from tickwise.testing.world.loop import NETWORK, WorldLoop
from tickwise.testing.world.nodes import SimulatedNode
from tickwise.testing.world.process import SimulatedProcess
from tickwise.testing.world.signals import Bell, Sound
from tickwise.testing.world.swarm import FAILOVER, Swarm
from tickwise.testing.world.watch import EventTally, Watch

BEAT_PATIENCE_SECONDS: Final = 3.0
"""The time that a heartbeat waits for its answer, as the PostgreSQL adapter does."""
PATIENCE_SECONDS: Final = (2.0, 10.0, 60.0)
"""The time that other calls wait."""
CALL_FATES: Final = {
    "request lost": CallFate.REQUEST_LOST,
    "answer lost": CallFate.ANSWER_LOST,
    "hang": CallFate.HANGS,
    "half open": CallFate.SWALLOWED,
    "late effect": CallFate.LATE,
    "dies after a call": CallFate.DIES_AFTER,
    "freezes after a call": CallFate.FREEZES_AFTER,
}
SLOW_SECONDS: Final = 1.0
"""The longest delay of a slow link."""
LATE_SECONDS: Final = 3.0
"""A request takes effect at most so long after its caller gave it up."""
OF_LEASES: Final = frozenset({"executors.beat", "executors.join", "executors.leave"})
DOWN_SECONDS: Final = (0.1, 5.0)
"""A dead process is started anew after so long."""


class Weather:
    """The conditions between processes and the store."""

    def __init__(self, loop: WorldLoop, swarm: Swarm, dice: Random, tell: EventTally) -> None:
        self.era = self.lost_era = 0
        self.rough = bool(swarm.faults)
        self.away = False
        self.cut_out: set[str] = set()
        """Names of nodes whose requests do not arrive, …"""
        self.cut_back: set[str] = set()
        """… and of those that hear no answer."""
        self._loop = loop
        self._swarm = swarm
        self._dice = dice
        self.tell = tell
        self._fates = [fate for name, fate in CALL_FATES.items() if swarm.can(name)]
        self._patience = dice.choice(PATIENCE_SECONDS)
        self.nodes: list[SimulatedNode] = []
        self.watch: Watch

    def node_of(self, process: SimulatedProcess) -> SimulatedNode:
        """The node of a process."""
        return next(node for node in self.nodes if process in node.all_processes)

    # ------------------------------------------------------------------ what links ask

    def passage(self, process: SimulatedProcess, call: str) -> Passage:
        dice, most = self._dice, self._swarm.latency_seconds
        if self.rough and self._swarm.can("latency") and dice.random() < 0.02:
            most = SLOW_SECONDS
            if call in OF_LEASES:
                self.hit(process)
        patience = BEAT_PATIENCE_SECONDS if call == "executors.beat" else self._patience
        fate = CallFate.FINE
        if self.rough and self._fates and dice.random() < self._swarm.call_fault_share:
            fate = dice.choice(self._fates)
            if call in OF_LEASES or self.node_of(process).parting:
                self.hit(process)
            if (
                fate in (CallFate.ANSWER_LOST, CallFate.HANGS, CallFate.REQUEST_LOST, CallFate.SWALLOWED)
                and call not in READS
            ):
                self.tell("commit in doubt")
        if self.away:
            fate = CallFate.REFUSED
        return Passage(fate, dice.random() * most, dice.random() * most, patience, dice.random() * LATE_SECONDS)

    def way(self, process: SimulatedProcess, *, back: bool, sent_in: int) -> Way:
        if self.away or sent_in != self.era:
            return Way.BROKEN
        cut = self.cut_back if back else self.cut_out
        return Way.CUT if process.name.partition(".")[0] in cut else Way.OPEN

    def strike(self, process: SimulatedProcess, fate: CallFate) -> None:
        if fate is CallFate.DIES_AFTER:
            self.tell("died between a commit and its answer")
            self.die(process)
        else:
            self.tell("frozen between a commit and its answer")
            self.freeze(process, self._swarm.lease_seconds * self._dice.uniform(0.3, 2.5))

    def poisoned(self, process: SimulatedProcess) -> None:
        """A task takes its executor down."""
        self.die(process)

    # ------------------------------------------------------------------ what is done

    def hit(self, process: SimulatedProcess) -> None:
        """Tell the watch that this may cost it its lease."""
        self.watch.is_hit(process)

    def is_lost(self, sent_in: int) -> bool:
        """Check whether a call of that era went to a server that is gone: late or not, the call has no effect."""
        return sent_in < self.lost_era

    def all_hit(self) -> None:
        """So may this, every one of them."""
        for node in self.nodes:
            if node.process is not None and node.alive:
                self.hit(node.process)

    def die(self, process: SimulatedProcess) -> None:
        """Kill it, and start another one later."""
        node = self.node_of(process)
        if not process.alive:
            return
        self.hit(process)
        self.watch.note(process.name, "is killed")
        process.kill()
        self.later(self._dice.uniform(*DOWN_SECONDS), lambda: None if node.alive else node.boot())

    def freeze(self, process: SimulatedProcess, seconds: float) -> None:
        """Let it stand still for so long."""
        if not process.alive or process.frozen:
            return
        self.hit(process)
        self.watch.note(process.name, f"is frozen for {seconds:.3f} s")
        process.freeze()
        if (broker := self.node_of(process).broker) is not None:
            broker.is_frozen()
        self.later(seconds, lambda: self._thaw(process))

    def _thaw(self, process: SimulatedProcess) -> None:
        if process.alive and process.frozen:
            self.hit(process)
            self.watch.note(process.name, "goes on")
            process.thaw()

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Something that is done from outside."""
        self._loop.call_later(seconds, do, context=NETWORK)

    def calm(self) -> None:
        """From now on nothing goes wrong, and what did goes on."""
        if self.away or self.cut_out or self.cut_back:
            self.all_hit()
        self.rough = self.away = False
        self.cut_out.clear()
        self.cut_back.clear()
        for node in self.nodes:
            if node.process is not None and node.process.frozen:
                self._thaw(node.process)


class Storm:
    """The faults of a moment, one after the other."""

    def __init__(
        self,
        weather: Weather,
        swarm: Swarm,
        bell: Bell,
        dice: Random,
        *,
        restart: Callable[[], None],
        standby: Callable[[], Callable[[], None]],
    ) -> None:
        """`restart` is the store's own; `standby` cuts a standby's stream now, and promotes it when the answer is
        called."""
        self._weather = weather
        self._swarm = swarm
        self._bell = bell
        self._dice = dice
        self._restart = restart
        self._standby = standby
        self._failing_over = False
        faults = {
            "crash": self._crash,
            "crash at any await": self._crash_at_an_await,
            "pause": self._pause,
            "partition": self._partition,
            "store away": self._store_away,
            "store restart": self._store_restart,
            "clock jump": self._clock_jump,
            "signals": self._signals,
            FAILOVER: self._failover,
        }
        self._menu = [do for name, do in faults.items() if swarm.can(name)]
        if swarm.wants("leave"):
            self._menu.append(self._leave)

    def begin(self) -> None:
        """The first of them comes after a while."""
        if self._menu:
            self._next()

    def _next(self) -> None:
        self._weather.later(self._dice.expovariate(1.0 / self._swarm.fault_gap_seconds), self._strike)

    def _strike(self) -> None:
        if self._weather.rough or (self._weather.watch.asking and self._swarm.wants("leave")):
            self._dice.choice(self._menu)()
            self._next()

    def _victim(self) -> SimulatedNode | None:
        active = [node for node in self._weather.nodes if node.alive]
        # Executors hold what can be lost, so they are hit more often.
        weights = [3 if node.kind == "executor" else 1 for node in active]
        return self._dice.choices(active, weights)[0] if active else None

    def _crash(self) -> None:
        if (node := self._victim()) is not None and node.process is not None:
            self._weather.die(node.process)

    def _crash_at_an_await(self) -> None:
        """After any of the next steps that it takes: between two awaits of any of its tasks."""
        if (node := self._victim()) is not None and node.process is not None:
            process = node.process
            process.after_steps(self._dice.randrange(1, 60), lambda: self._weather.die(process))

    def _pause(self) -> None:
        if (node := self._victim()) is not None and node.process is not None:
            self._weather.freeze(node.process, self._swarm.lease_seconds * self._dice.uniform(0.2, 2.5))

    def _partition(self) -> None:
        node = self._victim()
        if node is None or node.process is None:
            return
        weather, seconds = self._weather, self._swarm.lease_seconds * self._dice.uniform(0.3, 2.5)
        ways = self._dice.choice(([weather.cut_out, weather.cut_back], [weather.cut_out], [weather.cut_back]))
        weather.hit(node.process)
        weather.watch.note(node.name, f"is cut off for {seconds:.3f} s,", len(ways), "ways")
        for way in ways:
            way.add(node.name)

        def heal() -> None:
            weather.watch.note(node.name, "is back")
            if node.process is not None:
                weather.hit(node.process)
            for way in ways:
                way.discard(node.name)

        weather.later(seconds, heal)

    def _store_away(self) -> None:
        weather, seconds = self._weather, self._dice.uniform(0.1, 2.0) * self._swarm.lease_seconds
        if weather.away:
            return
        weather.watch.note(f"the store is away for {seconds:.3f} s")
        weather.away = True
        weather.all_hit()

        def back() -> None:
            if weather.away:
                weather.watch.note("the store is back")
                weather.all_hit()
            weather.away = False

        weather.later(seconds, back)

    def _store_restart(self) -> None:
        """Every link breaks, and open transactions are rolled back."""
        self._weather.watch.note("the store is restarted")
        self._weather.era += 1
        self._restart()

    def _failover(self) -> None:
        """A standby's stream is cut; a while later the primary dies, and the standby is promoted without the writes in
        between, even those that clients were told of."""
        weather, dice = self._weather, self._dice
        if self._failing_over or weather.away:
            return
        self._failing_over = True
        behind, without = dice.choice((0.05, 1.0, 3.0, 6.0)) * dice.uniform(0.5, 1.5), dice.uniform(0.05, 6.0)
        weather.watch.note(f"a standby falls behind for {behind:.3f} s")
        promote = self._standby()

        def die() -> None:
            if not weather.rough or weather.away:
                self._failing_over = False
                return
            weather.watch.note(f"the primary dies; the standby takes over in {without:.3f} s")
            weather.tell("failover")
            weather.era += 1
            weather.lost_era = weather.era
            weather.away = True
            weather.all_hit()
            promote()
            weather.later(without, back)

        def back() -> None:
            if weather.away:
                weather.watch.note("the store is back")
            weather.all_hit()
            weather.away = self._failing_over = False

        weather.later(behind, die)

    def _clock_jump(self) -> None:
        """A node's wall clock, by hours, forward or back; its monotonic clock goes on."""
        node = self._victim()
        if node is not None and node.clock is not None:
            node.clock.wrong_seconds = self._dice.choice((-7_200.0, -61.0, -0.5, 0.0, 0.5, 61.0, 3_600.0, 86_400.0))
            self._weather.watch.note(node.name, f"has a clock that is {node.clock.wrong_seconds:+.1f} s wrong")

    def _signals(self) -> None:
        dice = self._dice
        self._bell.sound = Sound(
            lost=dice.choice((0.0, 0.3, 1.0)),
            repeated=dice.choice((0.0, 0.3)),
            late_seconds=dice.choice((0.002, 0.5, 5.0)),
        )
        self._weather.watch.note("signals:", self._bell.sound)

    def _leave(self) -> None:
        node = self._victim()
        if node is None:
            return
        weather, process = self._weather, node.process
        weather.watch.note(node.name, "is asked to leave")
        node.leave()

        def again() -> None:
            if node.process is process and not node.alive:
                node.boot()
            elif node.process is process:
                weather.later(1.0, again)

        weather.later(self._dice.uniform(*DOWN_SECONDS), again)


class Mishaps:
    """The faults of the broker, one after the other."""

    def __init__(self, weather: Weather, swarm: Swarm, post: Post, dice: Random) -> None:
        self._weather = weather
        self._swarm = swarm
        self._post = post
        self._dice = dice
        faults = {"broker away": self._away, "broker carries badly": self._badly}
        self._menu = [do for name, do in faults.items() if swarm.can(name)]

    def begin(self) -> None:
        """The first of them comes after a while."""
        if self._menu:
            self._weather.later(self._dice.expovariate(1.0 / self._swarm.fault_gap_seconds), self._strike)

    def _strike(self) -> None:
        if self._weather.rough:
            self._dice.choice(self._menu)()
            self.begin()

    def _away(self) -> None:
        weather, exchange, seconds = self._weather, self._post.exchange, self._dice.uniform(0.1, 15.0)
        if exchange.away:
            return
        weather.watch.note(f"the broker is away for {seconds:.3f} s")
        weather.tell("broker away")
        exchange.away = True

        def back() -> None:
            if exchange.away:
                weather.watch.note("the broker is back")
            exchange.away = False

        weather.later(seconds, back)

    def _badly(self) -> None:
        dice = self._dice
        self._post.carriage = Carriage(
            lost=dice.choice((0.0, 0.1, 0.5, 1.0)),
            repeated=dice.choice((0.0, 0.1, 0.5)),
            late_seconds=dice.choice((0.002, 0.5, 5.0)),
            unconfirmed=dice.choice((0.0, 0.0, 0.3)),
        )
        self._weather.watch.note("the broker:", self._post.carriage)
