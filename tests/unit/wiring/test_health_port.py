"""The health port answers monitoring without a key, and no other port does."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx2
import pytest

from tests.support.app import world
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.wire.remote import RemoteStore
from tickwise.config import Settings
from tickwise.roles.shared.health import HealthCheck, HealthSources
from tickwise.wiring import health_port as module
from tickwise.wiring.health_port import BlobDisk, check_of, health_port
from tickwise.wiring.membership import membership
from tickwise.wiring.runtime import Runtime, make_scheduler, open_runtime, running
from tickwise.wiring.startup_wait import StartupWait


async def test_metrics_and_reasons_need_a_key_on_the_port_of_the_api() -> None:
    """Anybody may reach it; `/healthz` says no more than how each part is."""
    async with world() as here:
        for path, status in (("/metrics", 401), ("/healthz/details", 401), ("/healthz", 200)):
            answer = await here.client.get(path, headers={"Authorization": ""})
            assert status == answer.status_code, path
            assert "tickwise_" not in answer.text


async def test_the_health_port_tells_each_part_without_a_key(tmp_path: Path) -> None:
    """From its first moment: what it waits for, then the parts of the installation as this process sees them."""
    settings, waiting = Settings(health_port=0, data_dir=tmp_path), StartupWait(asyncio.Event())
    waiting.awaited = "it waits for the store"
    async with (
        health_port(settings, waiting) as health,
        httpx2.AsyncClient(base_url=str(health.url), trust_env=False, timeout=60) as client,
    ):
        before = await client.get("/healthz")
        detail = "This process is not at work: it waits for the store."
        assert (503, {"status": "failing", "parts": {"process": {"status": "failing", "detail": detail}}}) == (
            before.status_code,
            before.json(),
        )
        async with open_runtime(settings, "memory://", waiting) as runtime:
            role = make_scheduler(runtime)
            async with running(runtime, role), membership(runtime, [role], health.url):
                health.at_work(runtime, check_of(runtime))
                while (found := (await client.get("/healthz")).json())["parts"]["schedulers"]["status"] != "ok":
                    await runtime.clock.sleep(0.05)
            answer = await client.get("/metrics")
    # The disk of the tests may be nearly full.
    assert {name for name in found["parts"] if found["parts"][name]["status"] != "ok"} - {"blobs"} == {"executors"}
    assert "1 scheduler is active." == found["parts"]["schedulers"]["detail"]
    assert "are free for scripts and outputs." in found["parts"]["blobs"]["detail"]
    assert (200, True) == (answer.status_code, "tickwise_timers " in answer.text)


async def test_a_disk_that_hangs_holds_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked: a folder of NFS whose server is away answers nobody."""
    asked, answers = [], asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_: Path) -> object:
        asked.append(1)
        asyncio.run_coroutine_threadsafe(answers.wait(), loop).result()
        return usage

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", hang)
    disk = BlobDisk(tmp_path)
    for _ in range(5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await disk.space()
    answers.set()
    assert (usage.free, usage.total) == await disk.space()
    assert [1] == asked


async def test_a_probe_of_a_role_does_not_wait_for_a_keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of the role do, for the length of a takeover. The probe and the report name the keeper as the cause."""
    monkeypatch.setattr(module, "STORE_SECONDS", 0.05)

    async def find() -> str:
        return ""

    store = RemoteStore(find, key=lambda: "key", shard=0, clock=SystemClock(), patience_seconds=3_600.0)
    role = cast(Runtime, SimpleNamespace(spool=None, broker=None, store=store))
    waiting = StartupWait(asyncio.Event())
    async with (
        health_port(Settings(health_port=0, data_dir=tmp_path), waiting) as health,
        httpx2.AsyncClient(base_url=str(health.url), trust_env=False, timeout=60) as client,
    ):
        health._check = check_of(role)
        health._health = HealthCheck(HealthSources(stats=store.upkeep.stats), SystemClock(), look_seconds=0.05)
        answer = await client.get("/readyz")
        assert (503, True) == (answer.status_code, "no keeper answers" in answer.text)
        store_part = (await client.get("/healthz")).json()["parts"]["store"]
        assert "No keeper answers this process: start `tickwise keeper`." in store_part["detail"]
