"""A revoked key, on two processes of the API that share a database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2

from tests.support.app import ADMIN_KEY, API
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.local import LocalLimits
from tickwise.adapters.signals.postgres import PostgresLink, PostgresSignals
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.api.app import create_app
from tickwise.control.context import ControlContext
from tickwise.control.control import Control
from tickwise.control.keys.secrets import admit_setting
from tickwise.observability.metrics import CONTENT_TYPE, Metrics
from tickwise.testing.clock import VirtualClock


@asynccontextmanager
async def process(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A process of the API. Its cache of keys has a clock that stands still: nothing in it grows too old."""
    clock, metrics = SystemClock(), Metrics()
    store = PostgresStore(url, clock=clock)
    signals = PostgresSignals(PostgresLink(url, clock))
    await store.open()
    await signals.start()
    control = Control(
        ControlContext(
            sandboxes=False,
            store=store,
            blobs=open_blobs("memory://"),
            signals=signals,
            clock=clock,
        ),
        keys=store.keys,
        kinds={},
        calendars=CalendarFiles(),
    )
    await control.start()
    await admit_setting(store.keys, clock, ADMIN_KEY)
    app = create_app(
        control,
        clock=VirtualClock(),
        metrics=metrics,
        render_metrics=lambda _: metrics.render(),
        metrics_media=CONTENT_TYPE,
        limits=LocalLimits(clock),
    )
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://tickwise", headers=headers) as client:
        yield client
    await control.stop()
    await signals.stop()
    await store.close()


async def test_a_key_that_one_process_revokes_is_refused_by_all_at_once(database_url: str) -> None:
    """By the signal alone: the other process would remember the key for ever."""
    await upgrade(database_url)
    async with AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(process(database_url)) for _ in range(2)]
        made = (await here.post(f"{API}/keys", json={"name": "ci", "scopes": ["jobs:read"]})).json()
        headers = {"Authorization": f"Bearer {made['key']}"}
        assert 200 == (await there.get(f"{API}/jobs", headers=headers)).status_code

        assert 200 == (await here.delete(f"{API}/keys/{made['key_id']}")).status_code
        assert 401 == (await here.get(f"{API}/jobs", headers=headers)).status_code

        async def refused() -> bool:
            return (await there.get(f"{API}/jobs", headers=headers)).status_code == 401

        await eventually(refused, what="the other process refuses the key")
        assert 200 == (await there.get(f"{API}/jobs")).status_code
