"""Calendars and maintenance windows: kept as said, by version, and felt at once by what they hold back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from tickwise.domain.decision import NEVER, Hold
from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.ports.store import MAX_NAMESPACE, MAX_RULES, RESERVED, JobAction, RuleKind, RuleQuery, RuleRow, Store
from tickwise.testing.contracts.base import StoreContract, microseconds
from tickwise.testing.factories import Factory, held

HOUR = 3600.0
ODD_BODY = '{ "entries" :[],\t"n": 1.0e+2, "s": "\\u0000 😀" }'


async def _rule(store: Store, kind: RuleKind, name: str, *, namespace: str = "default") -> RuleRow | None:
    found = await store.rules.find(RuleQuery(namespace=namespace, kind=kind, names=[name]))
    assert len(found) <= 1
    return found[0] if found else None


class RulesContract(StoreContract):
    """`rules.put`, `rules.find`, `rules.delete`, `rules.all`."""

    async def crowd(self, store: Store, rules: Sequence[RuleRow]) -> None:
        """Store many rules. A backend may know a quicker way."""
        for rule in rules:
            await store.rules.put(rule)

    @pytest.mark.parametrize("kind", list(RuleKind))
    async def test_a_rule_is_kept_byte_for_byte(self, store: Store, make: Factory, kind: RuleKind) -> None:
        """With its version and instants given by the store."""
        kept = await store.rules.put(make.rule("Ünï 😀", kind, body=ODD_BODY, created_by="grace"))
        assert await _rule(store, kind, "Ünï 😀") == kept
        assert (kept.namespace, kept.kind, kept.name, kept.body) == ("default", kind, "Ünï 😀", ODD_BODY)
        assert (kept.version, kept.created_by, kept.created_at) == (1, "grace", kept.updated_at)
        assert abs(kept.created_at - await store.now()) < 60.0

    async def test_another_body_is_another_version(self, store: Store, make: Factory) -> None:
        """Its creator and creation time stay; only the newest version is kept."""
        first = await store.rules.put(make.rule(body='"a"'))
        await self.shift(store, 5.0)
        second = await store.rules.put(make.rule(body='"b"', created_by="grace"))
        assert (second.version, second.body, second.created_by) == (2, '"b"', "ada")
        assert second.created_at == first.created_at
        assert second.updated_at > first.updated_at
        assert await _rule(store, RuleKind.CALENDAR, first.name) == second
        assert (await store.rules.put(make.rule(body='"a"'))).version == 3

    async def test_the_same_body_again_changes_nothing(self, store: Store, make: Factory) -> None:
        """Putting twice is putting once: no version, no wake-up."""
        first = await store.rules.put(make.rule())
        version, _ = await store.rules.all()
        assert await store.rules.put(make.rule(created_by="grace")) == first
        assert (await store.rules.all())[0] == version

    async def test_a_rule_can_be_created_only(self, store: Store, make: Factory) -> None:
        """`expected_version` 0; a repeat of what is in doubt is answered as it was, and nobody else is told so."""
        first = await store.rules.put(make.rule(body='"a"'), 0)
        assert await store.rules.put(make.rule(body='"a"'), 0, again=True) == first
        with pytest.raises(VersionConflict):
            await store.rules.put(make.rule(body='"a"'), 0)
        with pytest.raises(VersionConflict):
            await store.rules.put(make.rule(body='"b"'), 0)
        assert await _rule(store, RuleKind.CALENDAR, first.name) == first

    async def test_a_rule_can_be_replaced_only_as_it_was_read(self, store: Store, make: Factory) -> None:
        """Somebody else changed it first, or it is gone; a repeat of what is in doubt is answered as it was."""
        await store.rules.put(make.rule(body='"a"'))
        second = await store.rules.put(make.rule(body='"b"'), 1)
        assert second.version == 2
        assert await store.rules.put(make.rule(body='"b"'), 1, again=True) == second
        for version in (1, 3, 0):
            with pytest.raises(VersionConflict):
                await store.rules.put(make.rule(body='"c"'), version)
        with pytest.raises(VersionConflict):
            await store.rules.put(make.rule("other"), 1)
        assert await _rule(store, RuleKind.CALENDAR, "other") is None

    async def test_what_was_created_anew_is_not_what_was_read(self, store: Store, make: Factory) -> None:
        """Its versions begin again: a write of what was read before tells them apart by their creation."""
        first = await store.rules.put(make.rule(body='"a"'))
        await store.rules.delete("default", RuleKind.CALENDAR, first.name, expected=first)
        await self.shift(store, 5.0)
        second = await store.rules.put(make.rule(body='"a"'))
        assert (second.version, second.created_at > first.created_at) == (1, True)
        with pytest.raises(VersionConflict):
            await store.rules.put(replace(first, body='"b"'), 1)
        with pytest.raises(VersionConflict):
            await store.rules.delete("default", RuleKind.CALENDAR, first.name, expected=first)
        assert await _rule(store, RuleKind.CALENDAR, first.name) == second
        assert (await store.rules.put(replace(second, body='"b"'), 1)).version == 2

    async def test_of_many_who_replace_one_version_one_does(self, store: Store, other: Store, make: Factory) -> None:
        """The others hear of it; each change of the store's rules counts."""
        await store.rules.put(make.rule())
        before, _ = await store.rules.all()
        answers = await asyncio.gather(
            *(client.rules.put(make.rule(body=str(number)), 1) for number, client in enumerate([store, other] * 3)),
            return_exceptions=True,
        )
        made = [answer for answer in answers if isinstance(answer, RuleRow)]
        refused = [answer for answer in answers if isinstance(answer, VersionConflict)]
        assert (len(made), len(refused)) == (1, 5)
        after, [rule] = await store.rules.all()
        assert rule == made[0]
        assert after > before

    async def test_rules_that_are_put_together_are_all_kept(self, store: Store, other: Store, make: Factory) -> None:
        """A later reader of all of them gets the version of the last."""
        names = [f"rule {number}" for number in range(8)]
        await asyncio.gather(
            *(client.rules.put(make.rule(name)) for client, name in zip([store, other] * 4, names, strict=True))
        )
        version, rules = await store.rules.all()
        assert sorted(rule.name for rule in rules) == names
        assert (await other.rules.all())[0] == version

    async def test_calendars_and_windows_have_names_of_their_own(self, store: Store, make: Factory) -> None:
        """And so has each namespace."""
        calendar = await store.rules.put(make.rule("one", RuleKind.CALENDAR, body='"a"'))
        window = await store.rules.put(make.rule("one", RuleKind.WINDOW, body='"b"'))
        elsewhere = await store.rules.put(make.rule("one", namespace="elsewhere", body='"c"'))
        assert await _rule(store, RuleKind.CALENDAR, "one") == calendar
        assert await _rule(store, RuleKind.WINDOW, "one") == window
        assert await _rule(store, RuleKind.CALENDAR, "one", namespace="elsewhere") == elsewhere
        assert await _rule(store, RuleKind.WINDOW, "one", namespace="elsewhere") is None
        assert await _rule(store, RuleKind.CALENDAR, "nothing") is None

    async def test_rules_are_listed_by_name_in_pages(self, store: Store, make: Factory) -> None:
        """From after the last one of the page before; those of one kind and namespace."""
        for name in ("delta", "alpha", "charlie", "bravo"):
            await store.rules.put(make.rule(name))
        await store.rules.put(make.rule("aardvark", RuleKind.WINDOW))
        await store.rules.put(make.rule("aardvark", namespace="elsewhere"))
        calendars = RuleQuery(namespace="default", kind=RuleKind.CALENDAR, limit=3)
        first = await store.rules.find(calendars)
        assert [rule.name for rule in first] == ["alpha", "bravo", "charlie"]
        rest = await store.rules.find(replace(calendars, after=first[-1].name))
        assert [rule.name for rule in rest] == ["delta"]
        windows = await store.rules.find(replace(calendars, kind=RuleKind.WINDOW))
        assert [rule.name for rule in windows] == ["aardvark"]

    async def test_rules_are_found_by_their_names_in_pages(self, store: Store, make: Factory) -> None:
        """A name without a rule is left out; no name finds nothing."""
        for name in ("alpha", "bravo", "charlie", "delta"):
            await store.rules.put(make.rule(name))
        await store.rules.put(make.rule("echo", RuleKind.WINDOW))
        named = RuleQuery(
            namespace="default", kind=RuleKind.CALENDAR, names=["delta", "echo", "alpha", "bravo", "zulu"], limit=2
        )
        assert [rule.name for rule in await store.rules.find(named)] == ["alpha", "bravo"]
        assert [rule.name for rule in await store.rules.find(replace(named, after="bravo"))] == ["delta"]
        assert list(await store.rules.find(replace(named, names=[]))) == []

    async def test_all_rules_of_all_namespaces_are_read_at_once(self, store: Store, make: Factory) -> None:
        """Every scheduler holds them in memory."""
        assert list((await store.rules.all())[1]) == []
        kept = [
            await store.rules.put(make.rule("one")),
            await store.rules.put(make.rule("two", RuleKind.WINDOW, namespace="elsewhere")),
        ]
        _, rules = await store.rules.all()
        assert sorted(rules, key=lambda rule: rule.name) == kept

    async def test_schedulers_see_by_a_number_that_rules_have_changed(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """It grows with each put and delete, of any namespace, and is the same for all."""
        versions = [(await store.rules.all())[0]]
        for change in ("put", "replaced", "deleted"):
            if change == "deleted":
                await other.rules.delete("elsewhere", RuleKind.WINDOW, "one")
            else:
                await other.rules.put(make.rule("one", RuleKind.WINDOW, namespace="elsewhere", body=f'"{change}"'))
            async with self.near(store) as batch:
                versions.append(batch.rules_version)
            assert (await store.rules.all())[0] == versions[-1]
        assert versions == sorted(set(versions))

    async def test_a_deleted_rule_is_gone(self, store: Store, make: Factory) -> None:
        """Deleting what is not there, or another's, is an error; a new one begins anew."""
        await store.rules.put(make.rule("one"))
        for namespace, kind, name in (
            ("default", RuleKind.CALENDAR, "two"),
            ("default", RuleKind.WINDOW, "one"),
            ("elsewhere", RuleKind.CALENDAR, "one"),
        ):
            with pytest.raises(NotFound):
                await store.rules.delete(namespace, kind, name)
        await store.rules.delete("default", RuleKind.CALENDAR, "one")
        assert await _rule(store, RuleKind.CALENDAR, "one") is None
        with pytest.raises(NotFound):
            await store.rules.delete("default", RuleKind.CALENDAR, "one")
        assert (await store.rules.put(make.rule("one"), 0)).version == 1

    async def test_there_are_only_so_many_rules(self, store: Store, make: Factory) -> None:
        """One more is refused where there are some; those that are there can be replaced, and make room by going."""
        each = MAX_NAMESPACE[RuleKind.CALENDAR]
        assert MAX_RULES % each == 0
        spaces = [f"space {number}" for number in range(MAX_RULES // each)]
        await self.crowd(store, [make.rule(f"{n}", namespace=space) for space in spaces for n in range(each)])
        for namespace in ("space 0", "elsewhere"):
            await self.crowd(store, [make.rule(f"{n}", RuleKind.WINDOW, namespace=namespace) for n in range(RESERVED)])
            with pytest.raises(Conflict) as refused:
                await store.rules.put(make.rule("one more", RuleKind.WINDOW, namespace=namespace))
            assert refused.value.code == "rules_exhausted"
        assert (await store.rules.put(make.rule("7", body='"new"', namespace="space 0"))).version == 2
        for number in range(2 * RESERVED + 1):
            await store.rules.delete("space 0", RuleKind.CALENDAR, f"{number}")
        await store.rules.put(make.rule("one more", RuleKind.WINDOW, namespace="elsewhere"))
        assert len((await store.rules.all())[1]) == MAX_RULES

    @pytest.mark.parametrize("kind", list(RuleKind))
    async def test_a_namespace_has_only_so_many_of_a_kind(self, store: Store, make: Factory, kind: RuleKind) -> None:
        """So that it uses up nobody else's. The refusal says what to do; those that are there can be replaced."""
        await self.crowd(store, [make.rule(f"rule {number}", kind) for number in range(MAX_NAMESPACE[kind])])
        with pytest.raises(Conflict, match=f"has {MAX_NAMESPACE[kind]} {kind}s.*delete one") as refused:
            await store.rules.put(make.rule("one more", kind))
        assert refused.value.code == "rules_exhausted"
        (another,) = set(RuleKind) - {kind}
        await store.rules.put(make.rule("one more", another))
        await store.rules.put(make.rule("one more", kind, namespace="elsewhere"))
        assert (await store.rules.put(make.rule("rule 7", kind, body='"new"'))).version == 2
        await store.rules.delete("default", kind, "rule 8")
        await store.rules.put(make.rule("one more", kind))


class UsedRulesContract(StoreContract):
    """The use of rules by jobs and timers."""

    async def test_a_calendar_that_a_job_goes_by_is_not_deleted(self, store: Store, make: Factory) -> None:
        """Until the job is cancelled; a window of that name, or another namespace's calendar, is another thing."""
        await store.rules.put(make.rule("one"))
        await store.rules.put(make.rule("one", RuleKind.WINDOW))
        await store.rules.put(make.rule("one", namespace="elsewhere"))
        jobs = [make.recurring(make.now + HOUR, calendars=("two", "one")), make.job(make.now, calendars=("one",))]
        await self.add(store, *jobs)
        await store.rules.delete("default", RuleKind.WINDOW, "one")
        await store.rules.delete("elsewhere", RuleKind.CALENDAR, "one")
        for job in jobs:
            with pytest.raises(Conflict) as refused:
                await store.rules.delete("default", RuleKind.CALENDAR, "one")
            assert refused.value.code == "calendar_in_use"
            await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        await store.rules.delete("default", RuleKind.CALENDAR, "one")

    async def test_an_edit_says_which_calendars_a_job_goes_by(self, store: Store, make: Factory) -> None:
        """Those before are free, those now are not."""
        for name in ("one", "two"):
            await store.rules.put(make.rule(name))
        job = make.recurring(make.now + HOUR, calendars=("one",))
        await self.add(store, job)
        change = make.change(await self.job_row(store, job.job_id), calendars=("two",))
        for _ in range(2):
            assert (await store.jobs.change(change)).version == 2
        with pytest.raises(VersionConflict):
            await store.jobs.change(replace(change, calendars=("one", "two")))
        await store.rules.delete("default", RuleKind.CALENDAR, "one")
        with pytest.raises(Conflict):
            await store.rules.delete("default", RuleKind.CALENDAR, "two")

    async def held_back(
        self, store: Store, make: Factory, hold: Hold, *, since: float, namespace: str = "default"
    ) -> UUID:
        """A job whose timer is held back for an hour."""
        job = make.recurring(make.now, namespace=namespace)
        await self.add(store, job)
        async with self.near(store) as batch:
            [due] = [timer.pending.due for timer in batch.timers if timer.job_id == job.job_id]
            await batch.commit([make.fire(job.job_id, due, held(since, make.now + HOUR, hold), runs=())])
        return job.job_id

    @pytest.mark.parametrize("change", ["created", "replaced", "deleted"])
    async def test_a_change_wakes_what_rules_hold_back(self, store: Store, make: Factory, change: str) -> None:
        """So that it is decided anew at once, from where it stood; what a pause holds back sleeps on."""
        if change != "created":
            await store.rules.put(make.rule("one", body='"old"'))
        since = make.now + 1.0
        woken = {await self.held_back(store, make, hold, since=since) for hold in (Hold.CALENDAR, Hold.MAINTENANCE)}
        paused = await self.held_back(store, make, Hold.PAUSED, since=since)
        elsewhere = await self.held_back(store, make, Hold.CALENDAR, since=since, namespace="elsewhere")
        later = make.recurring(make.now + HOUR)
        await self.add(store, later)
        if change == "deleted":
            await store.rules.delete("default", RuleKind.CALENDAR, "one")
        else:
            await store.rules.put(make.rule("one", body='"new"'))
        async with self.near(store, 0.0) as batch:
            assert {timer.job_id for timer in batch.timers} == woken
            for timer in batch.timers:
                assert timer.pending.hold in (Hold.CALENDAR, Hold.MAINTENANCE)
                assert microseconds(timer.pending.since) == microseconds(since)
                assert abs(timer.pending.due - await store.now()) < 60.0
        for job_id, namespace in ((paused, "default"), (elsewhere, "elsewhere")):
            row = await self.job_row(store, job_id, namespace)
            assert row.timer is not None
            assert abs(row.timer.due - make.now - HOUR) < 0.001

    async def test_a_put_that_changes_nothing_wakes_nobody(self, store: Store, make: Factory) -> None:
        """There is nothing to decide anew."""
        await store.rules.put(make.rule("one"))
        await self.held_back(store, make, Hold.CALENDAR, since=make.now + 1.0)
        await store.rules.put(make.rule("one"))
        async with self.near(store, 0.0) as batch:
            assert list(batch.timers) == []

    async def test_a_change_does_not_wake_who_is_paused_for_good(self, store: Store, make: Factory) -> None:
        """Though a calendar had held it back before."""
        job_id = await self.held_back(store, make, Hold.CALENDAR, since=make.now + 1.0)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        await store.rules.put(make.rule("one"))
        row = await self.job_row(store, job_id)
        assert row.timer is not None
        assert (row.timer.due, row.timer.hold) == (NEVER, Hold.PAUSED)

    async def test_a_change_during_a_decision_is_not_lost(self, store: Store, other: Store, make: Factory) -> None:
        """In either order: a decision by the old rules is made anew."""
        job_id = await self.held_back(store, make, Hold.CALENDAR, since=make.now + 1.0)
        async with self.near(store, 2 * HOUR) as batch:
            putting = asyncio.create_task(other.rules.put(make.rule("one")))
            await asyncio.wait([putting], timeout=0.05)
            [timer] = batch.timers
            still = held(make.now + 1.0, make.now + 2 * HOUR, Hold.CALENDAR)
            await batch.commit([make.fire(job_id, timer.pending.due, still, runs=())])
        await putting
        async with self.near(store, 0.0) as batch:
            assert [timer.job_id for timer in batch.timers] == [job_id]
