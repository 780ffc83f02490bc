"""What people ask: submit, change, pause, cancel, retry, look up. Every call carries a `Principal`.

    api, command line, pages ──► Control ──► store        (the truth; single submits through a group commit)
                                    ├──────► blobs        (scripts, logs)
                                    └──────► signals      (only after the write: make it quick)

Invariant: nothing here knows HTTP, and nothing is accepted that would be ignored: what cannot be carried out is
refused with a pointer to the field at fault.
"""

from __future__ import annotations

from tickwise.roles.control.backfills import Backfill
from tickwise.roles.control.bodies import (
    NOT_BUILT,
    BackfillBody,
    JobBody,
    MissedMode,
    PauseBody,
    PreviewBody,
    ResumeBody,
    RunNowBody,
    RunRetryBody,
    SkipNextBody,
    SnoozeBody,
    TaskBody,
)
from tickwise.roles.control.calendars import Condition, Covers, Range, WindowBody, Written
from tickwise.roles.control.control import Control
from tickwise.roles.control.explanations import Because, Cause, Explanation
from tickwise.roles.control.fires import Moved
from tickwise.roles.control.jobs import Change
from tickwise.roles.control.logs import LogChunk
from tickwise.roles.control.occurrences import Kind, Occurrence, Section, TimeLine
from tickwise.roles.control.planning import instant
from tickwise.roles.control.previews import Fate, Fire, Look, Preview
from tickwise.roles.control.secrets import ensure_keys, secret_digest
from tickwise.roles.control.submits import Submitted, Verdict

__all__ = [
    "NOT_BUILT",
    "Backfill",
    "BackfillBody",
    "Because",
    "Cause",
    "Change",
    "Condition",
    "Control",
    "Covers",
    "Explanation",
    "Fate",
    "Fire",
    "JobBody",
    "Kind",
    "LogChunk",
    "Look",
    "MissedMode",
    "Moved",
    "Occurrence",
    "PauseBody",
    "Preview",
    "PreviewBody",
    "Range",
    "ResumeBody",
    "RunNowBody",
    "RunRetryBody",
    "Section",
    "SkipNextBody",
    "SnoozeBody",
    "Submitted",
    "TaskBody",
    "TimeLine",
    "Verdict",
    "WindowBody",
    "Written",
    "ensure_keys",
    "instant",
    "secret_digest",
]
