"""Who passes a limit and a rate: decided from what is running, the slots given, and the clock alone."""

from __future__ import annotations

from uuid import UUID

import pytest

from tickwise.adapters.store.postgres.queue.gates import Candidate, Wait, decide
from tickwise.domain.rules.rates import RateState
from tickwise.ports.store import Gate

NOW = 1_000.0
GAP = 10.0
KEY = ("default", "job:x")
RATE = ("default", "label:customer=7")
LIMITED = Gate("job:x", 2)
PACED = Gate(rate_key=RATE[1], rate_gap_seconds=GAP)
BOTH = Gate("job:x", 1, RATE[1], GAP)


def one(number: int, gate: Gate, *, place: float = NOW, slot: float | None = None) -> Candidate:
    return Candidate(UUID(int=number), "default", place, slot, gate)


def passed(*candidates: Candidate, running: int = 0, pace: RateState | None = None, now: float = NOW) -> list[int]:
    """The numbers of those that pass."""
    paces = {} if pace is None else {RATE: pace}
    return [found.run_id.int for found in decide(candidates, running={KEY: running}, paces=paces, now=now).passed]


@pytest.mark.parametrize(("running", "expected"), [(0, [1, 2]), (1, [1]), (2, []), (3, [])])
def test_as_many_pass_a_limit_as_there_are_free_slots(running: int, expected: list[int]) -> None:
    """Also of one batch; and more may run than the limit says now, for it may have been lowered."""
    assert passed(one(1, LIMITED), one(2, LIMITED), one(3, LIMITED), running=running) == expected


def test_the_longest_ready_goes_first() -> None:
    """In whatever order they ask."""
    assert passed(one(1, LIMITED, place=NOW), one(2, LIMITED, place=NOW - 2), one(3, LIMITED, place=NOW - 1)) == [2, 3]


def test_who_finds_no_slot_waits_for_one_of_its_key() -> None:
    """At the place that it had."""
    passage = decide([one(1, LIMITED, place=NOW - 5)], running={KEY: 2}, paces={}, now=NOW)
    assert passage.waits == [Wait(UUID(int=1), "job:x", 2, NOW - 5, None, None)]


def test_starts_under_a_rate_are_given_slots_a_gap_apart() -> None:
    """The first begins; the others wait, each for its own."""
    passage = decide([one(number, PACED) for number in (1, 2, 3)], running={}, paces={}, now=NOW)
    assert [found.run_id.int for found in passage.passed] == [1]
    assert [wait.slot for wait in passage.waits] == [NOW + GAP, NOW + 2 * GAP]
    assert passage.paces[RATE] == RateState(NOW + 2 * GAP, NOW)


def test_a_slot_is_its_holders_own() -> None:
    """It asks for no other one, though others were given since."""
    pace = RateState(NOW + 50 * GAP, NOW - GAP)
    passage = decide([one(1, PACED, slot=NOW)], running={}, paces={RATE: pace}, now=NOW)
    assert [found.run_id.int for found in passage.passed] == [1]
    assert passage.paces[RATE] == RateState(NOW + 50 * GAP, NOW)


def test_what_waited_while_nobody_was_there_does_not_start_all_at_once() -> None:
    """The first of the late ones starts; the others are given new slots, and that of the first counts as given now."""
    late = [one(number, PACED, slot=NOW - 100 * GAP + number * GAP) for number in (1, 2, 3)]
    passage = decide(late, running={}, paces={RATE: RateState(NOW - 97 * GAP, NOW - 100 * GAP)}, now=NOW)
    assert [found.run_id.int for found in passage.passed] == [1]
    assert [wait.slot for wait in passage.waits] == [NOW + GAP, NOW + 2 * GAP]


def test_a_late_slot_holds_if_nobody_else_has_just_started() -> None:
    """Else, with a gap shorter than a claim takes, nobody would ever start."""
    assert passed(one(1, PACED, slot=NOW - 5 * GAP), pace=RateState(NOW + 9 * GAP, NOW - GAP)) == [1]
    assert passed(one(1, PACED, slot=NOW - 5 * GAP), pace=RateState(NOW + 9 * GAP, NOW - GAP / 2)) == []


def test_who_comes_before_its_own_slot_waits_for_it() -> None:
    """However little: a gap is a gap. It keeps the slot that it has, and the next one comes a gap after that."""
    early = [one(1, PACED, slot=NOW + 0.001), one(2, PACED)]
    passage = decide(early, running={}, paces={RATE: RateState(None, NOW - GAP)}, now=NOW)
    assert [wait.slot for wait in passage.waits] == [NOW + 0.001, NOW + 0.001 + GAP]
    assert passage.passed == []


def test_the_next_slot_follows_the_last_start_if_no_active_run_has_one() -> None:
    """Whatever was given meanwhile to runs that ended."""
    passage = decide([one(1, PACED)], running={}, paces={RATE: RateState(None, NOW - GAP / 2)}, now=NOW)
    assert [wait.slot for wait in passage.waits] == [NOW + GAP / 2]


def test_who_waits_for_a_slot_of_its_key_keeps_the_one_under_its_rate() -> None:
    """It has been given; the start that passes the limit takes it up."""
    passage = decide([one(1, BOTH, slot=NOW)], running={KEY: 1}, paces={}, now=NOW)
    assert passage.waits == [Wait(UUID(int=1), "job:x", 1, NOW, NOW, RATE[1])]


def test_who_waits_for_a_slot_of_its_key_asks_for_none_under_its_rate() -> None:
    """A slot under a rate is not spent on what could not start."""
    passage = decide([one(1, BOTH)], running={KEY: 1}, paces={}, now=NOW)
    assert ([wait.limit_key for wait in passage.waits], dict(passage.paces)) == (["job:x"], {})


def test_who_comes_too_early_for_its_rate_takes_no_slot_of_its_key() -> None:
    """Another one has it."""
    early, plain = one(1, BOTH), one(2, Gate("job:x", 1))
    assert passed(early, plain, pace=RateState(NOW, NOW)) == [2]


QUOTA = ("default", "quota")


def test_as_many_pass_the_quota_of_their_namespace_as_are_free() -> None:
    """With a limit of their own or without: each that passes takes a slot of it; of those with one, of both."""
    candidates = [one(1, LIMITED), one(2, Gate()), one(3, LIMITED), one(4, Gate())]
    within = [each._replace(quota=4) for each in candidates]
    passage = decide(within, running={QUOTA: 1, KEY: 1}, paces={}, now=NOW)
    assert [found.run_id.int for found in passage.passed] == [1, 2, 4]
    assert [(wait.run_id.int, wait.limit_key) for wait in passage.waits] == [(3, "job:x")]
    passage = decide(within, running={QUOTA: 2, KEY: 0}, paces={}, now=NOW)
    assert [found.run_id.int for found in passage.passed] == [1, 2]
    assert {(wait.limit_key, wait.most) for wait in passage.waits} == {("quota", 4)}


def test_what_waits_for_the_quota_keeps_its_slot_under_its_rate_and_asks_for_none() -> None:
    """As a run that waits for a slot of its own limit."""
    slotted, fresh = one(1, PACED, slot=NOW)._replace(quota=0), one(2, PACED)._replace(quota=0)
    passage = decide([slotted, fresh], running={}, paces={}, now=NOW)
    assert [(wait.slot, wait.rate_key) for wait in passage.waits] == [(NOW, RATE[1]), (None, None)]
