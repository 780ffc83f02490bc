"""Several databases on bad days: one of three away, routers whose maps differ in age, and addresses that are wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.waiting import eventually
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.sharded import ShardedStore, dispatch, fleet
from tickwise.adapters.store.sharded.fleet import AWAY_SECONDS
from tickwise.adapters.store.sharded.placing import rendezvous
from tickwise.adapters.store.sharded.turns import IDLE_SECONDS
from tickwise.domain.errors import Misconfigured, NamespaceMoved, ShardUnavailable, StoreUnavailable
from tickwise.domain.fencing import shard_bits
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.observability.tasks import end_tasks
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.missing import watch_missing
from tickwise.ports.shards import ShardState
from tickwise.ports.store import Added, ClaimRequest, FireRequest, RunQuery, Store
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory, executor, outcome

LEASE_SECONDS = 15.0
LONG_LEASE_SECONDS = 100_000.0
NAMES = {1: "one", 2: "two", 3: "three"}


class Breakable(WrappedStore):
    """A store that can be away, or stand still."""

    def __init__(self, store: MemoryStore) -> None:
        self.is_away = False
        self.left: set[str] = set()
        self.asked: list[str] = []
        self.slow_seconds = 0.0
        """Of the real clock: each claim is answered so much later."""
        self.stands = False
        """No call is answered from now on."""
        super().__init__(store)

    def around(self, name: str, call: Call) -> Call:
        async def guarded(*arguments: Any, **named: Any) -> Any:
            self.asked.append(name)
            if self.is_away:
                raise StoreUnavailable("the database could not be reached: nothing was written")
            if self.stands:
                await asyncio.get_running_loop().create_future()
            gone = next((each for each in self.left if any(_names(each, one) for one in arguments)), None)
            if gone is not None:
                raise NamespaceMoved(gone)
            answer = await call(*arguments, **named)
            if name == "attempts.claim" and self.slow_seconds:
                await asyncio.sleep(self.slow_seconds)  # noqa: TID251 - it is what the test is about: a slow answer
            return answer

        return guarded


def _names(namespace: str, argument: Any) -> bool:
    if isinstance(argument, list | tuple) and argument and not hasattr(argument, "namespace"):
        return any(_names(namespace, each) for each in argument)
    return namespace in (argument, getattr(argument, "namespace", None))


class Installation:
    """Three databases, each with a namespace, and any number of routers over them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.shard_map = MemoryStore(self.clock).shard_map
        self.parts = [Breakable(MemoryStore(self.clock, shard=number)) for number in NAMES]

    async def begin(self) -> None:
        for number, part in zip(NAMES, self.parts, strict=True):
            await part.open()
            assert (await self.shard_map.add(part.upkeep.cluster_id)).number == number
            await self.shard_map.place(NAMES[number], number)
        self.router = await self.another()
        for name in NAMES.values():
            await self.router.namespaces.add(NewNamespace(name=name, display_name=name, created_by="ada"))

    async def another(self) -> ShardedStore:
        stores: Sequence[Any] = self.parts
        router = ShardedStore(stores, self.shard_map, clock=self.clock)
        await router.open()
        return router


@pytest_asyncio.fixture
async def installation() -> Installation:
    made = Installation()
    await made.begin()
    return made


def job(installation: Installation, namespace: str) -> Any:
    return Factory(installation.clock.now(), namespace=namespace, seed=namespace).job()


def wants(number: int, limit: int = 10) -> ClaimRequest:
    return ClaimRequest(executor=number, queues=["default"], labels=[], limit=limit, ahead_seconds=0.0)


async def test_one_executor_gets_the_runs_of_every_database(installation: Installation) -> None:
    """Its number is the same everywhere, and each token names the database that drew it."""
    router = installation.router
    number = await router.executors.join(executor())
    for name in NAMES.values():
        assert await router.jobs.add([job(installation, name)]) == [Added.CREATED]
    claims = await router.attempts.claim(wants(number))
    assert {name: shard for shard, name in NAMES.items()} == {each.namespace: shard_bits(each.token) for each in claims}
    assert [] == await router.attempts.finish(number, [outcome(each) for each in claims])


async def test_a_report_goes_to_the_database_of_its_token_alone(installation: Installation) -> None:
    """No other one is asked."""
    router = installation.router
    number = await router.executors.join(executor())
    await router.jobs.add([job(installation, "two")])
    (claimed,) = await router.attempts.claim(wants(number))
    for part in installation.parts:
        part.asked.clear()
    assert [] == await router.attempts.finish(number, [outcome(claimed)])
    assert [[], ["attempts.finish"], []] == [part.asked for part in installation.parts]


@pytest.mark.parametrize("others_answer", [True, False])
async def test_the_time_is_asked_of_all_shards_at_once_when_the_first_is_slow(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, *, others_answer: bool
) -> None:
    """A keyspace whose nodes are away has no answer of any shard: to wait for one after the other would take longer
    than a caller waits."""
    monkeypatch.setattr(fleet, "SLOW_SECONDS", 0.01)
    router, parts = installation.router, installation.parts
    for part in parts:
        part.asked.clear()
        part.stands = part is parts[0] or not others_answer
    asking = asyncio.create_task(router.now())
    try:
        await eventually(lambda: [["now"]] * 3 == [part.asked for part in parts], what="all shards are asked")
        if others_answer:
            assert installation.clock.now() == await asking
    finally:
        await end_tasks([asking])


async def test_the_time_is_unknown_when_no_shard_is_there(installation: Installation) -> None:
    """The error is that of the first one."""
    for part in installation.parts:
        part.is_away = True
    with pytest.raises(ShardUnavailable, match="shard 1"):
        await installation.router.now()
    installation.parts[2].is_away = False
    assert installation.clock.now() == await installation.router.now()


async def test_the_namespaces_of_a_database_that_is_away_wait_and_say_so(installation: Installation) -> None:
    """The error names the shard; those of the others are stored, claimed and listed as always."""
    router = installation.router
    number = await router.executors.join(executor())
    installation.parts[1].is_away = True
    with pytest.raises(ShardUnavailable, match="shard 2") as away:
        await router.jobs.add([job(installation, "two")])
    assert away.value.shards == {2}
    for name in ("one", "three"):
        assert await router.jobs.add([job(installation, name)]) == [Added.CREATED]
    claims = await router.attempts.claim(wants(number))
    assert {"one", "three"} == {each.namespace for each in claims}
    assert [] == await router.attempts.finish(number, [outcome(each) for each in claims])
    assert 1 == len(await router.searches.runs(RunQuery(namespace="three")))


async def test_a_list_of_all_namespaces_says_what_it_is_without(installation: Installation) -> None:
    """It has what the others hold, and the numbers of those that are missing stand beside it."""
    installation.parts[2].is_away = True
    missing = watch_missing()
    assert 0 == (await installation.router.upkeep.stats()).queued
    assert missing == {3}


async def test_a_list_without_any_shard_names_the_shards_and_a_cause(installation: Installation) -> None:
    """Behind a shard is a database or a keeper, so the error repeats what its store says and names neither itself."""
    for part in installation.parts:
        part.is_away = True
    with pytest.raises(ShardUnavailable) as away:
        await installation.router.upkeep.stats()
    assert "none of the shards 1, 2, 3 answers; shard 1: the database could not be reached: nothing was written" == (
        away.value.detail
    )
    assert away.value.shards == {1, 2, 3}


async def test_a_decision_about_all_is_not_made_without_one(installation: Installation) -> None:
    """Scripts that no task names are deleted: a database that is away may name them."""
    installation.parts[1].is_away = True
    with pytest.raises(ShardUnavailable, match="shard 2"):
        await installation.router.tasks.scripts()


async def test_timers_of_the_others_fire_while_one_is_away(installation: Installation) -> None:
    """A scheduler goes on with what it can reach."""
    router = installation.router
    for name in NAMES.values():
        await router.jobs.add([job(installation, name)._replace(run_id=None, recurring=True, due=1_800_000_000.0)])
    installation.parts[0].is_away = True
    taken = []
    for _ in range(2):
        batch = await router.timers.take(FireRequest(horizon_seconds=1.0, limit=10))
        taken += [timer.namespace for timer in batch.timers]
    assert {"two", "three"} == set(taken)


async def test_runs_of_a_database_that_is_away_end_and_those_of_others_go_on(installation: Installation) -> None:
    """Before its lease there is over, the executor is told to stop those runs alone. When the database is back, the
    executor takes part in it again under its number."""
    router = installation.router
    number = await router.executors.join(executor())
    await router.executors.beat(number, LEASE_SECONDS, [], capacities={})
    installation.parts[1].is_away = True
    await installation.clock.advance(LEASE_SECONDS / 4)
    early = await router.executors.beat(number, LEASE_SECONDS)
    assert (True, []) == (early.alive, list(early.lost))
    await installation.clock.advance(LEASE_SECONDS / 4)
    late = await router.executors.beat(number, LEASE_SECONDS)
    assert (True, [2]) == (late.alive, list(late.lost))
    installation.parts[1].is_away = False
    assert [] == list((await router.executors.beat(number, LEASE_SECONDS)).lost)
    await router.jobs.add([job(installation, "two")])
    assert ["two"] == [each.namespace for each in await router.attempts.claim(wants(number))]


async def test_a_shard_that_expired_the_executor_takes_it_again(installation: Installation) -> None:
    """Cut off from one database until that freed its runs, the executor goes on in the others."""
    router = installation.router
    number = await router.executors.join(executor())
    await installation.clock.advance(LEASE_SECONDS + 1.0)
    for part in (installation.parts[0], installation.parts[2]):
        await part.executors.beat(number, LEASE_SECONDS)
    assert [number] == list((await installation.parts[1].executors.expire(3)).executors)
    assert [2] == list((await router.executors.beat(number, LEASE_SECONDS)).lost)
    again = await router.executors.beat(number, LEASE_SECONDS)
    assert (True, []) == (again.alive, list(again.lost))


async def test_an_idle_database_costs_a_busy_one_nothing(installation: Installation) -> None:
    """Beside runs that wait, it is asked once in a while and not with each claim."""
    router = installation.router
    number = await router.executors.join(executor())

    made = Factory(installation.clock.now(), namespace="one", seed="many")
    await router.jobs.add([made.job() for _ in range(50)])
    await router.attempts.claim(wants(number, 1))
    await router.attempts.claim(wants(number, 1))
    await router.attempts.claim(wants(number, 1))
    for part in installation.parts:
        part.asked.clear()
    for _ in range(10):
        await router.attempts.claim(wants(number, 1))
    assert [10, 0, 0] == [part.asked.count("attempts.claim") for part in installation.parts]


async def test_few_runs_beside_many_are_not_starved(installation: Installation) -> None:
    """A database that was idle and has one run gives it within the pause of idle ones, while another could fill every
    claim."""
    router = installation.router
    number = await router.executors.join(executor())
    made = Factory(installation.clock.now(), namespace="one", seed="many")
    await router.jobs.add([made.job() for _ in range(200)])
    for _ in range(3):
        await router.attempts.claim(wants(number, 5))
    await router.jobs.add([job(installation, "two")])
    claimed: list[str] = []
    for _ in range(round(IDLE_SECONDS / 0.01) + 1):
        claimed += [each.namespace for each in await router.attempts.claim(wants(number, 5))]
        await installation.clock.advance(0.01)
    assert ("two" in claimed, claimed.count("one")) == (True, len(claimed) - 1)


async def test_runs_of_databases_that_are_always_slow_are_claimed(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of their answers comes after the usual wait for one: the executor waits longer for them, and does not give
    the same runs back again and again."""
    monkeypatch.setattr(dispatch, "SLOW_CLAIM_SECONDS", 0.02)
    router = installation.router
    number = await router.executors.join(executor())
    await router.executors.beat(number, LONG_LEASE_SECONDS, [], capacities={})
    for name in NAMES.values():
        await router.jobs.add([job(installation, name)])
    for part in installation.parts:
        part.slow_seconds = 0.1
    claimed: list[str] = []

    async def has_all() -> bool:
        with contextlib.suppress(ShardUnavailable):
            claimed.extend(each.namespace for each in await router.attempts.claim(wants(number)))
        await installation.clock.advance(AWAY_SECONDS)
        return len(claimed) == len(NAMES)

    await eventually(has_all, what="the runs of slow databases are claimed")
    assert set(NAMES.values()) == set(claimed)


async def test_a_slow_database_is_not_starved_by_quick_ones(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have a run for each claim and never fill one; what is in hand does not wait for the slow one, which comes
    first at the next claim."""
    monkeypatch.setattr(dispatch, "SLOW_CLAIM_SECONDS", 0.02)
    router = installation.router
    number = await router.executors.join(executor())
    await router.executors.beat(number, LONG_LEASE_SECONDS, [], capacities={})
    await router.jobs.add([job(installation, "two")])
    installation.parts[1].slow_seconds = 0.1
    quick = [Factory(installation.clock.now(), namespace=name, seed=f"quick {name}") for name in ("one", "three")]
    claimed: set[str] = set()

    async def has_it() -> bool:
        await router.jobs.add([made.job() for made in quick])
        claimed.update(each.namespace for each in await router.attempts.claim(wants(number)))
        await installation.clock.advance(AWAY_SECONDS)
        return "two" in claimed

    await eventually(has_it, what="the run of the slow database is claimed")


async def test_a_claim_is_filled_by_one_busy_database_and_the_next_by_another(installation: Installation) -> None:
    """None is asked for a part of what another could give: half-filled statements cost nearly as much as full ones."""
    router = installation.router
    number = await router.executors.join(executor())
    for name in NAMES.values():
        made = Factory(installation.clock.now(), namespace=name, seed=name)
        await router.jobs.add([made.job() for _ in range(30)])
    claims = [await router.attempts.claim(wants(number, 10)) for _ in range(6)]
    turns = [{each.namespace for each in claim} for claim in claims]
    assert [10] * 6 == [len(claim) for claim in claims]
    assert all(len(names) == 1 for names in turns)
    assert turns[:3] == turns[3:]
    assert {"one", "two", "three"} == set().union(*turns[:3])


async def test_a_batch_of_outcomes_is_one_statement_for_each_of_its_databases(installation: Installation) -> None:
    """Also with one whose token names none that is known: it is offered to each, and refused."""
    router = installation.router
    number = await router.executors.join(executor())
    for name in ("one", "three"):
        made = Factory(installation.clock.now(), namespace=name, seed=name)
        await router.jobs.add([made.job() for _ in range(5)])
    claims = await router.attempts.claim(wants(number, 10))
    for part in installation.parts:
        part.asked.clear()
    mixed = [claims[at] for at in (0, 5, 1, 6, 2, 7, 3, 8, 4, 9)]
    assert [] == await router.attempts.finish(number, [outcome(each) for each in mixed])
    assert [["attempts.finish"], [], ["attempts.finish"]] == [part.asked for part in installation.parts]
    stranger = outcome(claims[0])._replace(run_id=UUID(int=7), token=shard_bits(50))
    assert [stranger.run_id] == await router.attempts.finish(number, [stranger])
    assert 3 * ["attempts.finish"] == [part.asked[-1] for part in installation.parts]


async def test_a_batch_of_several_namespaces_is_answered_in_its_order(installation: Installation) -> None:
    """Each job goes to its database, in one statement for each, and its answer stands in its place."""
    router = installation.router
    repeated = job(installation, "two")
    await router.jobs.add([repeated])
    for part in installation.parts:
        part.asked.clear()
    batch = [
        job(installation, "three"),
        repeated,
        *(Factory(installation.clock.now(), namespace=name, seed="more").job() for name in NAMES.values()),
    ]
    expected = [Added.CREATED, Added.REPEATED, *[Added.CREATED] * 3]
    assert expected == await router.jobs.add(batch)
    assert [1, 1, 1] == [part.asked.count("jobs.add") for part in installation.parts]


async def test_a_router_whose_map_is_old_follows_a_namespace(installation: Installation) -> None:
    """The database that it has left refuses, the map is read again, and the call is made where the namespace is."""
    old, new = installation.router, await installation.another()
    await installation.parts[2].namespaces.add(NewNamespace(name="two", display_name="two", created_by="ada"))
    await installation.shard_map.begin_move("two", 3)
    await installation.shard_map.end_move("two", arrived=True)
    installation.parts[1].left.add("two")
    await new.fleet.places.read()
    assert (2, 3) == (old.fleet.places.of("two"), new.fleet.places.of("two"))
    made = job(installation, "two")
    assert await old.jobs.add([made]) == [Added.CREATED]
    assert await new.jobs.get("two", made.job_id) is not None
    assert 3 == old.fleet.places.of("two")


async def test_while_a_namespace_moves_its_callers_wait(installation: Installation) -> None:
    """It has left, and has not arrived: the same call is to be made again."""
    await installation.shard_map.begin_move("two", 3)
    installation.parts[1].left.add("two")
    with pytest.raises(NamespaceMoved):
        await installation.router.jobs.add([job(installation, "two")])


async def test_a_new_namespace_gets_a_place_that_every_router_knows(installation: Installation) -> None:
    """Two routers add it at the same time, and come to the same database."""
    first, second = installation.router, await installation.another()
    rows = await asyncio.gather(
        *(
            router.namespaces.add(NewNamespace(name="new", display_name="New", created_by="ada"))
            for router in (first, second)
        )
    )
    assert rows[0] == rows[1]
    assert first.fleet.places.of("new") == second.fleet.places.of("new")


async def test_a_shard_that_drains_gets_no_new_namespace_from_a_router_that_had_nothing_to_do(
    installation: Installation,
) -> None:
    """The answer to the draining counts for each process at once, also for one that has not read the map since."""
    wanted = rendezvous("new", NAMES)
    await installation.shard_map.set_state(wanted, ShardState.DRAINING)
    await installation.router.namespaces.add(NewNamespace(name="new", display_name="New", created_by="ada"))
    left = [number for number in NAMES if number != wanted]
    assert rendezvous("new", left) == (await installation.shard_map.read()).places["new"].shard


async def test_namespaces_from_before_stay_in_the_first_database(installation: Installation) -> None:
    """What one database held alone is found there once there are several."""
    assert 1 == installation.router.fleet.places.of(DEFAULT_NAMESPACE)


async def test_a_database_that_is_named_twice_is_refused(installation: Installation) -> None:
    """Two addresses may lead to one database, in other words."""
    stores: list[Store] = [*installation.parts, installation.parts[1]]
    with pytest.raises(Misconfigured, match="lead to one database, shard 2"):
        await ShardedStore(stores, installation.shard_map, clock=installation.clock).open()


async def test_a_database_of_another_installation_is_refused(installation: Installation) -> None:
    """Nothing is written to it."""
    stranger = Breakable(MemoryStore(installation.clock))
    stores: list[Store] = [*installation.parts, stranger]
    with pytest.raises(Misconfigured, match="no shard of this installation"):
        await ShardedStore(stores, installation.shard_map, clock=installation.clock).open()
    assert {"open", "close"} == set(stranger.asked)


async def test_a_database_that_is_not_named_is_one_that_is_away(installation: Installation) -> None:
    """The map knows it: its namespaces wait, those of the others go on."""
    stores: Sequence[Any] = installation.parts[:2]
    router = ShardedStore(stores, installation.shard_map, clock=installation.clock)
    await router.open()
    with pytest.raises(ShardUnavailable, match="shard 3"):
        await router.jobs.add([job(installation, "three")])
    assert await router.jobs.add([job(installation, "two")]) == [Added.CREATED]
