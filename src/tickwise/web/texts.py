"""Values as people read them: times, lengths of time, numbers. Pure functions; templates call them as filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from markupsafe import Markup, escape

from tickwise.domain.excerpts import spelled
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import RunRow

_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
_SHORT: Final = 100.0
"""Seconds that are shown as seconds."""
STRIP: Final = 20
"""The runs of a job whose outcomes a list shows."""
PITCH: Final = 7
TALL: Final = {RunState.FAILED: (0, 16), RunState.SUCCESS: (3, 13)}
"""Tall marks: where each begins, and its height. A failure stands out without its colour."""
LOW: Final = (8, 8)


def visible(value: object) -> object:
    """Each value as it is put into a page: what cannot be seen in a text is spelled out. It is escaped afterwards."""
    return spelled(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def utc(instant: float) -> datetime:
    """The moment of Unix seconds."""
    return datetime.fromtimestamp(instant, UTC)


def absolute(instant: float, zone: tzinfo = UTC) -> str:
    """A time for people, with its zone: `2026-11-26 04:30:12 UTC`, `2026-11-26 05:30:12 CET`."""
    # A page of jobs shows 500 of them: strftime takes three times as long.
    at = datetime.fromtimestamp(instant, zone)
    return f"{at.isoformat(' ')[:19]} {at.tzname()}"


def iso(instant: float) -> str:
    """A time for programs, to the microsecond: `2026-11-26T04:30:12.000000Z`."""
    return f"{utc(instant):%Y-%m-%dT%H:%M:%S.%fZ}"


def duration(seconds: float | None) -> str:
    """A length of time in at most two units: `840 ms`, `4.2 s`, `3 min 20 s`, `2 d 4 h`."""
    if seconds is None:
        return "–"
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _SHORT:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    for place, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            count, rest = divmod(whole, int(size))
            smaller, name = _UNITS[place + 1] if place + 1 < len(_UNITS) else (1.0, "s")
            further = int(rest // smaller)
            return f"{count} {unit} {further} {name}" if further else f"{count} {unit}"
    return f"{whole} s"


def relative(instant: float, now: float) -> str:
    """A time beside now: `12 s ago`, `in 3 min`."""
    away = instant - now
    if abs(away) < 1:
        return "now"
    said = coarse(abs(away))
    return f"in {said}" if away > 0 else f"{said} ago"


def coarse(seconds: float) -> str:
    """A length of time in one unit, rounded down: `59 s`, `3 min`, `5 h`, `12 d`."""
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def time_tag(instant: float | None, now: float, zone: tzinfo = UTC) -> Markup:
    """A `<time>` with the relative time to read, and the absolute one to see on it. A script keeps it fresh."""
    if instant is None:
        return Markup("–")
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
        iso(instant), absolute(instant, zone), relative(instant, now)
    )


def clock_tag(instant: float | None, zone: tzinfo = UTC) -> Markup:
    """A `<time>` with the absolute time to read."""
    if instant is None:
        return Markup("–")
    return Markup('<time datetime="{}">{}</time>').format(iso(instant), absolute(instant, zone))


def number(value: float) -> str:
    """A count with thin spaces between thousands."""
    return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def percent(part: float, whole: float) -> str:
    """A share: `99.2 %`; of nothing: `–`. Not rounded up to 100."""
    if not whole:
        return "–"
    share = 100.0 * part / whole
    if share == 100.0:
        return "100 %"
    return f"{min(share, 99.99):.2f} %" if share >= 99.9 else f"{share:.1f} %"


def breakable(text: str) -> Markup:
    """A long name that may be broken after its punctuation; of one without anything to see, that it is so."""
    shown = str(visible(text))
    if shown and not any(each.isprintable() and not each.isspace() for each in shown):
        return Markup('<span class="muted">blank</span>')
    return Markup("<wbr>").join(_pieces(shown))


def _pieces(text: str) -> list[str]:
    pieces, current = [], ""
    for character in text:
        current += character
        if character in "-_./:@":
            pieces.append(current)
            current = ""
    return [*pieces, current] if current else pieces or [""]


def reasoned(reason: str | None, line: str) -> str:
    """The reason of an end and its cause, `timeout: no answer`; the cause alone, if it says the reason."""
    says_it = reason in ("exit_code", "signal") and line.startswith(("exit status ", "ended by signal "))
    return ": ".join(each for each in ("" if says_it else reason or "", line) if each)


def capital(text: str) -> str:
    """The text with a capital at its begin."""
    return text[:1].upper() + text[1:]


def coded(text: str) -> Markup:
    """A text of ours with its `words` between backticks as code."""
    pieces = [escape(piece) for piece in text.split("`")]
    if len(pieces) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else piece for place, piece in enumerate(pieces)
    )


def shell_quoted(text: str) -> str:
    """A word for a command line of sh."""
    return "'" + text.replace("'", "'\\''") + "'"


def strip(runs: Sequence[RunRow], url: Callable[[str], str], zone: tzinfo) -> Markup:
    """The outcomes of the latest runs as marks of an SVG; given newest first, drawn oldest first.

    `url` gives the address of a page. A page of jobs has a thousand marks: one text takes a tenth of the time that a
    template takes."""
    if not runs:
        return Markup('<span class="muted small">no runs yet</span>')
    before, _, after = (str(escape(part)) for part in url("/runs/@").partition("@"))
    marks = [
        _mark(run, f"{before}{run.run_id}{after}", (STRIP - 1 - place) * PITCH, zone)
        for place, run in enumerate(runs[:STRIP])
    ]
    counts = _counts(runs)
    return Markup(  # each part is escaped above or below
        f'<svg class="strip" viewBox="0 0 {STRIP * PITCH} 16" width="{STRIP * PITCH}" height="16" role="group"'
        f' aria-label="the latest {len(runs)} runs: {counts[RunState.SUCCESS]} succeeded,'
        f' {counts[RunState.FAILED]} failed">{"".join(marks)}</svg>'
    )


def _mark(run: RunRow, address: str, x: int, zone: tzinfo) -> str:
    y, height = TALL.get(run.state, LOW)
    word = run.state.value.lower()
    why = f": {escape(visible(run.reason))}" if run.reason else ""
    return (
        f'<a href="{address}" tabindex="-1"><title>{word}, due {escape(absolute(run.due_at, zone))}{why}</title>'
        f'<rect class="s-{word}" x="{x}" y="{y}" height="{height}" width="5" rx="1"/></a>'
    )


def _counts(runs: Sequence[RunRow]) -> Mapping[RunState, int]:
    return {state: sum(run.state is state for run in runs) for state in TALL}
