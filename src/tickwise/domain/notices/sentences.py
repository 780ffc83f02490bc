"""The sentences of alerts and notices."""

from __future__ import annotations

from typing import Final

from tickwise.domain.notices.changes import PendingEvent
from tickwise.domain.notices.rules import NoticeEvent

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
}


def sentence_of(event: NoticeEvent, pending: PendingEvent) -> str:
    """One line about an event, with the first line of its error."""
    if pending.event is not None and pending.error:
        return _line(pending.error)
    words = _WORDS[event]
    if event is NoticeEvent.RETRIES:
        words = f"{words} after attempt {pending.attempt} failed"
    said = pending.error if event is not NoticeEvent.RECOVERY else None
    detail = said or (pending.reason if event is not NoticeEvent.RECOVERY else None)
    return _line(f"{words}: {detail}" if detail else words)


def still_open(sentence: str, events: int) -> str:
    """The line of an alert that is told again."""
    return _line(f"still open, {events} {'event' if events == 1 else 'events'}: {sentence}")


def _line(text: str) -> str:
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
    return line if len(line) <= MAX_SENTENCE else f"{line[: MAX_SENTENCE - 1]}…"
