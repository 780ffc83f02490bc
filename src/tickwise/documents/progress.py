"""The progress of an attempt, as its task told it: a small blob beside its log, replaced while it goes on.

    logs/<day>/<run>/<attempt>.progress

It lies with the logs, so that retention takes it with them. It is no part of the store: it is lost with its blob, and
nothing is decided by it.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.errors import NotFound
from tickwise.ports.blobs import Blobs, logs_folder

TEXT_CHARACTERS: Final = 200
LINE_BEGIN: Final = b"progress "
"""The beginning of the line of output that tells of a progress too. A line without a progress is a line."""


class RunProgress(NamedTuple):
    """A word of a task on how far it is."""

    share: float
    """From 0 to 1."""
    text: str
    """The things that are counted, or the step that is being done; for people."""
    at: float
    """The time at which the executor heard it, on its clock, in seconds since the epoch."""


def progress_of(share: float, text: str, at: float) -> RunProgress:
    """The progress that a task told at a time. A worker may send anything: no number leaves the range, and no character
    of the text is a command for a terminal or a page."""
    shown = "".join(each if each.isprintable() else " " for each in text[:TEXT_CHARACTERS])
    return RunProgress(min(1.0, max(0.0, share)), shown, at)


def progress_key(run_id: UUID, attempt: int) -> str:
    """The key of the newest progress of an attempt."""
    return f"{logs_folder(run_id)}{attempt}.progress"


def progress_content(progress: RunProgress) -> bytes:
    """The progress as it is stored."""
    return json.dumps(progress._asdict()).encode()


async def read_progress(blobs: Blobs, run_id: UUID, attempt: int) -> RunProgress | None:
    """The newest progress of an attempt; None: it said none. Raises `Unavailable`."""
    try:
        return RunProgress(**json.loads(await blobs.get(progress_key(run_id, attempt))))
    except NotFound:
        return None
