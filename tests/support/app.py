"""The API over a memory store, in this process, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from tests.support.described import check_answer
from tests.support.kinds import builtin_kinds
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.identity.issuer import IssuerSettings, JwtIssuer
from tickwise.adapters.runner.scripts.checker import ScriptChecker
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.adapters.signals.local import LocalLimits
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.api.app import create_app
from tickwise.control.cluster import SettingInForce
from tickwise.control.context import ControlContext
from tickwise.control.control import Control
from tickwise.control.keys.secrets import admit_setting, secret_digest
from tickwise.control.live.service import LiveOptions
from tickwise.control.people import passwords
from tickwise.domain.accounts.second_factor import FactorPolicy
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal
from tickwise.observability.metrics import CONTENT_TYPE, Metrics
from tickwise.ports.broker import Broker
from tickwise.ports.calendars import CalendarReader
from tickwise.ports.clock import Clock
from tickwise.ports.identity import NewKey
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.identity.tokens import TokenIssuer
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.shared_state import SharedState
from tickwise.ports.signals import Topic
from tickwise.ports.signing import Signer
from tickwise.ports.store import StoreStats

API = "/api/v1"
RUNS_KEPT_SECONDS = 30 * 86_400.0
ADMIN_KEY = "an-admin-key-for-tests-of-32-characters-or-more"


class Bell:
    """A `Signals` that remembers what was rung."""

    def __init__(self) -> None:
        self.rung: list[Topic] = []
        self.about: list[UUID] = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def send(self, topic: Topic, about: Sequence[UUID] = ()) -> None:
        self.rung.append(topic)
        self.about.extend(about)

    def listen(self, topic: Topic, concerns: Callable[[UUID], bool] | None = None) -> asyncio.Event:
        return asyncio.Event()


@dataclass(slots=True)
class World:
    """Everything that a test of the API may touch."""

    control: Control
    store: MemoryStore
    client: httpx2.AsyncClient
    bell: Bell
    clock: Clock
    app: Any
    metrics: Metrics = field(default_factory=Metrics)

    async def key(
        self, secret: str, *scopes: str, namespace: str = "default", name: str = "someone", everywhere: bool = False
    ) -> str:
        """A key with these permissions only, in one namespace, which is there from then on, or in each one."""
        if namespace != DEFAULT_NAMESPACE:
            await self.store.namespaces.add(NewNamespace(name=namespace, display_name=namespace, created_by="test"))
        await self.store.keys.add(
            NewKey(
                key_id=uuid4(),
                digest=secret_digest(secret.encode()),
                principal=Principal(name, namespace, frozenset(scopes)),
                namespaces=frozenset({"*"}) if everywhere else None,
            )
        )
        return secret


@contextmanager
def cheap_passwords() -> Iterator[None]:
    """Hashes of what is made meanwhile take a millisecond: as shipped, each takes a core for a tenth of a second, and
    each person of a test needs two or three."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(passwords, "_MEMORY_KIB", 1_024)
        patched.setattr(passwords, "_PASSES", 1)
        yield


def _sealer(clock: Clock) -> EnvelopeSealing:
    return EnvelopeSealing([LocalKey(bytes(range(32)))], clock)


def usual_issuer(store: MemoryStore, clock: Clock) -> TokenIssuer:
    """That of identity tokens, with an address and a key of the installation."""
    return JwtIssuer(
        IssuerSettings("https://tickwise.example.com"), store=store.identity_keys, sealer=_sealer(clock), clock=clock
    )


def _rendering(metrics: Metrics) -> Callable[[StoreStats | None], bytes]:
    """The text of `/metrics`."""

    def render(stats: StoreStats | None) -> bytes:
        if stats is not None:
            metrics.observe_stats(stats)
        return metrics.render()

    return render


@asynccontextmanager
async def world(
    *,
    clock: Clock | None = None,
    store: Any = None,
    searches: Any = None,
    calendars: CalendarReader | None = None,
    broker: Broker | None = None,
    signer: Signer | None = None,
    shared_state: SharedState | None = None,
    membership: SharedState | None = None,
    address: str = "127.0.0.1",
    settings: Sequence[SettingInForce] = (),
    issuer: Callable[[MemoryStore, Clock], TokenIssuer] | None = None,
    second_factor: FactorPolicy | None = None,
    sealer: EnvelopeSealer | None = None,
    **options: Any,
) -> AsyncIterator[World]:
    """A control and an API that are started, and a client that holds an admin key. With a broker, requests go through
    it. `address` is the client's. An answer that is not as the API describes it fails the test that asked for it."""
    clock = clock or SystemClock()
    store = store or MemoryStore(clock)
    await store.open()
    bell, metrics = Bell(), Metrics()
    with cheap_passwords():
        control = Control(
            ControlContext(
                sandboxes=False,  # executors of tests are few lines, and surround nothing
                store=store,
                blobs=open_blobs("memory://"),
                signals=bell,
                clock=clock,
                searches=searches,
                runs_kept_seconds=RUNS_KEPT_SECONDS,
                sealer=sealer or _sealer(clock),
            ),
            keys=store.keys,
            kinds={kind.name: kind for kind in builtin_kinds()},
            calendars=calendars or CalendarFiles(),
            counters=metrics,
            broker=broker,
            signer=signer,
            shared_state=shared_state,
            membership=membership,
            scripts=ScriptChecker(),
            live=LiveOptions(telemetry=metrics),
            second_factor=second_factor,
            settings=settings,
            issuer=(issuer or usual_issuer)(store, clock),
            **{name: options.pop(name) for name in ("verifier", "sso", "proxy", "password_sign_in") if name in options},
        )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await control.start()
        stack.push_async_callback(control.stop)
        await admit_setting(store.keys, clock, ADMIN_KEY)
        app = create_app(
            control,
            clock=clock,
            metrics=metrics,
            render_metrics=_rendering(metrics),
            metrics_media=CONTENT_TYPE,
            limits=LocalLimits(clock),
            **options,
        )
        client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app, client=(address, 4711)), base_url="http://tickwise",
            headers={"Authorization": f"Bearer {ADMIN_KEY}"}, event_hooks={"response": [check_answer]},
        )  # fmt: skip
        await stack.enter_async_context(client)
        yield World(control, store, client, bell, clock, app, metrics)
