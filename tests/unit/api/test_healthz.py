"""`/healthz`: to anybody how each part is, with a key that reads all metrics also why."""

from __future__ import annotations

from tests.support.app import API, world
from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.store import StoreStats
from tickwise.roles.shared.health import HealthCheck, HealthSources


async def test_a_stranger_is_told_how_each_part_is_and_no_number() -> None:
    """Nor a name: what is counted belongs to all namespaces."""
    async with world() as here:
        answer = await here.client.get("/healthz", headers={"Authorization": ""})
        assert 200 == answer.status_code
        assert {
            "status": "degraded",
            "parts": {"store": "ok", "executors": "degraded", "oldest_ready": "ok", "timers": "ok"},
        } == answer.json()


async def test_the_sentences_need_a_key_that_reads_metrics_everywhere() -> None:
    """One of a single namespace is refused, and a stranger is 401."""
    async with world() as here:
        found = (await here.client.get("/healthz/details")).json()
        assert {"status": "degraded", "detail": "No executor is active. What becomes due will wait."} == found["parts"][
            "executors"
        ]
        own = await here.key("own", "metrics:read")
        for header, status in ((own, 403), ({"Authorization": ""}, 401)):
            headers = header if isinstance(header, dict) else {"Authorization": f"Bearer {header}"}
            assert status == (await here.client.get("/healthz/details", headers=headers)).status_code


async def test_a_failing_part_is_503() -> None:
    """A monitor that reads no body sees it; `/livez` still answers, and the process is not restarted for it."""

    async def away() -> StoreStats:
        raise StoreUnavailable("at 10.1.2.3")

    check = HealthCheck(HealthSources(stats=away), SystemClock())
    async with world(health=check) as here:
        for path, status in (("/healthz", 503), ("/healthz/details", 200)):
            answer = await here.client.get(path)
            assert (status, "failing") == (answer.status_code, answer.json()["status"])
            assert "10.1.2.3" not in answer.text
        assert 200 == (await here.client.get("/livez")).status_code
        assert 404 == (await here.client.get(f"{API}/healthz")).status_code
