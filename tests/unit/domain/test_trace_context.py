"""The trace of a request, as W3C Trace Context writes it: what is read, and what counts as not sent."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.model import run_id
from tickwise.domain.trace_context import MEMBERS_MAX, TRACESTATE_CHARACTERS_MAX, read_trace, trace_id_of_run

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SENT = f"00-{TRACE}-{SPAN}-01"
JOB = UUID("019a2b3c-4d5e-8f60-9123-456789abcdef")


@pytest.mark.parametrize("sent", [SENT, SENT.encode(), f" {SENT}\t", SENT.encode() + b" "])
def test_a_valid_trace_is_read_and_written_as_it_was(sent: str | bytes) -> None:
    """As a header's bytes too, with blanks around it."""
    found = read_trace(sent)
    assert found is not None
    assert (SENT, TRACE, SPAN, True) == (found.traceparent, found.trace_text, found.span_text, found.sampled)


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)])
def test_of_the_flags_only_the_one_for_recording_is_kept(flags: str, sampled: bool) -> None:
    """The others are not known to this version, and so are not passed on."""
    found = read_trace(f"00-{TRACE}-{SPAN}-{flags}")
    assert found is not None
    assert sampled is found.sampled
    assert found.traceparent.endswith("-01" if sampled else "-00")


def test_a_later_version_may_be_longer_and_is_written_as_the_known_one() -> None:
    """What this version knows of it is its beginning."""
    found = read_trace(f"cc-{TRACE}-{SPAN}-01-what-the-future-is")
    assert found is not None
    assert SENT == found.traceparent


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        b"",
        SENT.upper(),
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN.upper()}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{TRACE}-{SPAN}-01\r\nX-Evil: 1",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-01\0",
        f"cc-{TRACE}-{SPAN}-01-{'a' * 300}",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"cc-{TRACE}-{SPAN}-01-a\r\nb",
        b"\xff" * 55,
        "\u0660\u0660-" + SENT[3:],
        SENT * 100,
    ],
)
def test_what_is_not_valid_was_not_sent(sent: str | bytes | None) -> None:
    """No error: a request goes on as if the header had not been there."""
    assert read_trace(sent) is None


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("congo=t61rcWkgMzE", "congo=t61rcWkgMzE"),
        (b"rojo=00f067aa0ba902b7, congo=t61rcWkgMzE ,", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        ("fw529a3039@dt=FfAcNDQwOTg=", ""),
        ("1a-f@nr=1", "1a-f@nr=1"),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a=b\r\nX-Evil: 1", ""),
        ("a=\x7f", ""),
        ("a=ä".encode(), ""),
        ("a", ""),
        ("a=", ""),
        ("", ""),
        (None, ""),
        (",".join(f"a{number}=1" for number in range(MEMBERS_MAX)), True),
        (",".join(f"a{number}=1" for number in range(MEMBERS_MAX + 1)), ""),
        ("a=" + "x" * 256, "a=" + "x" * 256),
        ("a=" + "x" * 257, ""),
        (f"a={'x' * 250},b={'y' * 250},c={'z' * (TRACESTATE_CHARACTERS_MAX - 508)}", True),
        (f"a={'x' * 250},b={'y' * 250},c={'z' * (TRACESTATE_CHARACTERS_MAX - 507)}", ""),
    ],
)
def test_a_state_that_is_too_long_or_not_valid_is_left_out_and_the_trace_kept(
    sent: str | bytes | None, kept: str | bool
) -> None:
    """It is passed on whole or not at all."""
    found = read_trace(SENT, sent)
    assert found is not None
    assert SENT == found.traceparent
    assert (sent if kept is True else kept) == found.tracestate


@given(st.binary(max_size=300), st.binary(max_size=700))
def test_no_text_makes_it_raise_or_hand_on_what_has_no_place_in_a_header(parent: bytes, state: bytes) -> None:
    """Whatever comes, what is kept is printable ASCII of a bounded length."""
    for sent in (parent, SENT.encode()):
        found = read_trace(sent, state)
        if found is not None:
            assert found.tracestate.isascii()
            assert found.tracestate.isprintable() or not found.tracestate
            assert len(found.tracestate) <= TRACESTATE_CHARACTERS_MAX
            assert read_trace(found.traceparent, found.tracestate) == found


def test_the_trace_of_a_run_follows_from_its_id_and_its_lower_half_is_evenly_drawn() -> None:
    """Samplers that go by the id of a trace then take a fair share of runs."""
    ids = [trace_id_of_run(run_id(JOB, 1_800_000_000.0 + number)) for number in range(4_000)]
    assert len(set(ids)) == len(ids)
    lower = [each & ((1 << 64) - 1) for each in ids]
    for quarter in range(4):
        share = sum(quarter << 62 <= each < (quarter + 1) << 62 for each in lower)
        assert 850 < share < 1_150
