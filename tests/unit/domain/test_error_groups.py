"""The fingerprint of a failure, and the status of a group."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.error_groups import (
    MAX_MESSAGE,
    ErrorDecision,
    ErrorState,
    ErrorStatus,
    Fingerprint,
    fingerprint,
    masked,
)

TRACEBACK = 'Traceback (most recent call last):\n  File "/srv/app/main.py", line {line}, in <module>\n{end}'


def of(error: str | None, *, reason: str = "error", task: str = "function pay", namespace: str = "a") -> Fingerprint:
    """The fingerprint of an error."""
    return fingerprint(namespace, reason=reason, error=error, task=task)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("order 42 of 17.5 kg, -3 left", "order <n> of <n> kg, <n> left"),
        ("run 019a2b3c-4d5e-8f60-9123-456789ABCDEF is gone", "run <id> is gone"),
        ("at 2026-11-26T07:00:12.123Z, 2026-11-26 and 7:05", "at <time>, <time> and <time>"),
        ("cannot open /var/lib/x/1.csv: no such file", "cannot open <path>: no such file"),
        ("cannot open C:\\data\\1.csv", "cannot open <path>"),
        ("in ~/a, ./b/c and ../d", "in <path>, <path> and <path>"),
        ("digest 8f14e45fceea167a, at 0xdeadBEEF", "digest <hex>, at <hex>"),
        ("customer cus_9s6XKzkNRiz8i3", "customer <id>"),
        ("GET https://api.example.com:8443/v1/42?x=1", "GET https://api.example.com:<n>/<path>"),
        ("10.0.0.12:5432 refused", "<n>:<n> refused"),
        ("lost [1, 2, 3]", "lost [<n>]"),
        ("lost [1]", "lost [<n>]"),
        ("utf8  and\tsha256", "utf<n> and sha<n>"),
        ("a facade of defaced beef", "a facade of defaced beef"),
        ("and/or", "and/or"),
        ("in <b>x</b>", "in <b>x</b>"),
        ("", ""),
    ],
)
def test_what_differs_from_run_to_run_is_taken_out(message: str, expected: str) -> None:
    """And nothing else."""
    assert expected == masked(message)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 17", "KeyError: 18"),
        (TRACEBACK.format(line=3, end="ValueError: order 1"), TRACEBACK.format(line=9, end="ValueError: order 2")),
        ("exit status 3: cannot open /tmp/a1\n", "exit status 3: cannot open /tmp/b2\n"),
        ("status 503: request 1 failed", "status 503: request 2 failed"),
        (None, ""),
    ],
)
def test_failures_of_one_cause_have_one_fingerprint(one: str | None, other: str | None) -> None:
    """Wherever and whenever they happened."""
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'a'", "KeyError: 'b'"),
        ("KeyError: x", "ValueError: x"),
        ("exit status 3", "exit status 4"),
        ("status 503", "status 404"),
        ("ended by signal SIGKILL", "ended by signal SIGSEGV"),
    ],
)
def test_failures_of_other_causes_have_others(one: str, other: str) -> None:
    """Another exception, exit status, signal or text."""
    assert of(one).group_id != of(other).group_id


def test_a_cause_is_of_a_namespace_a_reason_and_a_task() -> None:
    """What separates two parts of it cannot be moved from one to the other."""
    usual = of("x")
    assert 4 == len({usual.group_id, of("x", namespace="b").group_id, of("x", reason="timeout").group_id,
                     of("x", task="function ship").group_id})  # fmt: skip
    assert of("x", reason="ab", task="c").group_id != of("x", reason="a", task="bc").group_id


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (TRACEBACK.format(line=1, end="app.errors.NoStock: item 4"), "app.errors.NoStock", "item <n>"),
        ("exit status 1: " + TRACEBACK.format(line=1, end="ValueError: no"), "exit status 1 ValueError", "no"),
        ("exit status 7", "exit status 7", ""),
        ("ended by signal SIGKILL: was here", "ended by signal SIGKILL", "was here"),
        ("status 503: try later", "status 503", "try later"),
        ("TimeoutError", "TimeoutError", ""),
        ("connection: refused", "", "connection: refused"),
    ],
)
def test_the_kind_is_named(error: str, kind: str, message: str) -> None:
    """An exception looks like a class."""
    assert (kind, message) == of(error)[2:]


@pytest.mark.parametrize(
    "text", ["a" * 9, "/", "1,", "1:", "0123456789abcdef", "<n>,", ":", "https://", "é\u202e", "\x1b[3"]
)
def test_hostile_text_takes_no_time(text: str) -> None:
    """A megabyte of it; the message is bounded."""
    began = time.thread_time()
    found = of(text * (1_000_000 // len(text)))
    assert time.thread_time() - began < 1.0
    assert len(found.message) <= MAX_MESSAGE


@given(st.text(), st.text())
def test_any_text_has_a_fingerprint(error: str, task: str) -> None:
    """Lone surrogates too; and the same one each time."""
    assert of(error, task=task) == of(error, task=task)


def state(decision: ErrorDecision | None, **fields: Any) -> ErrorState:
    """Three failures, the last at 100."""
    usual = ErrorState(3, 100.0, decision, None if decision is None else 150.0, None, None)
    return usual._replace(**fields)


@pytest.mark.parametrize(
    ("said", "now", "expected"),
    [
        (state(None), 200.0, ErrorStatus.OPEN),
        (state(ErrorDecision.RESOLVE), 200.0, ErrorStatus.RESOLVED),
        (state(ErrorDecision.RESOLVE, last_seen=150.0), 200.0, ErrorStatus.RESOLVED),
        (state(ErrorDecision.RESOLVE, last_seen=151.0), 200.0, ErrorStatus.OPEN),
        (state(ErrorDecision.IGNORE, ignored_until=201.0), 200.0, ErrorStatus.IGNORED),
        (state(ErrorDecision.IGNORE, ignored_until=200.0), 200.0, ErrorStatus.OPEN),
        (state(ErrorDecision.IGNORE, ignored_count=4), 200.0, ErrorStatus.IGNORED),
        (state(ErrorDecision.IGNORE, ignored_count=3), 200.0, ErrorStatus.OPEN),
        (state(ErrorDecision.IGNORE, ignored_until=300.0, ignored_count=3), 200.0, ErrorStatus.OPEN),
        (state(ErrorDecision.IGNORE, ignored_until=100.0, ignored_count=9), 200.0, ErrorStatus.OPEN),
    ],
)
def test_the_status_follows_from_the_decision_and_what_came_after(
    said: ErrorState, now: float, expected: ErrorStatus
) -> None:
    """Nothing has to reopen a group."""
    assert expected is said.status(now)
