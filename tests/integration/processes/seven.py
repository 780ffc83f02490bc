"""Seven services, two of each, as processes of their own: what `docs/how-to/scale-out.md` describes.

gateway (nginx) ──writes──► job service     ──requests──► Kafka ──► writer  ──► PostgreSQL
                ──reads───► search service                ▲  │
                            executor ──────results────────┘  └────► updater ──► PostgreSQL
                            watcher  ──────hints──────────► Kafka ──► executor
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.scene import CLOCK, Player, Scene
from tests.integration.processes.gateway import Gateway, balanced
from tests.services.kafka import Kafka
from tests.services.nginx import Nginx
from tests.services.redis import Redis
from tests.services.server import free_port

KINDS: Final = {
    "job service": ("api", "--serve", "jobs"),
    "search service": ("api", "--serve", "search"),
    "writer": ("recorder", "--serve", "requests"),
    "updater": ("recorder", "--serve", "results"),
    "watcher": ("scheduler",),
    "executor": ("executor",),
}
EACH: Final = 2
AWAY_SECONDS: Final = 1.0
END_SECONDS: Final = 60.0
"""After SIGTERM, for all of them at once."""


@dataclass(eq=False)
class Seven:
    """All of them."""

    scene: Scene
    kafka: Kafka
    redis: Redis
    gateways: list[Nginx] = field(default_factory=list)
    words: dict[Player, Sequence[str]] = field(default_factory=dict)
    restarts: list[asyncio.Task[None]] = field(default_factory=list)

    def of(self, kind: str) -> list[Player]:
        """Those of that kind, in the order in which they were started."""
        return [player for player in self.words if player.kind == kind]

    async def start(self) -> None:
        """In an order that is drawn, and before there is a broker, a Redis, or an upgraded schema to wait for."""
        ports = {kind: [free_port() for _ in range(EACH)] for kind in ("job service", "search service")}
        addresses = [[f"127.0.0.1:{port}" for port in of_kind] for of_kind in ports.values()]
        self.gateways = [await self.scene.beside(Nginx(balanced(*addresses))) for _ in range(EACH)]
        places = list(itertools.product(KINDS, range(EACH)))
        self.scene.dice.shuffle(places)
        for kind, place in places:
            words = KINDS[kind] + (("--port", str(ports[kind][place])) if kind in ports else ())
            player = Player(kind, self.scene.fleet.start(*words))
            self.words[player] = words
        self.scene.players += self.words
        for waiting in (*self.of("writer"), *self.of("updater")):
            await waiting.role.event("awaited", within_seconds=60)
        await self.scene.beside(self.redis)
        await self.scene.beside(self.kafka)
        await asyncio.gather(*(self.scene.ready(player) for player in self.words))

    def kill(self, player: Player) -> None:
        """`kill -9`, and the next one in its place a moment later."""
        self.scene.kill(player)
        self.restarts.append(asyncio.create_task(self._again(player)))

    async def _again(self, player: Player) -> None:
        await CLOCK.sleep(AWAY_SECONDS)
        player.role = self.scene.fleet.start(*self.words[player])
        await self.scene.ready(player)

    async def kill_gateway(self) -> None:
        """The first one, and the same again on its port."""
        gateway = self.gateways[0]
        self.scene.harmed("kill", "a gateway")
        gateway.kill()
        await CLOCK.sleep(AWAY_SECONDS)
        await gateway.start()

    async def all_back(self) -> None:
        """Wait until everybody who was killed works again."""
        await asyncio.gather(*self.restarts)
        self.restarts.clear()

    async def retire(self) -> None:
        """SIGTERM to all; complain of whoever does not end well."""
        for player in self.words:
            player.role.signal(signal.SIGTERM)
        until = CLOCK.monotonic() + END_SECONDS
        while active := [player for player in self.words if player.role.process.poll() is None]:
            if CLOCK.monotonic() > until:
                waits = {each.role.log.name: each.role.events("stop_overdue") for each in active}
                raise AssertionError(f"not ended: {[(each.kind, each.role.pid) for each in active]}; {waits}")
            await CLOCK.sleep(0.05)
        for player in self.words:
            if player.role.process.returncode != 0:
                self.scene.complain(f"{player.role.log.name} ended with {player.role.process.returncode} after SIGTERM")


@asynccontextmanager
async def seven(scene: Scene) -> AsyncIterator[tuple[Seven, Gateway]]:
    """All at work on that scene, and a client of the gateways."""
    kafka, redis = Kafka(), Redis()
    scene.tell(
        TICKWISE_BROKER_URL=f"{kafka.url}?prefix=seven&lanes=3&partitions=4",
        TICKWISE_SIGNALS_URL=redis.url,
        TICKWISE_INGEST="buffered",
        TICKWISE_RESULTS="broker",
        TICKWISE_SLOTS="8",
        TICKWISE_SECRETS_KEY=bytes(range(32)).hex(),
        TICKWISE_DEBUG="1",  # a trace of whatever ends a role that should not end
    )
    services = Seven(scene, kafka, redis)
    gateway: Gateway | None = None
    try:
        await services.start()
        gateway = Gateway([each.url for each in services.gateways])
        scene.clients.urls = [each.url for each in services.gateways]
        yield services, gateway
    finally:
        for restart in services.restarts:
            restart.cancel()
        await asyncio.gather(*services.restarts, return_exceptions=True)
        if gateway is not None:
            await gateway.close()
