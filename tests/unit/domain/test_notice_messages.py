"""The words of notices: what happened comes first, and nothing in them deceives."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.excerpts import INVISIBLE, one_line
from tickwise.domain.notices.messages import (
    TEXT_CHARACTERS,
    TITLE_CHARACTERS,
    length_text,
    notice_text,
)
from tickwise.domain.notices.rules import (
    MAX_LINES,
    Notice,
    NoticeEvent,
    NoticeLine,
    NoticeState,
    Severity,
)

NOW = 1_764_131_412.0  # 2025-11-26 04:30:12 UTC
URL = "https://tickwise.example.com"


def line(number: int = 0, **fields: Any) -> NoticeLine:
    """A failure of a job, some seconds later."""
    whole: dict[str, Any] = {
        "at": NOW + number, "event": NoticeEvent.FAILURE, "severity": Severity.WARNING, "subject": "j0",
        "subject_name": "nightly", "run_id": UUID(int=number), "sentence": "a run failed: exit status 1",
        "alert_id": UUID(int=77), **fields,
    }  # fmt: skip
    return NoticeLine(**whole)


def notice(*lines: NoticeLine, **fields: Any) -> Notice:
    """A notice of these events."""
    whole: dict[str, Any] = {
        "notice_id": UUID(int=1), "namespace": "shop", "channel_id": UUID(int=2), "rule_id": UUID(int=3),
        "rule_name": "nights", "severity": Severity.WARNING, "state": NoticeState.WAITING, "events": len(lines),
        "first_at": NOW, "last_at": NOW + len(lines) - 1, "lines": lines, **fields,
    }  # fmt: skip
    return Notice(**whole)


def test_one_failure_says_what_failed_why_and_when() -> None:
    """And where to look."""
    words = notice_text(notice(line(9)), public_url=URL, actions={"Acknowledge": f"{URL}/act/t"})
    assert words.title == "[warning] nightly failed"
    assert words.text.splitlines() == [
        "nightly: a run failed: exit status 1",
        "At 2025-11-26 04:30:21 UTC.",
        f"Run: {URL}/runs/{UUID(int=9)}?namespace=shop",
        f"Alert: {URL}/alerts/{UUID(int=77)}?namespace=shop",
        f"Acknowledge: {URL}/act/t",
        "",
        "Sent by Tickwise by the rule nights, namespace shop.",
    ]
    assert list(words.links) == ["Run", "Alert", "Acknowledge"]


def test_without_the_address_of_the_pages_there_is_no_link() -> None:
    """All else is told."""
    words = notice_text(notice(line(9)))
    assert words.links == {}
    assert "http" not in words.text


@pytest.mark.parametrize(
    ("made", "title"),
    [
        (notice(line(0), line(1), events=4), "[warning] nightly failed 4 times"),
        (notice(line(), severity=Severity.CRITICAL, is_escalation=True),
         "[critical] Nobody acknowledged: nightly failed"),
        (notice(line(event=NoticeEvent.RECOVERY), severity=Severity.INFO), "[info] nightly succeeded again"),
        (notice(line(event=NoticeEvent.SUCCESS), severity=Severity.INFO), "[info] nightly succeeded"),
        (notice(line(), line(1, event=NoticeEvent.SUCCESS)), "[warning] nightly failed, and succeeded again"),
        (
            notice(line(event=NoticeEvent.RECOVERY), line(1, event=NoticeEvent.SUCCESS), severity=Severity.INFO),
            "[info] nightly succeeded",
        ),
        (notice(line(event=NoticeEvent.RECOVERY, run_id=None)), "[warning] nightly is well again"),
        (notice(line(is_repeat=True)), "[warning] Still open: nightly failed"),
        (notice(line(is_repeat=True), line(1)), "[warning] nightly failed 2 times"),
        (notice(line(), line(1, subject="j1")), "[warning] 2 failures of 2 jobs named nightly"),
        (notice(line(), line(1, subject="j1", subject_name="hourly")),
         "[warning] 2 failures of 2 jobs: hourly, nightly"),
        (notice(*(line(at, subject=f"j{at}") for at in range(MAX_LINES)), events=100_000, subjects=2_000),
         "[warning] 100,000 failures of 2,000 jobs"),
        (notice(line(), events=5_000, subjects=2_000), "[warning] 5,000 failures of 2,000 jobs"),
        (notice(line(), line(1, subject="j1"), line(2, subject="j2"), events=100_000),
         "[warning] 100,000 failures of 3 jobs"),
        (notice(*(line(at, subject=f"j{at}") for at in range(MAX_LINES)), events=100_000),
         "[warning] 100,000 failures of 20 jobs or more"),
        (notice(line(), line(1, event=NoticeEvent.RECOVERY)), "[warning] nightly failed, and succeeded again"),
        (notice(line(), line(1, event=NoticeEvent.LATE, subject="j1")),
         "[warning] 2 failures and late starts of 2 jobs"),
        (notice(line(), line(1, event=NoticeEvent.RECOVERY, subject="j1", subject_name="hourly")),
         "[warning] 2 failures and recoveries of 2 jobs: hourly, nightly"),
        (notice(line(), line(1, event=NoticeEvent.EXECUTOR_LOST, subject="e")),
         "[warning] 2 lost executors and failures of 2 subjects"),
        (notice(*(line(at, subject=f"j{at}", event=kind) for at, kind in enumerate(
            (NoticeEvent.FAILURE, NoticeEvent.LATE, NoticeEvent.FUSE)))), "[warning] 3 events of 3 jobs"),
        (notice(line(event=NoticeEvent.EXECUTOR_LOST), line(event=NoticeEvent.EXECUTOR_LOST, subject="e")),
         "[warning] 2 lost executors of 2 executors"),
        (notice(events=5, lines=()), "[warning] 5 events"),
        (notice(line(subject_name="Test"), is_test=True), "[test] Tickwise can reach you here"),
    ],
)  # fmt: skip
def test_a_title_counts_what_it_is_about(made: Notice, title: str) -> None:
    """One line, whatever happened."""
    assert notice_text(made, public_url=URL).title == title


def test_a_storm_is_one_text_with_a_count() -> None:
    """The newest lines, the newest first, and how many more there are."""
    words = notice_text(
        notice(*(line(at) for at in range(MAX_LINES)), events=100_000, last_at=NOW + 720), public_url=URL
    )
    rows = words.text.splitlines()
    assert rows[0] == "nightly: a run failed: exit status 1"
    assert rows[1] == "100,000 events since 2025-11-26 04:30:12 UTC within 12 min."
    assert [row.partition(":")[0] for row in rows[2:5]] == ["Run", "Alert", ""]
    assert rows[5].startswith("- 2025-11-26 04:30:31 UTC  nightly: a run failed: exit status 1")
    assert rows[5 + MAX_LINES] == "… and 99,980 more."
    assert words.links["Alert"]


def test_each_event_has_words() -> None:
    """Of one, and of many."""
    for event in NoticeEvent:
        one = notice_text(notice(line(event=event)))
        many = notice_text(notice(line(event=event), line(1, event=event, subject="j1")))
        assert one.title.startswith("[warning] nightly ")
        assert many.title.startswith("[warning] 2 ")


def test_what_deceives_is_spelled_out() -> None:
    """Control characters, ends of lines, text that runs backwards: in a name, a sentence, a rule."""
    bad = "a\r\nSubject: x\x1b[31m\u202egnp\x00\u2028b"
    words = notice_text(notice(line(subject_name=bad, sentence=bad), rule_name=bad, namespace=bad), public_url=URL)
    assert not INVISIBLE.search(words.title + words.text)
    assert words.title == "[warning] a Subject: x\\u001b[31m\\u202egnp\\u0000 b failed"
    assert not [row for row in words.text.splitlines() if row.startswith("Subject")]


def test_a_long_text_is_cut() -> None:
    """So is a title, before a megabyte of it is looked through."""
    long = "\x00" * 1_000_000
    lines = [line(at, subject_name=long, sentence=long) for at in range(MAX_LINES)]
    words = notice_text(notice(*lines, rule_name=long), public_url=URL)
    assert len(words.title) <= TITLE_CHARACTERS
    assert len(words.text) <= TEXT_CHARACTERS
    assert one_line("x" * 50, 10) == "xxxxxxxxx…"
    assert one_line(" a\n\n b ", 10) == "a  b"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59, "59 s"), (99, "99 s"), (720, "12 min"), (3 * 3_600 + 1_200, "3 h 20 min"), (7_200, "2 h"),
     (200_000, "2 d 7 h"), (172_800, "2 d")],
)  # fmt: skip
def test_lengths_of_time_have_two_units_at_most(seconds: float, text: str) -> None:
    """As people say them."""
    assert length_text(seconds) == text


def test_trouble_stands_above_what_is_over() -> None:
    """A message that waited begins with what failed, also where the newest event is a recovery."""
    failed, over = line(0, subject="a"), line(1, event=NoticeEvent.RECOVERY, subject="b", sentence="a run succeeded")
    rows = notice_text(notice(failed, over, events=2)).text.splitlines()
    listed = [row for row in rows if row.startswith("- ")]
    assert "succeeded" not in rows[0]
    assert ["succeeded" in row for row in listed] == [False, True]
