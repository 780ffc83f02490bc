"""Second factors: kept, confirmed, used once, removed; steps that are settled once; recovery codes that work once."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, NotFound
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity.factors import (
    FACTORS_MAX,
    OPEN_STEPS_MAX,
    TOTP_MAX,
    TRIES_MAX,
    UNCONFIRMED_SECONDS,
    FactorKind,
    NewFactor,
    NewStep,
    Shown,
    StepPurpose,
)
from tickwise.ports.identity.users import PasswordLimit, UserRow
from tickwise.ports.store import Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.people.users import new_user
from tickwise.testing.factories import Factory

DAY = 86_400.0


def digest(number: int) -> bytes:
    """Of the secret of a step, or of a recovery code."""
    return sha256(b"factor %d" % number).digest()


def new_codes(make: Factory, user_id: UUID, **fields: Any) -> NewFactor:
    """An app as control enrols it."""
    whole: dict[str, Any] = {
        "factor_id": make.identifier(), "user_id": user_id, "kind": FactorKind.TOTP, "name": "phone",
        "secret": b"sealed", **fields,
    }  # fmt: skip
    return NewFactor(**whole)


def new_passkey(make: Factory, user_id: UUID, number: int = 1, **fields: Any) -> NewFactor:
    """A passkey as control registers it."""
    whole: dict[str, Any] = {
        "factor_id": make.identifier(), "user_id": user_id, "kind": FactorKind.PASSKEY, "name": "key",
        "secret": b"public", "counter": 7, "credential_id": b"credential %d" % number, "place": "tickwise.example.com",
        **fields,
    }  # fmt: skip
    return NewFactor(**whole)


def new_step(user_id: UUID | None, number: int = 1, **fields: Any) -> NewStep:
    """A step as control begins it."""
    whole: dict[str, Any] = {
        "digest": digest(number), "purpose": StepPurpose.SECOND_FACTOR, "user_id": user_id, "generation": 1,
        "challenge": b"challenge", "seconds": 300.0, **fields,
    }  # fmt: skip
    return NewStep(**whole)


def entry(action: AuditAction) -> AuditEntry:
    """An entry about a factor."""
    return AuditEntry(INSTALLATION, action, Source(CallerKind.STRANGER, None, ""), "user")


class SecondFactorsContract(StoreContract):
    """`FactorStore`."""

    async def person(self, store: Store, make: Factory) -> UserRow:
        """A person."""
        return await store.users.add(new_user(make, f"user{make.identifier().hex[-6:]}"))

    async def used(self, store: Store, action: AuditAction) -> int:
        """The number of entries of an action."""
        return len(await store.audit.find(AuditQuery(namespace=INSTALLATION, action=action, limit=100)))

    async def test_codes_are_good_once_they_are_confirmed(self, store: Store, make: Factory) -> None:
        """Adding and confirming twice is doing it once; the entry is written once."""
        user = await self.person(store, make)
        limit = PasswordLimit("team-a", frozenset({"jobs:read"}))
        codes = new_codes(make, user.user_id, password_limit=limit)
        for _ in range(2):
            await store.factors.add(codes)
        (found,) = await store.factors.of(user.user_id)
        assert (codes.factor_id, FactorKind.TOTP, "phone", b"sealed", 0, False, False, None, limit) == (
            found.factor_id, found.kind, found.name, found.secret, found.counter, found.confirmed, found.works,
            found.used_at, found.password_limit,
        )  # fmt: skip
        for _ in range(2):
            audit = entry(AuditAction.FACTOR_ENROLLED)
            assert await store.factors.confirm(user.user_id, codes.factor_id, 100, audit=audit)
        (found,) = await store.factors.of(user.user_id)
        assert (True, True, 100) == (found.confirmed, found.works, found.counter)
        assert found.used_at is not None
        assert not await store.factors.confirm(user.user_id, codes.factor_id, 101)
        assert 1 == await self.used(store, AuditAction.FACTOR_ENROLLED)

    async def test_codes_are_confirmed_by_their_person_alone(self, store: Store, make: Factory) -> None:
        """And nobody else renames or removes them."""
        one, other = await self.person(store, make), await self.person(store, make)
        codes = new_codes(make, one.user_id)
        await store.factors.add(codes)
        assert not await store.factors.confirm(other.user_id, codes.factor_id, 100)
        assert not await store.factors.rename(other.user_id, codes.factor_id, "mine")
        assert not await store.factors.remove(other.user_id, codes.factor_id)
        assert ["phone"] == [each.name for each in await store.factors.of(one.user_id)]
        assert [] == list(await store.factors.of(other.user_id))

    async def test_another_enrolment_takes_the_place_of_one_that_was_not_confirmed(
        self, store: Store, make: Factory
    ) -> None:
        """And one that nobody confirms is forgotten."""
        user = await self.person(store, make)
        for _ in range(2):
            codes = new_codes(make, user.user_id)
            await store.factors.add(codes)
        assert [codes.factor_id] == [each.factor_id for each in await store.factors.of(user.user_id)]
        await self.shift(store, UNCONFIRMED_SECONDS + 1.0)
        assert [] == list(await store.factors.of(user.user_id))

    async def test_a_person_has_so_many_factors(self, store: Store, make: Factory) -> None:
        """And fewer with codes."""
        user = await self.person(store, make)
        for _ in range(TOTP_MAX):
            codes = new_codes(make, user.user_id)
            await store.factors.add(codes)
            await store.factors.confirm(user.user_id, codes.factor_id, 1)
        with pytest.raises(Conflict) as refused:
            await store.factors.add(new_codes(make, user.user_id))
        assert "factors_exhausted" == refused.value.code
        for number in range(FACTORS_MAX - TOTP_MAX):
            await store.factors.add(new_passkey(make, user.user_id, number))
        with pytest.raises(Conflict) as refused:
            await store.factors.add(new_passkey(make, user.user_id, FACTORS_MAX))
        assert "factors_exhausted" == refused.value.code

    async def test_nobody_who_is_gone_gets_a_factor(self, store: Store, make: Factory) -> None:
        """An id that nobody has."""
        with pytest.raises(NotFound):
            await store.factors.add(new_codes(make, make.identifier()))

    async def test_a_passkey_is_found_by_its_id_and_belongs_to_one_person(self, store: Store, make: Factory) -> None:
        """It is good at once."""
        one, other = await self.person(store, make), await self.person(store, make)
        passkey = new_passkey(make, one.user_id)
        for _ in range(2):
            await store.factors.add(passkey, audit=entry(AuditAction.FACTOR_ENROLLED))
        with pytest.raises(Conflict) as refused:
            await store.factors.add(new_passkey(make, other.user_id))
        assert "passkey_known" == refused.value.code
        found = await store.factors.by_credential(b"credential 1")
        assert found is not None
        assert (one.user_id, True, 7, "tickwise.example.com") == (
            found.user_id, found.works, found.counter, found.place,
        )  # fmt: skip
        assert await store.factors.by_credential(b"credential 2") is None
        assert 1 == await self.used(store, AuditAction.FACTOR_ENROLLED)

    async def test_a_factor_has_a_name(self, store: Store, make: Factory) -> None:
        """A name that it has already leaves no entry."""
        user = await self.person(store, make)
        passkey = new_passkey(make, user.user_id)
        await store.factors.add(passkey)
        for _ in range(2):
            audit = entry(AuditAction.FACTOR_RENAMED)
            assert await store.factors.rename(user.user_id, passkey.factor_id, "blue key", audit=audit)
        assert ["blue key"] == [each.name for each in await store.factors.of(user.user_id)]
        assert 1 == await self.used(store, AuditAction.FACTOR_RENAMED)

    async def test_a_seed_is_sealed_anew_if_it_is_the_one_that_was_opened(self, store: Store, make: Factory) -> None:
        """One that changed meanwhile stays."""
        user = await self.person(store, make)
        codes = new_codes(make, user.user_id)
        await store.factors.add(codes)
        assert not await store.factors.reseal(codes.factor_id, b"other", b"wrong")
        assert await store.factors.reseal(codes.factor_id, b"sealed", b"anew")
        assert [b"anew"] == [each.secret for each in await store.factors.of(user.user_id)]

    async def test_the_seeds_of_all_people_are_read_page_by_page(self, store: Store, make: Factory) -> None:
        """By id, for a rotation of their key: confirmed or not, and no passkey."""
        seeds = []
        for number in range(3):
            user = await self.person(store, make)
            codes = new_codes(make, user.user_id, secret=b"seed %d" % number)
            await store.factors.add(codes)
            await store.factors.confirm(user.user_id, codes.factor_id, 1)
            await store.factors.add(new_passkey(make, user.user_id, number))
            seeds.append((codes.factor_id, codes.secret))
        found, after = [], None
        while page := await store.factors.seeds(after, 2):
            assert len(page) <= 2
            found += [(each.factor_id, each.secret) for each in page]
            after = page[-1].factor_id
        assert sorted(seeds) == found

    async def test_recovery_codes_go_with_the_last_factor(self, store: Store, make: Factory) -> None:
        """And not before."""
        user = await self.person(store, make)
        passkeys = [new_passkey(make, user.user_id, number) for number in range(2)]
        for each in passkeys:
            await store.factors.add(each)
        await store.factor_steps.put_recovery(user.user_id, [digest(1), digest(2)])
        audit = entry(AuditAction.FACTOR_REMOVED)
        assert await store.factors.remove(user.user_id, passkeys[0].factor_id, audit=audit)
        assert 2 == (await store.factor_steps.recovery(user.user_id)).left
        assert await store.factors.remove(user.user_id, passkeys[1].factor_id, audit=audit)
        assert (0, None) == await store.factor_steps.recovery(user.user_id)
        assert not await store.factors.remove(user.user_id, passkeys[1].factor_id, audit=audit)
        assert 2 == await self.used(store, AuditAction.FACTOR_REMOVED)

    async def test_a_reset_forgets_everything_of_a_person(self, store: Store, make: Factory) -> None:
        """Factors, recovery codes and steps; and it is told once."""
        one, other = await self.person(store, make), await self.person(store, make)
        for number, user in enumerate((one, other)):
            await store.factors.add(new_passkey(make, user.user_id, number))
            await store.factor_steps.put_recovery(user.user_id, [digest(1)])
            await store.factor_steps.begin(new_step(user.user_id, number))
        audit = entry(AuditAction.FACTORS_RESET)
        assert 1 == await store.factors.reset(one.user_id, "Root", audit=audit)
        assert 0 == await store.factors.reset(one.user_id, "Root", audit=audit)
        assert [] == list(await store.factors.of(one.user_id))
        assert 0 == (await store.factor_steps.recovery(one.user_id)).left
        assert await store.factor_steps.step(digest(0), StepPurpose.SECOND_FACTOR) is None
        assert await store.factor_steps.step(digest(1), StepPurpose.SECOND_FACTOR) is not None
        assert 1 == len(await store.factors.of(other.user_id))
        assert 1 == await self.used(store, AuditAction.FACTORS_RESET)
        for seen, expected in ((False, "Root"), (True, "Root"), (True, None), (False, None)):
            note = await store.factor_steps.reset_note(one.user_id, seen=seen)
            assert expected == (None if note is None else note.by)

    async def test_a_step_waits_for_a_time_and_for_one_purpose(self, store: Store, make: Factory) -> None:
        """With what it was begun with."""
        user = await self.person(store, make)
        for _ in range(2):
            await store.factor_steps.begin(new_step(user.user_id))
        await store.factor_steps.begin(new_step(None, 2, purpose=StepPurpose.PASSKEY))
        step = await store.factor_steps.step(digest(1), StepPurpose.SECOND_FACTOR)
        assert (StepPurpose.SECOND_FACTOR, user.user_id, 1, b"challenge", 0) == step
        assert await store.factor_steps.step(digest(1), StepPurpose.ENROLMENT) is None
        assert await store.factor_steps.attempt(digest(1), StepPurpose.PASSKEY) is None
        alone = await store.factor_steps.attempt(digest(2), StepPurpose.PASSKEY)
        assert alone is not None
        assert (None, 1) == (alone.user_id, alone.tries)
        await self.shift(store, 301.0)
        assert await store.factor_steps.step(digest(1), StepPurpose.SECOND_FACTOR) is None
        assert await store.factor_steps.attempt(digest(1), StepPurpose.SECOND_FACTOR) is None
        assert not await store.factor_steps.settle(digest(1), Shown(make.identifier(), make.identifier(), 1))

    async def test_a_step_has_so_many_attempts(self, store: Store, make: Factory) -> None:
        """Also if they come at once."""
        user = await self.person(store, make)
        await store.factor_steps.begin(new_step(user.user_id))
        tries = [store.factor_steps.attempt(digest(1), StepPurpose.SECOND_FACTOR) for _ in range(TRIES_MAX + 3)]
        found = await asyncio.gather(*tries)
        assert TRIES_MAX == sum(each is not None for each in found)

    async def test_a_person_has_so_many_open_steps(self, store: Store, make: Factory) -> None:
        """The oldest ends."""
        user = await self.person(store, make)
        for number in range(OPEN_STEPS_MAX + 1):
            await store.factor_steps.begin(new_step(user.user_id, number, seconds=300.0 + number))
        found = [await store.factor_steps.step(digest(number), StepPurpose.SECOND_FACTOR) for number in range(3)]
        assert [True, False, False] == [each is None for each in found]

    async def test_a_step_is_settled_once_and_its_code_works_once(self, store: Store, make: Factory) -> None:
        """A repeat of the same use is taken; another use, the same code at another step, and an earlier code are
        refused."""
        user = await self.person(store, make)
        codes = new_codes(make, user.user_id)
        await store.factors.add(codes)
        await store.factors.confirm(user.user_id, codes.factor_id, 100)
        for number in (1, 2, 3):
            await store.factor_steps.begin(new_step(user.user_id, number))
        use = Shown(make.identifier(), codes.factor_id, 101)
        assert await store.factor_steps.settle(digest(1), use)
        assert await store.factor_steps.settle(digest(1), use)
        assert not await store.factor_steps.settle(digest(1), Shown(make.identifier(), codes.factor_id, 102))
        assert await store.factor_steps.attempt(digest(1), StepPurpose.SECOND_FACTOR) is None
        for counter in (101, 100):
            assert not await store.factor_steps.settle(digest(2), Shown(make.identifier(), codes.factor_id, counter))
        assert await store.factor_steps.step(digest(2), StepPurpose.SECOND_FACTOR) is not None
        uses = [Shown(make.identifier(), codes.factor_id, 103) for _ in (2, 3)]
        both = await asyncio.gather(
            *(store.factor_steps.settle(digest(n), each) for n, each in zip((2, 3), uses, strict=True))
        )
        assert [False, True] == sorted(both)

    async def test_a_factor_that_is_not_good_settles_nothing(self, store: Store, make: Factory) -> None:
        """One that was not confirmed, was removed, or is suspected."""
        user = await self.person(store, make)
        codes, removed, copied = (
            new_codes(make, user.user_id), new_passkey(make, user.user_id, 1), new_passkey(make, user.user_id, 2),
        )  # fmt: skip
        for each in (removed, copied, codes):
            await store.factors.add(each)
        await store.factors.remove(user.user_id, removed.factor_id)
        for _ in range(2):
            await store.factors.suspect(copied.factor_id, audit=entry(AuditAction.FACTOR_SUSPECTED))
        await store.factor_steps.begin(new_step(user.user_id))
        for factor in (codes, removed, copied):
            assert not await store.factor_steps.settle(digest(1), Shown(make.identifier(), factor.factor_id, 900))
        found = {each.factor_id: each for each in await store.factors.of(user.user_id)}
        assert found[copied.factor_id].suspected_at is not None
        assert 1 == await self.used(store, AuditAction.FACTOR_SUSPECTED)

    async def test_a_passkey_without_a_counter_goes_on_without_one(self, store: Store, make: Factory) -> None:
        """0 follows 0, and nothing else."""
        user = await self.person(store, make)
        synced, counted = new_passkey(make, user.user_id, 1, counter=0), new_passkey(make, user.user_id, 2)
        for number, factor in ((1, synced), (2, synced), (3, counted)):
            await store.factors.add(factor)
            await store.factor_steps.begin(new_step(user.user_id, number))
        assert await store.factor_steps.settle(digest(1), Shown(make.identifier(), synced.factor_id, 0))
        assert await store.factor_steps.settle(digest(2), Shown(make.identifier(), synced.factor_id, 0))
        assert not await store.factor_steps.settle(digest(3), Shown(make.identifier(), counted.factor_id, 0))
        assert await store.factor_steps.settle(digest(3), Shown(make.identifier(), counted.factor_id, 8))

    async def test_a_recovery_code_works_once_for_its_person(self, store: Store, make: Factory) -> None:
        """New ones end those of before; the use is on record."""
        one, other = await self.person(store, make), await self.person(store, make)
        for user in (one, other):
            await store.factors.add(new_passkey(make, user.user_id, 1 if user is one else 2))
        for _ in range(2):
            audit = entry(AuditAction.RECOVERY_CODES_MADE)
            await store.factor_steps.put_recovery(one.user_id, [digest(10), digest(11)], audit=audit)
        for number in (1, 2, 3):
            await store.factor_steps.begin(new_step(one.user_id, number))
        await store.factor_steps.begin(new_step(other.user_id, 4))
        audit = entry(AuditAction.RECOVERY_CODE_USED)

        def shown(number: int, user: UserRow = one) -> Shown:
            return Shown(make.identifier(), recovery_digest=digest(number), user_id=user.user_id)

        assert not await store.factor_steps.settle(digest(4), shown(10, other), audit=audit)
        assert await store.factor_steps.settle(digest(1), shown(10), audit=audit)
        assert not await store.factor_steps.settle(digest(2), shown(10), audit=audit)
        assert 1 == (await store.factor_steps.recovery(one.user_id)).left
        await store.factor_steps.put_recovery(one.user_id, [digest(20)])
        assert not await store.factor_steps.settle(digest(2), shown(11), audit=audit)
        assert await store.factor_steps.settle(digest(3), shown(20), audit=audit)
        assert 2 == await self.used(store, AuditAction.RECOVERY_CODE_USED)
        assert 1 == await self.used(store, AuditAction.RECOVERY_CODES_MADE)

    async def test_a_recovery_code_that_is_shown_at_once_in_many_sign_ins_opens_one(
        self, store: Store, make: Factory
    ) -> None:
        """One who read it over a shoulder and sends it at the same moment gets in, or its owner does: never both."""
        user = await self.person(store, make)
        await store.factors.add(new_passkey(make, user.user_id))
        await store.factor_steps.put_recovery(user.user_id, [digest(10), digest(11)])
        audit = entry(AuditAction.RECOVERY_CODE_USED)
        for number in range(OPEN_STEPS_MAX):
            await store.factor_steps.begin(new_step(user.user_id, number))
        uses = [
            Shown(make.identifier(), recovery_digest=digest(10), user_id=user.user_id) for _ in range(OPEN_STEPS_MAX)
        ]
        done = await asyncio.gather(
            *(store.factor_steps.settle(digest(number), use, audit=audit) for number, use in enumerate(uses))
        )
        assert [True] == [each for each in done if each]
        assert 1 == (await store.factor_steps.recovery(user.user_id)).left
        assert 1 == await self.used(store, AuditAction.RECOVERY_CODE_USED)

    @pytest.mark.parametrize("kind", [FactorKind.TOTP, FactorKind.PASSKEY])
    async def test_the_first_factor_ends_all_sign_ins_that_were_to_enrol_one(
        self, store: Store, make: Factory, kind: FactorKind
    ) -> None:
        """Else a password alone would go on to enrol another one. A sign-in enrols one factor."""
        user = await self.person(store, make)
        for number in (1, 2):
            await store.factor_steps.begin(new_step(user.user_id, number, purpose=StepPurpose.ENROLMENT))
        if kind is FactorKind.TOTP:
            codes = new_codes(make, user.user_id)
            await store.factors.add(codes)
            assert not await store.factors.confirm(user.user_id, codes.factor_id, 1, step=digest(9))
            assert await store.factors.confirm(user.user_id, codes.factor_id, 1, step=digest(1))
            assert await store.factors.confirm(user.user_id, codes.factor_id, 1, step=digest(1))
        else:
            passkey = new_passkey(make, user.user_id, 1)
            for _ in range(2):
                await store.factors.add(passkey, step=digest(1))
        for number in (1, 2):
            assert await store.factor_steps.step(digest(number), StepPurpose.ENROLMENT) is None
        later = new_codes(make, user.user_id)
        await store.factors.add(later)
        assert not await store.factors.confirm(user.user_id, later.factor_id, 1, step=digest(2))
        with pytest.raises(Conflict) as refused:
            await store.factors.add(new_passkey(make, user.user_id, 2), step=digest(2))
        assert "enrolment_over" == refused.value.code
