"""Clients that send too much, under an address that is not theirs, or under very many."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.security.probes import probe
from tests.support.app import ADMIN_KEY, API, world
from tests.support.people import ask
from tickwise.adapters.clock import SystemClock, VirtualClock
from tickwise.adapters.signals.local import LocalLimits
from tickwise.adapters.signals.pacing import MAX_CALLERS
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.api.clients.address import FORWARDED, ClientAddresses
from tickwise.api.clients.pacing import RequestPaces
from tickwise.ports.limits import Pace

PACES = RequestPaces(address=Pace(rate=1.0, burst=5))
PROXY = "10.0.0.1"


@probe(3, stopped_by="an address is told by trusted proxies alone")
@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "True-Client-IP"])
async def test_a_header_gives_a_client_no_other_address(header: str) -> None:
    """A client names another address in each request, to be counted as another one each time."""
    async with world(clock=VirtualClock(), paces=PACES, addresses=ClientAddresses([PROXY])) as here:
        statuses = []
        for number in range(20):
            told = f"for=198.51.100.{number}" if header == "Forwarded" else f"198.51.100.{number}"
            statuses.append((await here.client.get(f"{API}/jobs", headers={header: told})).status_code)
    assert [200] * 5 + [429] * 15 == statuses


@probe(3, stopped_by="the header is read from the right, past trusted hops only")
@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
async def test_a_header_through_a_proxy_gives_a_client_no_other_address(header: str) -> None:
    """A client behind a trusted proxy sends the header itself, with entries, quotes and addresses of proxies in it; the
    proxy adds the address that it sees."""
    grammar = FORWARDED if header == "Forwarded" else "x-forwarded-for"
    entry = "for={}" if header == "Forwarded" else "{}"
    spoofs = ["", 'for="', 'by="a, for=', "10.0.0.2, 10.0.0.3", "203.0.113.{}", "unknown", "%00", '";for=203.0.113.{}']
    clock = VirtualClock()
    addresses = ClientAddresses(["10.0.0.0/8"], grammar)
    async with world(clock=clock, paces=PACES, addresses=addresses, address=PROXY) as here:
        other = await here.client.get(f"{API}/jobs", headers={header: entry.format("192.0.2.1")})
        passed = 0
        for number in range(8 * len(spoofs)):
            spoof = spoofs[number % len(spoofs)].format(number)
            told = f"{spoof}, {entry.format('198.51.100.7')}" if spoof else entry.format("198.51.100.7")
            passed += (await here.client.get(f"{API}/jobs", headers={header: told})).status_code == 200
        again = await here.client.get(f"{API}/jobs", headers={header: entry.format("192.0.2.1")})
    # At the worst what cannot be read counts for the proxy, which nobody else is counted as.
    assert passed <= 2 * 5
    assert ['"address";r=4;t=1', '"address";r=3;t=2'] == [each.headers["ratelimit"] for each in (other, again)]


@probe(3, stopped_by="an address is counted before its key is looked up")
async def test_a_flood_from_one_address_reaches_no_store() -> None:
    """Two thousand requests with as many wrong keys, and sign-ins, from the 64 bits of addresses that one customer
    has."""
    clock = VirtualClock()
    addresses = ClientAddresses([PROXY])
    async with world(clock=clock, paces=PACES, addresses=addresses, address=PROXY) as here:
        looked = 0
        find = here.store.keys.find

        async def counted(digest: bytes) -> object:
            nonlocal looked
            looked += 1
            return await find(digest)

        here.store.keys.find = counted  # type: ignore[method-assign, assignment]  # to count what it is asked
        statuses = []
        for number in range(1_000):
            headers = {"X-Forwarded-For": f"2001:db8::{number:x}", "Authorization": f"Bearer wrong {number}"}
            statuses.append((await here.client.get(f"{API}/jobs", headers=headers)).status_code)
            form = {"grant_type": "password", "username": "ada", "password": str(number)}
            token = await here.client.post(f"{API}/auth/token", json=form, headers=headers)
            statuses.append(token.status_code)
        other = await here.client.get(f"{API}/jobs", headers={"X-Forwarded-For": "2001:db8:0:1::1"})
    assert 1_995 == statuses.count(429)
    assert looked <= 5
    assert 200 == other.status_code


@probe(3, stopped_by="counts that hold somebody up are forgotten last")
async def test_made_up_addresses_free_nobody_who_has_to_wait() -> None:
    """An address that must wait lets thirty thousand others be counted, to be forgotten meanwhile."""
    limits = LocalLimits(VirtualClock())
    pace = Pace(rate=1.0, burst=5)
    for _ in range(5):
        assert (await limits.hit("attacker", pace)).allowed
    for number in range(3 * MAX_CALLERS):
        await limits.hit(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", pace)
    assert not (await limits.hit("attacker", pace)).allowed
    assert len(limits._own._times) <= MAX_CALLERS


@probe(6, stopped_by="additions to a namespace with quotas lock its use until they are there")
async def test_parallel_batches_do_not_pass_a_quota(database_url: str) -> None:
    """A tenant sends twenty batches at once to two API processes, to get more jobs and runs than
    its quota."""
    await upgrade(database_url)
    async with contextlib.AsyncExitStack() as stack:
        stores = []
        for _ in range(2):
            store = PostgresStore(database_url, clock=SystemClock())
            await store.open()
            stack.push_async_callback(store.close)
            stores.append(store)
        here, there = [await stack.enter_async_context(world(store=store)) for store in stores]
        assert 201 == (await ask(here, ADMIN_KEY, "POST", "/namespaces", json={"name": "team"})).status_code
        quotas = {"jobs": 7, "runs_per_day": 9}
        assert 200 == (await ask(here, ADMIN_KEY, "PUT", "/namespaces/team/quotas", json=quotas)).status_code
        task = {"kind": "shell", "command": "true"}
        batch = [{"name": "j", "every": "1h", "task": task}, {"name": "r", "schedule_type": "IMMEDIATE", "task": task}]
        answers = await asyncio.gather(
            *(
                ask(each, ADMIN_KEY, "POST", "/jobs:batch", json=batch * 2, namespace="team")
                for each in [here, there] * 10
            )
        )
        results = [each for answer in answers for each in answer.json()["results"]]
        use = (await ask(there, ADMIN_KEY, "GET", "/namespaces/team/usage")).json()
    assert 16 == sum(each["status"] == 201 for each in results)
    assert (7, 9) == (use["jobs"], use["runs_today"])
    codes = {each["problem"]["code"] for each in results if "problem" in each}
    assert {"quota_jobs", "quota_runs"} == codes
