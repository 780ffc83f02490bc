"""The words of a notice: a title of one line, a text for people, and links to pages.

    one failure           [warning] nightly-report failed
    some of one job       [warning] nightly-report failed 4 times
    a few                 [warning] 2 failures of 2 jobs: nightly-report, sync
    a storm               [critical] 100,000 failures of 3 jobs
    a recovery            [info] nightly-report succeeded again
    a success             [info] nightly-report succeeded
    a repeat              [warning] Still open: nightly-report failed
    an escalation         [critical] Nobody acknowledged: nightly-report failed

Invariants: what people and tasks wrote stands in a title and a text with each invisible character spelled out, and is
no more than one line of either. A title has at most `TITLE_CHARACTERS`, a text at most `TEXT_CHARACTERS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import urlencode

from tickwise.domain.excerpts import one_line
from tickwise.domain.notices.rules import GOOD, MAX_LINES, Notice, NoticeEvent, NoticeLine

TITLE_CHARACTERS: Final = 200
TEXT_CHARACTERS: Final = 20_000
NAME_CHARACTERS: Final = 100
SENTENCE_CHARACTERS: Final = 500
KINDS_NAMED: Final = 2
"""A title of more kinds of events says `events`."""
NAMES_SHOWN: Final = 3
"""A title has the names of so few."""


class _Words(NamedTuple):
    """The words of an event."""

    happened: str
    """Behind the name of its subject."""
    many: str
    """Behind a number."""


_WORDS: Final[Mapping[NoticeEvent, _Words]] = {
    NoticeEvent.FAILURE: _Words("failed", "failures"),
    NoticeEvent.FIRST_FAILURE: _Words("failed after it succeeded", "first failures"),
    NoticeEvent.RECOVERY: _Words("succeeded again", "recoveries"),
    NoticeEvent.DID_NOT_RUN: _Words("did not run", "occurrences that did not run"),
    NoticeEvent.LATE: _Words("is late", "late starts"),
    NoticeEvent.LONG: _Words("runs long", "long runs"),
    NoticeEvent.RETRIES: _Words("is tried again and again", "runs with many retries"),
    NoticeEvent.DEAD_LETTER: _Words("left a dead letter", "dead letters"),
    NoticeEvent.FUSE: _Words("was paused because it fired too often", "pauses by fuse"),
    NoticeEvent.EXECUTOR_LOST: _Words("went silent", "lost executors"),
    NoticeEvent.OBJECTIVE: _Words("burns its error budget", "objectives that burn"),
    NoticeEvent.ANOMALY: _Words("is unlike itself", "anomalies"),
    NoticeEvent.EXPIRING: _Words("ends soon", "ends of certificates and keys"),
    NoticeEvent.SUCCESS: _Words("succeeded", "successes"),
}
_SUBJECTS: Final[Mapping[NoticeEvent, tuple[str, str]]] = {
    NoticeEvent.EXECUTOR_LOST: ("executor", "executors"),
    NoticeEvent.EXPIRING: ("certificate or key", "certificates and keys"),
}


class NoticeText(NamedTuple):
    """A notice in words."""

    title: str
    """One line."""
    text: str
    """Lines; the first says what happened."""
    links: Mapping[str, str]
    """Addresses by their label; none without the address of the pages."""


def notice_text(
    notice: Notice, *, public_url: str | None = None, actions: Mapping[str, str] | None = None
) -> NoticeText:
    """A notice in words. `public_url`: the address of the pages, without a slash at its end. `actions`: addresses that
    act, by their label."""
    title = one_line(_title(notice), TITLE_CHARACTERS)
    links = {**_page_links(notice, public_url), **(actions or {})}
    text = "\n".join(_text(notice, links, public_url))
    return NoticeText(title, text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - 1] + "…", links)


def page_of_run(public_url: str, namespace: str, run_id: object) -> str:
    """The page of a run."""
    return f"{public_url}/runs/{run_id}?{urlencode({'namespace': namespace})}"


def page_of_alert(public_url: str, namespace: str, alert_id: object) -> str:
    """The page of an alert."""
    return f"{public_url}/alerts/{alert_id}?{urlencode({'namespace': namespace})}"


def count_text(number: int) -> str:
    """A number with commas between thousands."""
    return f"{number:,}"


def length_text(seconds: float) -> str:
    """A length of time: `12 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3_600, whole // 86_400
    if minutes < 100:
        return f"{minutes} min"
    if hours < 48:
        rest = minutes % 60
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def time_text(instant: float) -> str:
    """A time: `2026-11-26 04:30:12 UTC`."""
    return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _title(notice: Notice) -> str:
    if notice.is_test:
        return "[test] Tickwise can reach you here"
    again = "Nobody acknowledged: " if notice.is_escalation else "Still open: " if _is_repeat(notice) else ""
    begin = f"[{notice.severity}] {again}"
    subjects = {line.subject for line in notice.lines}
    kinds = {line.event for line in notice.lines}
    last = _leading(notice)
    if last is None:
        return f"{begin}{_counted(notice.events, 'event')}"
    count = max(len(subjects), notice.subjects)
    if count == 1:
        name = one_line(last.subject_name, NAME_CHARACTERS)
        if len(kinds) == 1:
            times = f" {count_text(notice.events)} times" if notice.events > 1 else ""
            return f"{begin}{name} {_happened(last)}{times}"
        over = last.event not in GOOD and notice.lines[-1].event in GOOD
        return f"{begin}{name} {_happened(last)}{', and succeeded again' if over else ''}"
    what = " and ".join(_WORDS[kind].many for kind in sorted(kinds)) if len(kinds) <= KINDS_NAMED else "events"
    [(one, many), *others] = {_SUBJECTS.get(kind, ("job", "jobs")) for kind in kinds}
    if others:
        one, many = "subject", "subjects"
    is_whole = notice.events <= len(notice.lines)
    more = "" if is_whole or notice.subjects or len(notice.lines) < MAX_LINES else " or more"
    names = {line.subject_name for line in notice.lines}
    named = ""
    if is_whole and len(names) == 1 and one == "job" and len(kinds) == 1:
        named = f" named {one_line(last.subject_name, NAME_CHARACTERS)}"
    elif is_whole and len(names) == len(subjects) <= NAMES_SHOWN:
        named = ": " + ", ".join(sorted(one_line(name, NAME_CHARACTERS) for name in names))
    return (
        f"{begin}{count_text(notice.events)} {what} of {count_text(count)} {many if count != 1 else one}{more}{named}"
    )


def _happened(line: NoticeLine) -> str:
    """The words behind the name of its subject."""
    if line.event is NoticeEvent.RECOVERY and line.run_id is None:
        return "is well again"  # no run succeeded: an executor is back, a certificate was renewed
    return _WORDS[line.event].happened


def _is_repeat(notice: Notice) -> bool:
    """Check whether each of its lines tells an alert again."""
    return bool(notice.lines) and all(line.is_repeat for line in notice.lines)


def _leading(notice: Notice) -> NoticeLine | None:
    """The newest line of a trouble, or the newest of all."""
    troubles = [line for line in notice.lines if line.event not in GOOD]
    return next(reversed(troubles or list(notice.lines)), None)


def _text(notice: Notice, links: Mapping[str, str], public_url: str | None) -> Iterator[str]:
    """The event, since when, and where to look come first; then the single events."""
    if notice.is_test:
        yield from [_said(line) for line in notice.lines] or ["This is a test of the channel. Nothing happened."]
    else:
        yield from _head(notice)
    yield from (f"{label}: {address}" for label, address in links.items())
    yield ""
    if not notice.is_test and len(notice.lines) > 1:
        yield from _rows(notice, public_url)
        yield ""
    rule = f" by the rule {one_line(notice.rule_name, NAME_CHARACTERS)}" if notice.rule_name else ""
    yield f"Sent by Tickwise{rule}, namespace {one_line(notice.namespace, NAME_CHARACTERS)}."


def _head(notice: Notice) -> Iterator[str]:
    """The newest trouble comes first: it is the reason of the message."""
    if notice.is_escalation:
        yield "Nobody has acknowledged this:"
    if (leading := _leading(notice)) is not None:
        yield _sentence(leading)
    if notice.events > 1:
        apart = notice.last_at - notice.first_at
        within = f" within {length_text(apart)}" if apart >= 1 else ""
        yield f"{_counted(notice.events, 'event')} since {time_text(notice.first_at)}{within}."
    elif notice.lines and not _is_repeat(notice):
        yield f"At {time_text(notice.lines[-1].at)}."


def _rows(notice: Notice, public_url: str | None) -> Iterator[str]:
    """The newest lines, the newest first."""
    lines = list(notice.lines)
    for is_over in (False, True):  # what is over stands below what is not
        part = [line for line in reversed(lines) if (line.event in GOOD) == is_over]
        yield from (_row(line, notice, public_url) for line in part)
    if notice.events > len(lines):
        yield f"… and {count_text(notice.events - len(lines))} more."


def _row(line: NoticeLine, notice: Notice, public_url: str | None) -> str:
    page = f"  {page_of_run(public_url, notice.namespace, line.run_id)}" if public_url and line.run_id else ""
    return f"- {time_text(line.at)}  {_sentence(line)}{page}"


def _sentence(line: NoticeLine) -> str:
    return f"{one_line(line.subject_name, NAME_CHARACTERS)}: {_said(line) or _happened(line)}"


def _said(line: NoticeLine) -> str:
    return one_line(line.sentence, SENTENCE_CHARACTERS)


def _page_links(notice: Notice, public_url: str | None) -> dict[str, str]:
    if public_url is None or notice.is_test or not notice.lines:
        return {}
    links, last = dict[str, str](), _leading(notice)
    if last is not None and last.run_id is not None:
        links["Run"] = page_of_run(public_url, notice.namespace, last.run_id)
    alerts = _distinct(line.alert_id for line in notice.lines if line.alert_id is not None)
    if len(alerts) == 1:
        links["Alert"] = page_of_alert(public_url, notice.namespace, alerts[0])
    elif alerts:
        links["Alerts"] = f"{public_url}/alerts?{urlencode({'namespace': notice.namespace})}"
    return links


def _distinct(values: Iterator[object]) -> Sequence[object]:
    return list(dict.fromkeys(values))


def _counted(number: int, noun: str) -> str:
    return f"{count_text(number)} {noun}{'' if number == 1 else 's'}"
