"""One row's stage: a database with its journal, the product's roles as processes, clients, a witness, faults.

Whatever happens, `close` ends every process that was started here, by its own handle, and removes every file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg
import psutil

from tests.chaos.clients import Clients
from tests.chaos.looks import LOST, Looks
from tests.chaos.proxy import Proxy
from tests.chaos.server import SQL, Backing, Server
from tests.chaos.witness import Witness
from tests.integration.processes.fleet import Fleet, Role
from tests.services.server import Server as ServiceServer
from tests.support.local_up import ROOT
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.domain.history.checker import Fault

CLOCK: Final = SystemClock()
PAUSED_LEASES: Final = 2.0
HEAL_SECONDS: Final = 1.0
"""How often a scheduler looks for executors whose lease ran out."""
TASKS: Final = "tests.chaos.tasks"
Beside = TypeVar("Beside", bound=ServiceServer)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The settings that say how soon the dead are found."""

    lease: float = 2.0
    heartbeat: float = 0.4
    poll: float = 0.2
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def recovery_seconds(self) -> float:
        """By when all goes on: lease + look for the dead + poll + 1."""
        return self.lease + HEAL_SECONDS + self.poll + 1.0

    def environment(self) -> dict[str, str]:
        """As roles are told."""
        return {
            "TICKWISE_LEASE_SECONDS": str(self.lease),
            "TICKWISE_HEARTBEAT_SECONDS": str(self.heartbeat),
            "TICKWISE_POLL_SECONDS": str(self.poll),
            **self.settings,
        }


QUICK: Final = Pace()
DEFAULT: Final = Pace(lease=10.0, heartbeat=3.0, poll=0.5)
PATIENT: Final = Pace(lease=30.0, heartbeat=3.0, poll=0.5)
"""Where no executor is to be given up, however slow the machine or the database is for a while."""


@dataclass(eq=False)
class Player:
    """One place in the cast: a role that is started again after each of its deaths."""

    kind: str
    role: Role
    proxy: Proxy | None = None
    working: bool = False
    """It was ready, and nobody has ended it since."""

    @property
    def name(self) -> str:
        """As the executor's row in the store has it."""
        return f"{socket.gethostname()}:{self.role.pid}"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The store's own witnesses, after the calm: rows with the columns of the statements of these names in `sql/`."""

    moves: Sequence[Any]
    records: Sequence[Any]
    executors: Sequence[Any]
    freed: Mapping[int, int]
    given_back: Sequence[Any]


class Scene:
    """See the module. Rows use it through `scene()`."""

    def __init__(self, backing: Backing, folder: Path, *, pace: Pace, seed: int) -> None:
        self.backing = backing
        self.sql = SQL
        self.folder = folder
        self.pace = pace
        self.dice = random.Random(seed)
        self.witness = Witness(folder / "witness")
        self.clients = Clients([], self.witness.wall(0.0))
        self.fleet = Fleet(
            backing.roles_url,
            folder,
            TICKWISE_FUNCTION_MODULES=TASKS,
            TICKWISE_PASS_ENVIRONMENT="CHAOS_WITNESS",
            CHAOS_WITNESS=str(self.witness.file),
            **pace.environment(),
        )
        self.players: list[Player] = []
        self.victims: list[tuple[Role, str, float]] = []
        """What was done to which executor, and when."""
        self.idlers: set[int] = set()
        """Executors that the row itself plays: they hold runs and begin none, so they explain nothing."""
        self.faults: list[Fault] = []
        """What was done, to whomever. How much an executor held is filled in from the journal, afterwards."""
        self.figures: dict[str, Any] = {}
        """What the row measured."""
        self.complaints: list[str] = []
        """What the row found wrong that is no matter of the history."""
        self.last_fault = time.monotonic()
        self._looks = Looks(backing) if isinstance(backing, Server) else None
        self.program: Sequence[str] = ()
        """What roles are started as, if not as the product's own program: see `tests.chaos.lossy`."""
        self._beside = contextlib.AsyncExitStack()
        self._proxies: list[Proxy] = []
        self._settings: dict[str, dict[str, str]] = {}

    @property
    def server(self) -> Server:
        """The database, of a scene that has one PostgreSQL to harm."""
        assert isinstance(self.backing, Server)
        return self.backing

    # ------------------------------------------------------------------ the cast

    async def beside(self, server: Beside) -> Beside:
        """A Kafka or a Redis for this scene alone, started; it ends after the roles do."""
        self._beside.push_async_callback(server.remove)
        await server.start()
        return server

    def tell(self, **settings: str) -> None:
        """What every role is told that is started from now on."""
        self.fleet.tell(**settings)

    async def cast(
        self, *, schedulers: int = 2, executors: int = 3, apis: int = 1, recorders: int = 0, slots: int = 8
    ) -> None:
        """Start them, and wait until they work."""
        counts = {"api": apis, "scheduler": schedulers, "recorder": recorders, "executor": executors}
        kinds = [kind for kind, count in counts.items() for _ in range(count)]
        settings = {"TICKWISE_SLOTS": str(slots)}
        self.players += [self.start(kind, **(settings if kind == "executor" else {})) for kind in kinds]
        urls = await asyncio.gather(*(self.ready(player) for player in self.players))
        self.clients.urls = [url for url in urls if url is not None]

    def start(self, kind: str, **settings: str) -> Player:
        """One more, that is not in the cast yet."""
        return Player(kind, self._launch(kind, settings))

    def forget_settings(self) -> None:
        """What was said to single roles holds for none that is started from now on."""
        self._settings.clear()

    async def ready(self, player: Player) -> str | None:
        """Wait until it works; its address, if it has one."""
        url = await player.role.ready()
        player.working = True
        return url

    def _launch(self, kind: str, settings: Mapping[str, str]) -> Role:
        mine = self._settings.setdefault(kind, {})
        mine.update(settings)
        return self.fleet.start(*self._words(kind), program=self.program, **mine)

    def _words(self, kind: str) -> list[str]:
        return [kind, "--port", "0"] if kind == "api" else [kind]

    async def proxied(self, kind: str, **settings: str) -> Player:
        """One whose link to the database can be harmed."""
        proxy = Proxy(self.server.url)
        self._proxies.append(proxy)
        url = await proxy.start()
        role = self.fleet.start(*self._words(kind), TICKWISE_DATABASE_URL=url, **settings)
        return Player(kind, role, proxy)

    def of(self, kind: str) -> list[Player]:
        """Those of that kind."""
        return [player for player in self.players if player.kind == kind]

    async def restart(self, player: Player) -> None:
        """Another process in its place, at work."""
        player.role = self._launch(player.kind, {})
        url = await self.ready(player)
        if url is not None:
            self.clients.urls = [url]

    # ------------------------------------------------------------------ what is done to them

    def harmed(self, kind: str, player: Player | str) -> None:
        """Put a fault on record."""
        self.last_fault = time.monotonic()
        at = self.witness.wall(self.last_fault)
        if isinstance(player, str):
            self.faults.append(Fault(kind, at, player))
            return
        victim = f"{player.kind} {player.role.pid}"
        if player.kind == "executor":
            self.victims.append((player.role, kind, at))
        else:
            self.faults.append(Fault(kind, at, victim))

    def kill(self, player: Player) -> None:
        """`kill -9`."""
        self.harmed("kill", player)
        player.working = False
        player.role.kill()

    async def kill_busy(self, player: Player) -> bool:
        """The same for an executor that has something to lose: it is stopped first, so that it still has it when it
        dies. False if it had nothing for two seconds; then it is left alone."""
        for _ in range(20):
            player.role.signal(signal.SIGSTOP)
            if await self.holds(player):
                self.kill(player)
                return True
            player.role.signal(signal.SIGCONT)
            await CLOCK.sleep(0.1)
        return False

    async def pause(self, player: Player, process: psutil.Process | None = None) -> None:
        """SIGSTOP an executor for two leases, and until it is given up; then SIGCONT. `process`: the one to stop, if
        the executor is not what was started."""
        number = player.role.events("executor_joined")[-1]["executor"]
        stopped = process or psutil.Process(player.role.pid)
        self.harmed("pause", player)
        stopped.suspend()
        try:
            await CLOCK.sleep(PAUSED_LEASES * self.pace.lease)
            await eventually(partial(self.is_gone, number), within_seconds=60, what="it is given up")
        finally:
            stopped.resume()
            self.last_fault = time.monotonic()

    async def retire(self, player: Player) -> int:
        """SIGTERM, and its exit status."""
        self.harmed("term", player)
        player.working = False
        player.role.signal(signal.SIGTERM)
        return await player.role.ended(90)

    # ------------------------------------------------------------------ looking

    @asynccontextmanager
    async def session(self) -> AsyncIterator[asyncpg.Connection]:
        """The database, past the product."""
        async with self.server.session() as connection:
            yield connection

    async def ask(self, name: str, *arguments: Any) -> Any:
        """One value by a statement of `sql/`, as soon as the database answers."""

        looks = self._looks
        assert looks is not None

        async def look() -> tuple[Any] | None:
            try:
                return (await looks.value(SQL[name], *arguments),)
            except LOST:
                return None

        return (await eventually(look, within_seconds=60, what=f"the database answers {name}"))[0]

    async def seen(self) -> Seen:
        """The journal and the records, for the judge."""
        async with self.session() as connection:
            return Seen(
                moves=await connection.fetch(SQL["moves"]),
                records=await connection.fetch(SQL["records"]),
                executors=await connection.fetch(SQL["executors"]),
                freed=dict(await connection.fetch(SQL["freed"])),
                given_back=await connection.fetch(SQL["given_back"]),
            )

    async def machine(self) -> dict[str, Any]:
        """The servers, for a result that somebody else may want to repeat."""
        async with self.session() as connection:
            return dict(await connection.fetchrow(SQL["machine"]))

    async def ended(self, count: int, within_seconds: float = 100.0, *, of: str = "ended") -> None:
        """Wait until so many runs have ended, of those that the statement `of` counts."""
        await self._until(of, lambda found: found >= count, within_seconds, f"{count} runs have ended")

    async def calm(self, within_seconds: float = 100.0) -> float:
        """Wait until nothing is unfinished. How many seconds after the last fault that was."""
        await self._until("active", lambda found: found == 0, within_seconds, "all has ended")
        return time.monotonic() - self.last_fault

    async def all_fired(self, within_seconds: float = 100.0) -> float:
        """The same, once no schedule fires any more."""
        await self._until("unfired", lambda found: found == 0, within_seconds, "all has fired and ended")
        return time.monotonic() - self.last_fault

    async def _until(self, name: str, holds: Callable[[int], bool], seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while not holds(found := int(await self.ask(name))):
            if time.monotonic() > until:
                raise AssertionError(f"not within {seconds:g} s: {what}; {name} is {found}")
            await CLOCK.sleep(0.05)

    async def holds(self, player: Player) -> bool:
        """Whether this executor holds a run just now."""
        return bool(await self.ask("held", player.name))

    async def is_gone(self, number: int) -> bool:
        """Whether the store has given this executor up."""
        return bool(await self.ask("is_gone", number))

    def complain(self, what: str) -> None:
        """Something is wrong that no history shows."""
        self.complaints.append(what)

    async def slots_are_free(self) -> None:
        """As many jobs with a process run at once as the executors have slots: none is lost in the books."""
        gate = self.folder / "gate"
        slots = len(self.of("executor")) * int(self._settings.get("executor", {}).get("TICKWISE_SLOTS", "16"))
        command = self.witness.shell(f"until [ -e {gate} ]; do sleep 0.1; done")
        before = len(self.witness.begun())
        body = {"schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": command}}
        await self.clients.submit_many("slot", [body] * slots)
        try:
            await eventually(
                lambda: len(self.witness.begun()) - before >= slots, within_seconds=60, what=f"{slots} slots are in use"
            )
        except AssertionError:
            self.complain(f"of {slots} slots only {len(self.witness.begun()) - before} could be used")
        gate.touch()
        await self.calm()
        self.figures["slots_usable"] = slots

    def orphans(self) -> list[int]:
        """Processes of tasks whose executor is gone."""
        active = {str(player.role.pid) for player in self.players if player.role.process.poll() is None}
        found = []
        for process in psutil.process_iter(["pid"]):
            with contextlib.suppress(psutil.Error, OSError):
                environ = process.environ()
                worker = environ.get("TICKWISE_WORKER", "").partition("-")[0]
                ours = worker in {str(role.pid) for role in self.fleet.roles}
                task = str(self.folder) in environ.get("TICKWISE_RESULT_FILE", "")
                parents = {str(parent.pid) for parent in process.parents()}
                if (ours or task) and not ({worker} | parents) & active and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
        return found

    async def no_orphans(self) -> None:
        """Complain of what a dead executor left running. Those who end it get a moment."""
        try:
            await eventually(lambda: not self.orphans(), within_seconds=15, what="no process is left behind")
        except AssertionError:
            self.complain(f"processes {self.orphans()} outlived their executor")

    async def close(self) -> None:
        """End all of it."""
        self.backing.thaw()
        # In a thread: proxies still carry what the roles have to say.
        await asyncio.to_thread(self.fleet.stop)
        for proxy in self._proxies:
            await proxy.stop()
        await self.clients.close()
        if self._looks is not None:
            await self._looks.close()
        await self._beside.aclose()


@asynccontextmanager
async def scene(
    *, pace: Pace, seed: int, backing: Backing | None = None, kind: type[Scene] = Scene
) -> AsyncIterator[Scene]:
    """A stage with nobody on it."""
    backing = backing or Server()
    folder = Path(tempfile.mkdtemp(prefix="tickwise-scene-"))
    # Tasks may run as somebody else.
    folder.chmod(0o755)
    try:
        await backing.prepare()
        made = kind(backing, folder, pace=pace, seed=seed)
        try:
            yield made
        finally:
            await made.close()
    finally:
        await backing.stop()
        shutil.rmtree(folder, ignore_errors=True)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


__all__ = ["CLOCK", "DEFAULT", "PATIENT", "QUICK", "ROOT", "Pace", "Player", "Scene", "Seen", "cores", "scene"]
