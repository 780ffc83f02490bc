"""Two notices of one channel and rule become one."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tickwise.domain.notices.merging import merged
from tickwise.domain.notices.rules import MAX_LINES, Notice, NoticeEvent, NoticeLine, NoticeState, Severity

NOW = 1_800_000_000.0


def notice(number: int, *subjects: str, **fields: object) -> Notice:
    """A notice of one failure of each of these jobs."""
    lines = tuple(
        NoticeLine(NOW + number, NoticeEvent.FAILURE, Severity.WARNING, subject, subject, None, "no disk", None)
        for subject in subjects
    )
    made = Notice(
        notice_id=UUID(int=number), namespace="default", channel_id=UUID(int=9), rule_id=None, rule_name="nights",
        severity=Severity.WARNING, state=NoticeState.WAITING, events=len(subjects), first_at=NOW + number,
        last_at=NOW + number, lines=lines, subjects=len(set(subjects)),
    )  # fmt: skip
    return replace(made, **fields)  # type: ignore[arg-type]  # of its fields


def test_a_job_that_the_lines_of_both_show_is_counted_once() -> None:
    """A failure each of a and b, and of b and c: three jobs."""
    whole = merged(notice(1, "a", "b"), notice(2, "b", "c", "c"))
    assert (5, 3) == (whole.events, whole.subjects)


@pytest.mark.parametrize(("beside", "subjects"), [(1, 500 + 300 - 200), (7, 500 + 300 - 1)])
def test_a_job_that_the_lines_do_not_show_is_counted_once(beside: int, subjects: int) -> None:
    """The later one knows the number of them, if it was made while this earlier one was under way."""
    first = notice(1, *(["a"] * MAX_LINES), events=900, subjects=500)
    later = notice(2, "a", events=300, subjects=300, beside=UUID(int=beside), repeated=200)
    assert subjects == merged(first, later).subjects


def test_what_was_not_counted_stays_so() -> None:
    """A notice of the release before has no number of jobs."""
    assert 0 == merged(notice(1, "a", subjects=0), notice(2, "a")).subjects
