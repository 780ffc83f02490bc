"""The circuit breaker: when it opens, whom it lets through then, and what closes it. Time is a number here."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.adapters.runner.http import circuit_breakers
from tickwise.adapters.runner.http.circuit_breakers import Breakers, Heard, Target

HOST = Target("default", "example.com")


def opened(now: float = 0.0, **settings: float) -> Breakers:
    """Breakers that have just had enough of the host."""
    made = Breakers(**settings)  # type: ignore[arg-type]  # each is a number of the right sort
    for number in range(circuit_breakers.FAILURES):
        assert made.admit(HOST, number, now) is None
        made.heard(HOST, number, Heard.FAILED, now)
    return made


def is_open(breakers: Breakers) -> bool:
    """Nobody, or one probe, is let through."""
    circuit = breakers._circuits.get(HOST)
    return circuit is not None and circuit.open_until is not None


def test_it_opens_after_five_failures_in_a_row() -> None:
    """Not after four; and then for half a minute."""
    made = Breakers()
    for number in range(4):
        made.heard(HOST, number, Heard.FAILED, 100.0)
    assert made.admit(HOST, "a", 100.0) is None
    made.heard(HOST, "a", Heard.FAILED, 100.0)
    assert [made.admit(HOST, "b", now) for now in (100.0, 110.0, 129.5)] == [30.0, 20.0, 0.5]


def test_failures_that_are_not_in_a_row_open_nothing() -> None:
    """An answer in between shows that the host is there."""
    made = Breakers()
    for number in range(20):
        made.heard(HOST, number, Heard.WELL if number % 5 == 4 else Heard.FAILED, 0.0)
        assert made.admit(HOST, number, 0.0) is None


def test_other_hosts_are_not_concerned() -> None:
    """One that is down takes no other along."""
    assert opened().admit(Target("default", "example.org"), "a", 0.0) is None


def test_other_namespaces_are_not_concerned() -> None:
    """A namespace whose requests fail stops none of another, and neither closes nor probes its circuit."""
    made, other = opened(), Target("other", HOST.host)
    assert made.admit(other, "b", 0.0) is None
    made.heard(other, "b", Heard.WELL, 1.0)
    assert made.admit(HOST, "a", 1.0) == 29.0
    made.heard(other, "b", Heard.FAILED, 31.0)
    assert made.admit(other, "c", 31.0) is None


def test_after_its_time_one_probe_goes_through_and_nobody_else() -> None:
    """The others are told when to ask again."""
    made = opened()
    assert made.admit(HOST, "probe", 30.0) is None
    assert [made.admit(HOST, other, 31.0) for other in ("a", "b")] == [5.0, 5.0]


def test_a_probe_that_goes_well_closes_it() -> None:
    """And it takes five failures again to open it."""
    made = opened()
    made.admit(HOST, "probe", 30.0)
    made.heard(HOST, "probe", Heard.WELL, 31.0)
    assert [made.admit(HOST, other, 31.0) for other in ("a", "b")] == [None, None]
    made.heard(HOST, "a", Heard.FAILED, 32.0)
    assert made.admit(HOST, "c", 32.0) is None


def test_a_probe_that_fails_opens_it_anew() -> None:
    """For the whole time."""
    made = opened()
    made.admit(HOST, "probe", 30.0)
    made.heard(HOST, "probe", Heard.FAILED, 40.0)
    assert made.admit(HOST, "a", 41.0) == 29.0
    assert made.admit(HOST, "a", 70.0) is None


def test_a_probe_that_was_cancelled_frees_its_place() -> None:
    """It told nothing: the next one is the probe."""
    made = opened()
    made.admit(HOST, "probe", 30.0)
    made.heard(HOST, "probe", Heard.NOTHING, 31.0)
    assert made.admit(HOST, "next", 31.0) is None
    assert made.admit(HOST, "other", 31.0) == 5.0


def test_what_was_under_way_when_it_opened_changes_its_time_no_more() -> None:
    """Its failure is known; its success is news."""
    made = opened()
    made.heard(HOST, "slow", Heard.FAILED, 20.0)
    assert made.admit(HOST, "a", 30.0) is None
    made = opened()
    made.heard(HOST, "slow", Heard.WELL, 20.0)
    assert made.admit(HOST, "a", 20.0) is None


def test_each_opening_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """However long it stays open, and however many are turned away."""
    caplog.set_level(logging.INFO)
    made = opened()
    for turn in range(1, 5):
        made.admit(HOST, "probe", turn * 30.0)
        made.heard(HOST, "probe", Heard.FAILED, turn * 30.0)
    made.admit(HOST, "probe", 200.0)
    made.heard(HOST, "probe", Heard.WELL, 200.0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert all(HOST.host in record.getMessage() for record in caplog.records)


def test_what_it_keeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that fail are a thing that anybody can invent."""
    monkeypatch.setattr(circuit_breakers, "MAX_TARGETS", 10)
    made = Breakers()
    for number in range(100):
        made.heard(Target("default", f"host-{number}"), number, Heard.FAILED, 0.0)
        made.heard(Target("default", f"good-{number}"), number, Heard.WELL, 0.0)
    assert made.known == 10


@given(
    st.lists(
        st.tuples(st.sampled_from(Heard), st.floats(0.0, 20.0), st.integers(0, 3)),
        max_size=60,
    )
)
def test_whatever_happens_no_more_than_one_is_let_through_while_it_is_not_closed(
    steps: list[tuple[Heard, float, int]],
) -> None:
    """Requests come and end in any order; one of them stays under way for long."""
    made, now = opened(), 0.0
    under_way: list[int] = []
    for number, (what, pause, ends) in enumerate(steps):
        now += pause
        if made.admit(HOST, number, now) is None:
            under_way.append(number)
        if is_open(made):
            assert len(under_way) <= 1
        if ends == 0 and under_way:
            made.heard(HOST, under_way.pop(), what, now)
        if not is_open(made):
            break
