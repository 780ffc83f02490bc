"""The page of a job names the rules that schedulers ask about it."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from tickwise.control.notices.rules import concerns
from tickwise.domain.notices.index import RuleIndex
from tickwise.domain.notices.rules import NoticeEvent, NotificationRule

JOBS = [UUID(int=number) for number in range(1, 4)]
LABELS = {"team": ("pay", "shop"), "tier": ("1", "2")}


@pytest.mark.parametrize("seed", range(8))
def test_the_page_of_a_job_and_schedulers_agree(seed: int) -> None:
    """By jobs, by labels, by both, and of the whole namespace."""
    draw = random.Random(seed)

    def some() -> dict[str, str]:
        return {name: draw.choice(values) for name, values in LABELS.items() if draw.random() < 0.5}

    for _ in range(60):
        rule = NotificationRule(
            rule_id=UUID(int=9), namespace="default", name="nights", on=frozenset({NoticeEvent.FAILURE}),
            channels=(UUID(int=8),), jobs=tuple(draw.sample(JOBS, draw.randrange(3))), labels=some(),
        )  # fmt: skip
        job_id, labels = draw.choice(JOBS), some()
        asked = RuleIndex([rule]).concerning("default", NoticeEvent.FAILURE, job_id, labels)
        assert bool(asked) is concerns(rule, job_id, labels), (seed, rule.jobs, rule.labels, job_id, labels)
