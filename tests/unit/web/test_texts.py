"""Values as people read them, output in colours, and charts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pages import Markup
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import Tally
from tickwise.web import charts, texts
from tickwise.web.ansi import lines_of, marked, plain

HOUR = 3_600.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"), (0.0, "0 ms"), (0.0312, "31 ms"), (4.26, "4.3 s"), (61.0, "61 s"), (200.0, "3 min 20 s"),
        (7_200.0, "2 h"), (100_000.0, "1 d 3 h"), (-0.5, "−500 ms"),
    ],
)  # fmt: skip
def test_a_length_of_time_has_two_units_at_most(seconds: float | None, said: str) -> None:
    """So it is read at a glance."""
    assert said == texts.duration(seconds)


@pytest.mark.parametrize(
    ("away", "said"), [(0.4, "now"), (59.9, "in 59 s"), (3_599.0, "in 59 min"), (-90.0, "1 min ago"), (-2e5, "2 d ago")]
)
def test_a_time_is_told_beside_now(away: float, said: str) -> None:
    """As the script goes on to tell it."""
    assert said == texts.relative(1_800_000_000.0 + away, 1_800_000_000.0)


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [(0, 0, "–"), (0, 3, "0.0 %"), (1, 3, "33.3 %"), (3, 3, "100 %"), (99_999, 100_000, "99.99 %")],
)
def test_a_share_is_not_rounded_to_perfection(part: int, whole: int, said: str) -> None:
    """One failure of 100,000 is seen."""
    assert said == texts.percent(part, whole)


@given(st.text())
def test_a_text_that_is_shown_is_the_text(text: str) -> None:
    """Whatever it holds: nothing of it is markup, and nothing of it is invisible."""
    markup = Markup(str(texts.breakable(text)))
    shown = str(texts.visible(text))
    if shown and not any(each.isprintable() and not each.isspace() for each in shown):
        assert ("blank", {"span"}) == (markup.words, markup.tags())
        return
    assert markup.tags() <= {"wbr"}
    assert not {"\u202e", "\x1b", "\x00"} & set(shown)
    if shown == text:
        assert markup.text.replace("\r", "\n") == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize(
    ("output", "pieces"),
    [
        ("plain", [("", "plain")]),
        ("\x1b[31mred\x1b[0m plain", [("a-red", "red"), ("", " plain")]),
        ("\x1b[1;92mloud\x1b[22m\x1b[39mplain", [("a-bright-green a-bold", "loud"), ("", "plain")]),
        (
            "\x1b[38;5;196mred\x1b[48;2;0;0;200mon blue",
            [("a-bright-red", "red"), ("a-bright-red a-on-bright-blue", "on blue")],
        ),
        ("\x1b[2K\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", [("", "link")]),
        ("10 %\r50 %\r100 %", [("", "100 %")]),
        ("a\x00b\u202ec\x07", [("", "abc")]),
        ("\x1b[999;38;5m\x1b[mx\x1b[", [("", "x")]),
    ],
)
def test_colours_of_output_become_classes(output: str, pieces: list[tuple[str, str]]) -> None:
    """All else that a terminal would obey is left out."""
    (line,) = lines_of(output.encode(), 0)
    assert pieces == [(piece.classes, piece.text) for piece in line.pieces]


def test_a_colour_goes_on_over_lines_and_a_line_has_its_offset() -> None:
    """The bytes are counted, not the characters."""
    lines = lines_of("\x1b[32mä\nb\x1b[0m\r\n\nc".encode(), 100)
    assert [(line.offset, [(piece.classes, piece.text) for piece in line.pieces]) for line in lines] == [
        (100, [("a-green", "ä")]), (108, [("a-green", "b")]), (115, []), (116, [("", "c")]),
    ]  # fmt: skip


@given(st.binary(max_size=400))
def test_any_output_can_be_shown(output: bytes) -> None:
    """It costs its length, and no byte of it is a control character in the page."""
    for line in lines_of(output, 0):
        for piece in line.pieces:
            assert piece.classes.replace("-", "").replace(" ", "").isalnum() or not piece.classes
            assert all(
                character == "\t" or character.isprintable() or ord(character) > 0x9F for character in piece.text
            )
    plain(output.decode(errors="replace"))


def test_hours_without_runs_are_hours_too() -> None:
    """The highest bar reaches the top, and one failure among thousands is seen."""
    until = 500_000 * HOUR + 60.0
    tallies = [
        Tally(hour=500_000 * HOUR, state=RunState.SUCCESS, runs=10_000),
        Tally(hour=500_000 * HOUR, state=RunState.FAILED, runs=1),
        Tally(hour=499_000 * HOUR, state=RunState.FAILED, runs=9),
    ]
    bars = charts.hours(tallies, until)
    assert (24, [0] * 23) == (len(bars), [len(bar.slices) for bar in bars[:-1]])
    top = min(each.y for each in bars[-1].slices)
    assert -2.0 <= top <= 0.1
    assert 1.0 == bars[-1].slices[-1].height


@given(st.text("ab\x1b[1mK\u0130A", max_size=60), st.text("abkK\u0130", min_size=1, max_size=3))
def test_what_is_looked_for_is_marked_and_the_text_stays(text: str, wanted: str) -> None:
    """Over borders of colours too; a mark holds what was looked for, whole, when its pieces are joined."""
    lines = lines_of(text.encode(), 0)
    for before, after in zip(lines, marked(lines, wanted), strict=True):
        shown = "".join(piece.text for piece in before.pieces)
        assert shown == "".join(piece.text for piece in after.pieces)
        hits = "".join(piece.text for piece in after.pieces if piece.hit).lower()
        assert hits == wanted.lower() * (shown.lower().count(wanted.lower()))


@pytest.mark.parametrize(
    ("reason", "line", "expected"),
    [
        ("timeout", "no answer", "timeout: no answer"),
        ("exit_code", "exit status 3: no disk", "exit status 3: no disk"),
        ("signal", "ended by signal SIGKILL", "ended by signal SIGKILL"),
        ("module_missing", "exit status 1: x", "module_missing: exit status 1: x"),
        ("timeout", "", "timeout"),
        (None, "no disk", "no disk"),
        (None, "", ""),
    ],
)
def test_a_reason_that_the_cause_says_is_not_said_twice(reason: str | None, line: str, expected: str) -> None:
    """One line of a list has room for one of them."""
    assert expected == texts.reasoned(reason, line)


def test_words_between_backticks_are_code() -> None:
    """All of it is escaped, and an odd one is a character."""
    assert "a <code>b &lt;c&gt;</code> &amp; d" == texts.coded("a `b <c>` & d")
    assert "a `b" == texts.coded("a `b")
    assert ("", "Abc", "Ä") == (texts.capital(""), texts.capital("abc"), texts.capital("ä"))


@pytest.mark.parametrize("name", [" ", "\t\n", "\u200b", "\u3000\ufeff"])
def test_a_name_without_anything_to_see_can_be_seen(name: str) -> None:
    """It is a link in lists."""
    assert "blank" in texts.breakable(name)
    assert "" == texts.breakable("")
