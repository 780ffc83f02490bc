"""Rules are found by job, by labels and for a whole namespace, without a look at each."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from tickwise.domain.notices.index import RuleIndex
from tickwise.domain.notices.rules import NoticeEvent, NotificationRule

CHANNEL = UUID(int=1)
FAILURE = frozenset({NoticeEvent.FAILURE})


def rule(number: int, **fields: object) -> NotificationRule:
    """A rule about failures of a namespace."""
    given = {"namespace": "default", "name": str(number), "on": FAILURE, "channels": (CHANNEL,), **fields}
    return NotificationRule(rule_id=UUID(int=number), **given)  # type: ignore[arg-type]  # each call names fields of the rule


@pytest.mark.parametrize(
    ("rule_labels", "job_labels", "expected"),
    [
        ({"team": "pay"}, {"team": "pay"}, True),
        ({"team": "pay"}, {"team": "pay", "tier": "1"}, True),
        ({"team": "pay"}, {"team": "ship"}, False),
        ({"team": "pay"}, {"tier": "pay"}, False),
        ({"team": "pay"}, {}, False),
        ({"team": "pay", "tier": "1"}, {"team": "pay"}, False),
        ({"team": "pay", "tier": "1"}, {"tier": "1"}, False),
        ({"team": "pay", "tier": "1"}, {"tier": "1", "team": "pay", "zone": "a"}, True),
        ({"team": "pay", "tier": "1"}, {"tier": "2", "team": "pay"}, False),
    ],
)
def test_a_rule_concerns_jobs_that_have_all_its_labels(
    rule_labels: dict[str, str], job_labels: dict[str, str], expected: bool
) -> None:
    """Whatever other labels they have."""
    index = RuleIndex([rule(1, labels=rule_labels)])
    found = index.concerning("default", NoticeEvent.FAILURE, UUID(int=9), job_labels)
    assert expected == bool(found)


def test_a_rule_with_jobs_and_labels_concerns_both() -> None:
    """A job that is named and has the labels is concerned once."""
    named = UUID(int=7)
    index = RuleIndex([rule(1, jobs=(named,), labels={"team": "pay"})])
    for job_id, labels, expected in (
        (named, {}, 1), (named, {"team": "pay"}, 1), (UUID(int=8), {"team": "pay"}, 1), (UUID(int=8), {}, 0),
    ):  # fmt: skip
        assert expected == len(index.concerning("default", NoticeEvent.FAILURE, job_id, labels))


def test_rules_of_others_concern_nothing() -> None:
    """Of another namespace, about another event, and those that are not enabled."""
    rules = [rule(1, namespace="team"), rule(2, on=frozenset({NoticeEvent.LATE})), rule(3, enabled=False)]
    index = RuleIndex(rules)
    assert [] == list(index.concerning("default", NoticeEvent.FAILURE, UUID(int=9), {}))
    assert ["default"] == index.namespaces(NoticeEvent.LATE)


@pytest.mark.parametrize("seed", range(20))
def test_the_index_finds_what_a_look_at_each_rule_finds(seed: int) -> None:
    """For any rules and jobs."""
    draw = random.Random(seed)
    jobs = [UUID(int=100 + number) for number in range(6)]
    labels = [{key: draw.choice("ab") for key in draw.sample("xyz", draw.randrange(4))} for _ in jobs]
    rules = [
        rule(
            number,
            jobs=tuple(draw.sample(jobs, draw.randrange(3))),
            labels={key: draw.choice("ab") for key in draw.sample("xyz", draw.randrange(3))},
        )
        for number in range(40)
    ]
    index = RuleIndex(rules)
    for job_id, mine in zip(jobs, labels, strict=True):
        expected = {
            each.rule_id
            for each in rules
            if job_id in each.jobs
            or (each.labels and each.labels.items() <= mine.items())
            or not (each.jobs or each.labels)
        }
        found = [each.rule_id for each in index.concerning("default", NoticeEvent.FAILURE, job_id, mine)]
        assert sorted(expected) == sorted(found), f"seed {seed}"


def test_ten_thousand_rules_are_not_looked_at_one_by_one() -> None:
    """An event is compared with the rules of its job and of one of its labels."""

    class Counting(dict[str, str]):
        comparisons = 0

        def items(self) -> object:  # type: ignore[override]  # it only counts the calls
            Counting.comparisons += 1
            return super().items()

    rules = [rule(number, labels=Counting(team=f"team {number}")) for number in range(10_000)]
    index = RuleIndex(rules)
    Counting.comparisons = 0
    found = index.concerning("default", NoticeEvent.FAILURE, UUID(int=9), {"team": "team 5000"})
    assert ["5000"] == [each.name for each in found]
    assert Counting.comparisons <= 2


def test_so_many_rules_are_asked_about_one_event_the_oldest_first() -> None:
    """Those of the job and of its labels before those of the whole namespace; and it tells that it leaves some out."""
    job = UUID(int=9)
    rules = [
        *(rule(number, created_at=float(number)) for number in range(1, 81)),
        *(rule(number, created_at=float(number), labels={"team": "pay"}) for number in range(101, 181)),
        rule(201, created_at=999.0, jobs=(job,)),
    ]
    random.Random(1).shuffle(rules)
    index = RuleIndex(rules)
    found = index.concerning("default", NoticeEvent.FAILURE, job, {"team": "pay"})
    assert [*range(1, 20), 201, *range(101, 181)] == [each.rule_id.int for each in found]
    assert index.leaves_out("default", NoticeEvent.FAILURE, job, {"team": "pay"})
    assert not index.leaves_out("default", NoticeEvent.FAILURE, job, {})
    assert 81 == len(index.concerning("default", NoticeEvent.FAILURE, job, {}))


def test_rules_that_share_a_label_are_looked_for_by_the_other_one() -> None:
    """A label that all rules have does not make an event be compared with all of them."""

    class Counting(frozenset[tuple[str, str]]):
        comparisons = 0

        def __le__(self, other: object) -> bool:
            Counting.comparisons += 1
            return super().__le__(other)  # type: ignore[operator]  # it only counts the calls

    rules = [rule(number, labels={"a": "shared", "team": f"team {number}"}) for number in range(10_000)]
    index = RuleIndex(rules, label_set=Counting)
    found = index.concerning("default", NoticeEvent.FAILURE, UUID(int=9), {"a": "shared", "team": "team 5000"})
    assert ["5000"] == [each.name for each in found]
    assert Counting.comparisons <= 2
