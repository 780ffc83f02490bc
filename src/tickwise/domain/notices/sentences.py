"""The sentences of alerts and notices."""

from __future__ import annotations

from typing import Final

from tickwise.domain.excerpts import cause_line
from tickwise.domain.notices.changes import PendingEvent
from tickwise.domain.notices.messages import length_text, time_text
from tickwise.domain.notices.rules import GOOD, NoticeEvent

MAX_SENTENCE: Final = 300
"""Characters."""

_WORDS: Final = {
    NoticeEvent.FAILURE: "a run failed",
    NoticeEvent.FIRST_FAILURE: "a run failed, and the run before it had not",
    NoticeEvent.DEAD_LETTER: "a run became a dead letter",
    NoticeEvent.RETRIES: "a run is tried again",
    NoticeEvent.DID_NOT_RUN: "an occurrence did not run",
    NoticeEvent.FUSE: "the job was paused by its fuse",
    NoticeEvent.RECOVERY: "a run succeeded",
    NoticeEvent.LATE: "a run has not begun",
    NoticeEvent.LONG: "a run is taking long",
    NoticeEvent.EXECUTOR_LOST: "the executor went silent",
    NoticeEvent.OBJECTIVE: "the error budget burns too fast",
    NoticeEvent.ANOMALY: "a run is unlike those before it",
    NoticeEvent.EXPIRING: "it ends soon",
    NoticeEvent.SUCCESS: "a run succeeded",
}


_RESTED: Final = "; that run ended well"

_COUNTED: Final = {
    NoticeEvent.FAILURE: ("failure", "failures"),
    NoticeEvent.FIRST_FAILURE: ("failure after a success", "failures after a success"),
    NoticeEvent.DID_NOT_RUN: ("occurrence that did not run", "occurrences that did not run"),
}


def sentence_of(event: NoticeEvent, pending: PendingEvent, *, threshold: str | None = None) -> str:
    """One line about an event, with the cause by its error. `threshold`: the words for a threshold of the rule
    that was passed, instead of those for the event."""
    if pending.event is not None and pending.error:
        return _line(pending.error)
    words = threshold or _WORDS[event]
    if event is NoticeEvent.RETRIES:
        words = f"{words} after attempt {pending.attempt} failed"
    said = pending.error if event not in GOOD else None
    detail = cause_line(said) or (pending.reason if event not in GOOD else None)
    return _line(f"{words}: {detail}" if detail else words)


def recovered(sentence: str, event: NoticeEvent, events: int, seconds: float) -> str:
    """The line of a recovery from an alert about this event, with the events that it counted, and its length."""
    noun = _COUNTED.get(event, ("event", "events"))[events != 1]
    return _line(f"{sentence}, after {events:,} {noun} in {length_text(seconds)}")


def rested(sentence: str) -> str:
    """The line of an alert about a run that has ended well since."""
    return sentence if sentence.endswith(_RESTED) else f"{_line(sentence)[: MAX_SENTENCE - len(_RESTED)]}{_RESTED}"


def still_open(sentence: str, events: int, first_at: float) -> str:
    """The line of an alert that is told again."""
    return _line(
        f"still open since {time_text(first_at)}, {events:,} {'event' if events == 1 else 'events'}: {sentence}"
    )


def _line(text: str) -> str:
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
    return line if len(line) <= MAX_SENTENCE else f"{line[: MAX_SENTENCE - 1]}…"
