"""A store that lost what it had acknowledged: epochs, tokens that never decrease, and what executors know better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from tickwise.domain.errors import Conflict
from tickwise.domain.fencing import digest_of, epoch_of, first_token
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Lane
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import Check, ClaimRequest, EpochCause, Store, Violation
from tickwise.testing.contracts.base import LEASE_SECONDS, StoreContract
from tickwise.testing.factories import Factory, outcome

CRASHES_MAX = 3
ANY = 1 << 62
"""No token is greater."""
MAX_JSON = 1 << 53
"""From here on a reader of JSON may round integers."""
MAX_EPOCHS = 100


class EpochsContract(StoreContract):
    """`epochs.begin`, `epochs.all`, and what a new epoch lifts."""

    async def test_a_new_epoch_is_told_with_the_next_heartbeat(self, store: Store, other: Store) -> None:
        """Each executor hears it, whichever process began it; it stays the same until the next begins."""
        executor = await self.register(store)
        first = (await store.executors.beat(executor, LEASE_SECONDS)).epoch
        assert first == (await other.executors.beat(executor, LEASE_SECONDS)).epoch
        second = await other.epochs.begin()
        assert second > first
        for client in (store, other):
            assert second == (await client.executors.beat(executor, LEASE_SECONDS)).epoch

    async def test_tokens_of_a_new_epoch_are_above_all_before(self, store: Store, make: Factory) -> None:
        """So what was claimed and then lost can never be taken for what is claimed now; and JSON keeps them exactly."""
        executor = await self.register(store)
        before = await self.held(store, executor, make.job())
        epochs = [await store.epochs.begin() for _ in range(3)]
        after = await self.held(store, executor, make.job())
        assert epoch_of(before.token) < epochs[0] < epochs[1] < epochs[2] == epoch_of(after.token)
        assert before.token < first_token(epochs[2]) < after.token < MAX_JSON

    async def test_what_was_held_when_an_epoch_began_is_held_still(self, store: Store, make: Factory) -> None:
        """An epoch takes nothing away: its tokens are as good as before."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.epochs.begin()
        assert [] == await self.finish(store, executor, outcome(claimed))

    async def test_numbers_of_executors_are_not_given_again(self, store: Store) -> None:
        """A number that is on record is refused in a new epoch too."""
        before = await self.register(store, "before")
        await store.epochs.begin()
        with pytest.raises(Conflict, match=str(before)):
            await self.register(store, "after", number=before)

    async def test_rules_are_read_anew_in_a_new_epoch(self, store: Store) -> None:
        """Their version grows, or a schedule would go by a calendar that was lost."""
        before, _ = await store.rules.all()
        await store.epochs.begin()
        assert before < (await store.rules.all())[0]

    async def test_lanes_are_found_in_a_new_epoch(self, store: Store, other: Store, make: Factory) -> None:
        """Those that a client knew before, and new ones."""
        executor = await self.register(store, queues=("default", "heavy"))
        await self.add(store, make.job(), make.job(lane=Lane("heavy")))
        await other.epochs.begin()
        await store.executors.beat(executor, LEASE_SECONDS)
        await self.add(store, make.job(lane=Lane("heavy")), make.job(lane=Lane("heavy", 9)))
        assert 4 == len(await self.claim(store, executor, queues=("default", "heavy")))

    async def test_epochs_are_listed_newest_first(self, store: Store, make: Factory) -> None:
        """With why each began, and when."""
        [first] = await store.epochs.all()
        number = await store.epochs.begin()
        told, before = await store.epochs.all()
        assert (number, EpochCause.TOLD) == (told.epoch, told.cause)
        assert (first.epoch, EpochCause.FIRST) == (before.epoch, before.cause)
        assert abs(told.began_at - make.now) < 60.0
        assert not before.lost_writes

    async def test_no_more_than_a_hundred_epochs_are_listed(self, store: Store) -> None:
        """The last ones."""
        for _ in range(MAX_EPOCHS):
            last = await store.epochs.begin()
        epochs = await store.epochs.all()
        assert (MAX_EPOCHS, last) == (len(epochs), epochs[0].epoch)

    async def test_what_executors_knew_better_is_counted_in_the_epoch(self, store: Store) -> None:
        """It is the proof that acknowledged writes were lost when it began."""
        await store.epochs.begin()
        for count in (2, 3):
            await store.held.differed(count)
        told, before = await store.epochs.all()
        assert (5, True) == (told.differed, told.lost_writes)
        assert (0, False) == (before.differed, before.lost_writes)

    async def test_leases_have_one_more_period_from_a_new_epoch_on(self, store: Store, make: Factory) -> None:
        """While a standby took over nobody could renew."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.shift(store, LEASE_SECONDS + 5.0)
        await store.epochs.begin()
        assert [] == list((await store.executors.expire(CRASHES_MAX)).executors)
        assert (await store.executors.beat(executor, LEASE_SECONDS)).alive
        assert [] == await self.finish(store, executor, outcome(claimed))


class HeldContract(StoreContract):
    """`held.digest`, `held.tokens`, `held.take_again`."""

    async def test_who_holds_nothing_has_nothing(self, store: Store) -> None:
        """Nor has an executor that never was."""
        executor = await self.register(store)
        for number in (executor, 999_999):
            assert digest_of([]) == await store.held.digest(number, ANY)
            assert {} == dict(await store.held.tokens(number, ANY))

    async def test_digest_and_list_say_what_is_held(self, store: Store, make: Factory) -> None:
        """Begun or not, in whatever lane, claimed by name or not; what ended, went back or is another's is left out."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        await self.held(store, two, make.job())
        claims = [await self.held(store, one, make.job()) for _ in range(3)]
        ended, back, begun = claims
        claims.append(await self.held(store, one, make.job(lane=Lane("heavy")), queues=("heavy",)))
        named = make.job()
        await self.add(store, named)
        assert named.run_id is not None
        request = ClaimRequest(executor=one, queues=("default",), labels=(), limit=1, ahead_seconds=0.0)
        claims += await store.attempts.claim(replace(request, runs=[named.run_id]))
        await self.begin(store, one, begun)
        await self.held(store, two, make.job())
        assert 5 == len(claims)
        assert digest_of(pairs(claims)) == await store.held.digest(one, ANY)
        assert dict(pairs(claims)) == dict(await store.held.tokens(one, ANY))
        reports = outcome(ended), outcome(back, RunState.QUEUED)
        assert [] == await store.attempts.finish(one, reports)
        assert digest_of(pairs(claims[2:])) == await store.held.digest(one, ANY)
        assert dict(pairs(claims[2:])) == dict(await store.held.tokens(one, ANY))

    async def test_only_claims_up_to_a_token_are_looked_at(self, store: Store, make: Factory) -> None:
        """A later claim may still be on its way to its executor."""
        executor = await self.register(store)
        early, late = await self.held(store, executor, make.job()), await self.held(store, executor, make.job())
        assert digest_of(pairs([early])) == await store.held.digest(executor, early.token)
        assert {early.run_id: early.token} == dict(await store.held.tokens(executor, early.token))
        assert digest_of(pairs([early, late])) == await store.held.digest(executor, late.token)

    async def test_the_list_does_not_depend_on_who_claimed(self, store: Store, other: Store, make: Factory) -> None:
        """Another client sees it all."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        assert {claimed.run_id: claimed.token} == dict(await other.held.tokens(executor, ANY))

    async def test_what_a_claim_said_can_be_asked_again(self, store: Store, make: Factory) -> None:
        """Word for word; of what is another's, or held by nobody, nothing."""
        one, two = await self.register(store, "one"), await self.register(store, "two")
        mine, others, free = (
            await self.held(store, one, make.job()),
            await self.held(store, two, make.job()),
            make.job(),
        )
        await self.add(store, free)
        assert free.run_id is not None
        [again] = await store.held.take_again(one, [mine.run_id, others.run_id, free.run_id, UUID(int=7)])
        assert mine._replace(now=0.0) == again._replace(now=0.0)
        assert abs(mine.now - again.now) < 0.001
        assert [] == await self.finish(store, one, outcome(again))


class DiffersContract(StoreContract):
    """`executors.beat` with `differs`, and the invariant HELD_AS_TOLD."""

    async def test_an_executor_says_that_it_knows_better(self, store: Store) -> None:
        """Of how many runs, and since when; until it says otherwise."""
        executor = await self.register(store)
        await store.executors.beat(executor, LEASE_SECONDS, differs=0)
        [row] = await store.executors.all()
        assert (0, None) == (row.differs, row.differing_since)
        await store.executors.beat(executor, LEASE_SECONDS, differs=3)
        [row] = await store.executors.all()
        since = row.differing_since
        assert (3, True) == (row.differs, since is not None)
        await self.shift(store, 5.0)
        await store.executors.beat(executor, LEASE_SECONDS)
        await store.executors.beat(executor, LEASE_SECONDS, differs=1)
        [row] = await store.executors.all()
        assert (1, since) == (row.differs, row.differing_since)
        await store.executors.beat(executor, LEASE_SECONDS, differs=0)
        [row] = await store.executors.all()
        assert (0, None) == (row.differs, row.differing_since)

    async def test_knowing_better_for_long_is_found_and_ends_the_lease(self, store: Store, make: Factory) -> None:
        """After a minute: then the executor starts anew, and what the store believes it to hold goes on."""
        executor = await self.register(store, lease_seconds=600.0)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed, on_unknown=OnUnknown.RERUN)
        await store.executors.beat(executor, 600.0, differs=1)
        await self.shift(store, 50.0)
        assert [] == list((await store.checks.violations(Check.HELD_AS_TOLD, after=None, limit=10)).found)
        assert (await store.executors.beat(executor, 600.0)).alive
        await self.shift(store, 20.0)
        [found] = (await store.checks.violations(Check.HELD_AS_TOLD, after=None, limit=10)).found
        assert executor == found.subject.int
        assert 1 == await store.checks.heal(Check.HELD_AS_TOLD, [found])
        assert not (await store.executors.beat(executor, 600.0)).alive
        await store.executors.expire(CRASHES_MAX)
        assert RunState.QUEUED == await self.run_state(store, claimed.run_id)

    async def test_what_is_right_by_now_is_left_alone(self, store: Store) -> None:
        """An executor that put it right itself keeps its lease."""
        executor = await self.register(store, lease_seconds=600.0)
        await store.executors.beat(executor, 600.0, differs=1)
        await self.shift(store, 90.0)
        await store.executors.beat(executor, 600.0, differs=0)
        assert 1 == await store.checks.heal(Check.HELD_AS_TOLD, [Violation(UUID(int=executor), "", None)])
        assert (await store.executors.beat(executor, 600.0)).alive


def pairs(claims: Sequence[Claimed]) -> list[tuple[UUID, int]]:
    """Runs and tokens."""
    return [(claimed.run_id, claimed.token) for claimed in claims]
