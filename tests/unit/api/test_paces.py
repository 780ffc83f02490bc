"""Keys are held to a pace, where the settings say so; and who is alive is told."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from tests.support.app import ADMIN_KEY, API, world
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSharedState
from tickwise.api.clients.address import ClientAddresses
from tickwise.api.clients.pacing import RequestPaces
from tickwise.ports.limits import Pace
from tickwise.ports.shared_state import Facts, Note, SharedState
from tickwise.roles.shared.membership import KIND, MembershipWriter, RoleFacts

PACE = Pace(rate=0.5, burst=3)
JOB = {"name": "a", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "true"}}


class AwaySharedState:
    """A shared state that cannot be asked."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def tell(self, notes: Any, ttl_seconds: float) -> bool:
        return False

    async def take_down(self, kind: str, names: Any) -> None: ...

    async def look(self, kind: str, names: Any = None) -> dict[str, Facts] | None:
        return None


async def test_who_comes_too_fast_is_told_when_to_come_again_and_then_let_through() -> None:
    """On every route alike, the hottest one and those of the framework; the time that is told is true."""
    clock = VirtualClock()
    async with world(clock=clock, paces=RequestPaces(key=PACE)) as here:
        asked = [("POST", "/jobs"), ("GET", "/jobs"), ("GET", "/nothing")]
        answers = [await here.client.request(method, API + path, json=JOB) for method, path in asked]
        assert [201, 200, 404] == [answer.status_code for answer in answers]
        assert ['"key";r=2;t=2', '"key";r=1;t=4', '"key";r=0;t=6'] == [each.headers["ratelimit"] for each in answers]
        for method, path in asked:
            refused = await here.client.request(method, API + path, json=JOB)
            assert (429, "rate_limited", "2") == (
                refused.status_code, refused.json()["code"], refused.headers["retry-after"],
            )  # fmt: skip
            assert ('"key";q=3;w=6', '"key";r=0;t=6') == (
                refused.headers["ratelimit-policy"], refused.headers["ratelimit"],
            )  # fmt: skip
            assert refused.headers["x-request-id"] == refused.json()["request_id"]
        await clock.advance(2.0)
        assert 201 == (await here.client.post(f"{API}/jobs", json=JOB)).status_code
        assert 429 == (await here.client.post(f"{API}/jobs", json=JOB)).status_code


async def test_each_key_has_a_pace_of_its_own_and_what_needs_no_key_has_none() -> None:
    """Whoever sends too much hinders nobody else, and no probe."""
    clock = VirtualClock()
    async with world(clock=clock, paces=RequestPaces(key=PACE)) as here:
        other = await here.key("another-key-of-at-least-32-characters", "jobs:read", name="bert")
        headers = {"Authorization": f"Bearer {other}"}
        mine = [(await here.client.get(f"{API}/jobs")).status_code for _ in range(5)]
        assert [200, 200, 200, 429, 429] == mine
        assert 200 == (await here.client.get(f"{API}/jobs", headers=headers)).status_code
        for _ in range(10):
            probe = await here.client.get("/livez")
            assert (200, False) == (probe.status_code, "ratelimit" in probe.headers)


async def test_keys_whose_namespace_and_name_read_alike_have_a_pace_each() -> None:
    """A namespace and a name may hold a slash."""
    clock = VirtualClock()
    async with world(clock=clock, paces=RequestPaces(key=PACE)) as here:
        one = await here.key("a-key-of-c-in-the-namespace-a/b", "*", namespace="a/b", name="c")
        two = await here.key("a-key-of-b/c-in-the-namespace-a", "*", namespace="a", name="b/c")
        statuses = [
            (await here.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {key}"})).status_code
            for key in (*[one] * 4, two)
        ]
    assert [200, 200, 200, 429, 200] == statuses


async def test_a_key_of_several_namespaces_has_one_pace_in_all_of_them() -> None:
    """Naming another namespace in each request gives no more requests, and another key of its name has its own pace."""
    clock = VirtualClock()
    async with world(clock=clock, paces=RequestPaces(key=PACE)) as here:
        for name in ("a", "b"):
            await here.client.post(f"{API}/namespaces", json={"name": name})
        await clock.advance(6.0)
        body = {"name": "k", "permissions": ["*"]}
        one, two = [
            (await here.client.post(f"{API}/keys", json={**body, "namespaces": places})).json()
            for places in (["a", "b"], ["a"])
        ]
        statuses = [
            (
                await here.client.get(
                    f"{API}/jobs", headers={"Authorization": f"Bearer {made['key']}", "Tickwise-Namespace": place}
                )
            ).status_code
            for made, place in ((one, "a"), (one, "b"), (one, "a"), (one, "b"), (two, "a"))
        ]
    assert [200, 200, 200, 429, 200] == statuses


async def test_an_address_is_held_to_its_pace_before_its_key_is_looked_up() -> None:
    """Whatever it sends, with a key or none; probes are not counted, and other addresses are not held up."""
    clock = VirtualClock()
    trusted = ClientAddresses(("127.0.0.0/8",))
    async with world(clock=clock, paces=RequestPaces(address=PACE), addresses=trusted) as here:
        asked = [
            await here.client.get(f"{API}/jobs", headers={"Authorization": "Bearer wrong"}),
            await here.client.post(f"{API}/auth/token", json={}),
            await here.client.get("/openapi.json"),
        ]
        assert [401, 400, 200] == [answer.status_code for answer in asked]
        assert ['"address";r=2;t=2', '"address";r=1;t=4', '"address";r=0;t=6'] == [
            answer.headers["ratelimit"] for answer in asked
        ]
        for key in ("wrong", "another wrong one", ADMIN_KEY):
            refused = await here.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {key}"})
            assert (429, "rate_limited", '"address";q=3;w=6') == (
                refused.status_code, refused.json()["code"], refused.headers["ratelimit-policy"],
            )  # fmt: skip
            assert "this address" in refused.json()["detail"]
        assert 200 == (await here.client.get("/livez")).status_code
        for other in ("192.0.2.1", "2001:db8::1"):
            answer = await here.client.get(f"{API}/jobs", headers={"X-Forwarded-For": other})
            assert (200, '"address";r=2;t=2') == (answer.status_code, answer.headers["ratelimit"])
        neighbour = await here.client.get(f"{API}/jobs", headers={"X-Forwarded-For": "2001:db8::2"})
        assert '"address";r=1;t=4' == neighbour.headers["ratelimit"]


async def test_a_namespace_is_held_to_its_pace_and_one_key_does_not_use_it_up() -> None:
    """What a key sends above its own pace does not count for its namespace. The answer tells each policy."""
    clock = VirtualClock()
    paces = RequestPaces(key=Pace(rate=0.5, burst=2), namespace=PACE, address=Pace(rate=50.0, burst=100))
    async with world(clock=clock, paces=paces) as here:
        one, two = [
            await here.key(f"a-key-of-{name}-with-32-characters-or-more", "*", namespace="team", name=name)
            for name in ("one", "two")
        ]
        headers = [{"Authorization": f"Bearer {key}"} for key in (*[one] * 5, two, two)]
        answers = [await here.client.get(f"{API}/jobs", headers=each) for each in headers]
        assert [200, 200, 429, 429, 429, 200, 429] == [answer.status_code for answer in answers]
        assert '"address";q=100;w=2, "key";q=2;w=4, "namespace";q=3;w=6' == answers[-1].headers["ratelimit-policy"]
        assert '"address";r=93;t=1, "key";r=0;t=4, "namespace";r=0;t=6' == answers[-1].headers["ratelimit"]
        assert "the namespace" in answers[-1].json()["detail"]
        assert 200 == (await here.client.get(f"{API}/jobs")).status_code


async def test_the_log_names_the_client_behind_a_trusted_proxy() -> None:
    """And nobody whom a client names."""
    for trusted, address in ((ClientAddresses(("127.0.0.1",)), "192.0.2.1"), (ClientAddresses(), "127.0.0.1")):
        async with world(addresses=trusted) as here:
            with structlog.testing.capture_logs() as logs:
                await here.client.get(f"{API}/jobs", headers={"X-Forwarded-For": "198.51.100.1, 192.0.2.1"})
            assert [address] == [line["address"] for line in logs if line["event"] == "request"]


async def test_without_a_limit_nothing_is_counted_and_nothing_is_said() -> None:
    """As it is by default."""
    async with world() as here:
        answers = [await here.client.get(f"{API}/jobs") for _ in range(20)]
        assert {(200, False)} == {(answer.status_code, "ratelimit" in answer.headers) for answer in answers}


async def test_roles_that_spoke_lately_are_listed_and_those_that_fell_silent_are_not() -> None:
    """With what they say of themselves; what nobody can read is passed over."""
    clock = VirtualClock()
    shared_state = LocalSharedState(clock)
    said = RoleFacts(role="scheduler", name="a:1", version="1", since=1_800_000_000.0, last_scan_at=1_800_000_001.5)
    calls = [
        MembershipWriter(
            shared_state, clock, lambda: [RoleFacts(role="api", name="b:2", version="1", since=0.0, serves=["jobs"])]
        ),
        MembershipWriter(shared_state, clock, lambda: [said]),
    ]
    async with world(clock=clock, membership=shared_state) as here:
        for call in calls:
            await call.publish()
        await shared_state.put([Note(KIND, "odd", {"role": 7})], 600.0)
        found = (await here.client.get(f"{API}/roles")).json()
        assert [("api", "b:2", ["jobs"], None), ("scheduler", "a:1", [], "2027-01-15T08:00:01.500000Z")] == [
            (each["role"], each["name"], each["serves"], each["last_scan_at"]) for each in found
        ]
        await clock.advance(8.0)
        await calls[1].publish()
        await clock.advance(8.0)
        assert ["scheduler"] == [each["role"] for each in (await here.client.get(f"{API}/roles")).json()]
        await calls[1].stop()
        assert [] == (await here.client.get(f"{API}/roles")).json()


@pytest.mark.parametrize("shared_state", [AwaySharedState()])
async def test_a_board_that_is_away_is_a_503_and_not_an_empty_list(shared_state: SharedState) -> None:
    """Nobody is told that nobody is alive because nobody could be asked."""
    async with world(membership=shared_state) as here:
        answer = await here.client.get(f"{API}/roles")
        assert (503, "3") == (answer.status_code, answer.headers["retry-after"])
