"""Failures grouped by their cause: the fingerprint of a failure, and the status of a group.

    reason, error text, task ──► fingerprint ──► group: how often, since when, of which jobs
                                                   OPEN ──resolve──► RESOLVED ──fails again───────────► OPEN
                                                        ──ignore───► IGNORED ──its time or its count──► OPEN

Two failures have one cause if they have one reason, one kind (exit status, signal, exception), one task, and the same
message once all that differs from run to run is taken out of it: numbers, ids, times, paths, hexadecimal digits.

Invariants. A fingerprint follows from its arguments alone, takes time proportional to the length of the text, and never
raises. The status of a group follows from its counts and from the decision about it, so nothing has to reopen it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.excerpts import cause_line

MAX_GROUPS: Final = 10_000
"""Groups of one namespace. Beyond, the group that was seen least recently goes: the resolved ones first."""
MAX_GROUPS_OF_JOB: Final = 100
"""Groups that one job may be in before its further causes are one group more, so that no job has those of a whole
namespace. Two schedulers that count at once may go beyond it by what they count."""
FURTHER_ERRORS: Final = "further errors of this job, which has too many causes to tell apart"
"""The message of that group."""
MAX_JOBS: Final = 1_000
"""Jobs of one group that are named. One-time jobs may be millions."""
MAX_MESSAGE: Final = 300
"""Characters of the message of a group."""
MAX_SAMPLE: Final = 2_000
"""Characters of the error that is kept as a sample."""
READ_CHARACTERS: Final = 4_096
"""Of an error text. The executor bounds it too; a program of another release may bound it otherwise."""
HOURS_SECONDS: Final = 7 * 86_400.0
"""Counts by the hour are kept for so long."""

_LINE_CHARACTERS: Final = 1_000
_PROCESS: Final = re.compile(r"(exit status \d+|ended by signal [^\s:]+|status \d{3})(?::\s*|$)")
_EXCEPTION: Final = re.compile(r"([A-Za-z_][\w.]{0,199})(?:: |$)")
_CHANGING: Final = re.compile(
    r"""(?P<url>https?://[^\s"'<>]+)
    |(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)
    |(?P<time>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?
             |\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?\b)
    |(?P<path>(?<![\w.<])(?:[a-z]:\\|~?/|\.\.?/)[^\s"'<>:;,()\[\]{}]+)
    |(?P<number>(?<!\w)[-+]?\d+(?:[.,]\d+)*(?!\w))
    |(?P<word>\w+)""",
    re.IGNORECASE | re.VERBOSE,
)
_DIGITS: Final = re.compile(r"\d+")
_HEX: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}", re.IGNORECASE)
_SEVERAL: Final = re.compile(r"<n>(?:[,;] ?<n>)+")
_ID_CHARACTERS: Final = 12
_ID_DIGITS: Final = 3


class ErrorStatus(StrEnum):
    """The status of a group."""

    OPEN = "open"
    RESOLVED = "resolved"
    IGNORED = "ignored"


class ErrorDecision(StrEnum):
    """A person's decision about a group. Stored: never renamed."""

    RESOLVE = "resolve"
    IGNORE = "ignore"


class Fingerprint(NamedTuple):
    """The cause of a failure, as far as its text tells."""

    group_id: UUID
    """Computed from all else and from the namespace."""
    reason: str
    kind: str
    """Exit status, signal, status of HTTP or exception; empty: the text names none."""
    message: str
    """With `<n>`, `<id>`, `<time>`, `<path>`, `<hex>` in place of what changes."""


class ErrorState(NamedTuple):
    """The counts and the decision that give a group its status."""

    failures: int
    last_seen: float
    decision: ErrorDecision | None
    decided_at: float | None
    ignored_until: float | None
    ignored_count: int | None
    """The number of failures at which it is open again."""

    def status(self, now: float) -> ErrorStatus:
        """The status at this time. A failure from before the decision does not reopen a group, although it may be
        counted after it."""
        if self.decision is ErrorDecision.RESOLVE:
            return ErrorStatus.OPEN if self.last_seen > (self.decided_at or 0.0) else ErrorStatus.RESOLVED
        if self.decision is ErrorDecision.IGNORE:
            is_over = self.ignored_until is not None and now >= self.ignored_until
            is_reached = self.ignored_count is not None and self.failures >= self.ignored_count
            return ErrorStatus.OPEN if is_over or is_reached else ErrorStatus.IGNORED
        return ErrorStatus.OPEN


def fingerprint(namespace: str, *, reason: str | None, error: str | None, task: str) -> Fingerprint:
    """The cause of a failure. `task` names what ran, so that an exit status of one script is not that of another."""
    kind, message = _kind_and_message(cause_line((error or "")[:READ_CHARACTERS])[:_LINE_CHARACTERS])
    pattern = masked(message)[:MAX_MESSAGE]
    return Fingerprint(_named(namespace, reason or "", kind, pattern, task), reason or "", kind, pattern)


def further_errors_id(namespace: str, job_id: UUID) -> UUID:
    """The group of the causes of a job beyond `MAX_GROUPS_OF_JOB`."""
    return _named(namespace, FURTHER_ERRORS, str(job_id))


def _named(*parts: str) -> UUID:
    """An id computed from these texts."""
    encoded = [part.encode(errors="replace") for part in parts]
    named = b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
    return UUID(bytes=sha256(named).digest()[:16], version=5)


def masked(message: str) -> str:
    """The message without what differs from run to run, and with single spaces."""
    return _SEVERAL.sub("<n>", _CHANGING.sub(_mask, " ".join(message.split())))


def _kind_and_message(line: str) -> tuple[str, str]:
    """`exit status 3 ValueError`, and what it says."""
    process = _PROCESS.match(line)
    rest = line[process.end() :] if process else line
    exception = _EXCEPTION.match(rest)
    # A word before a colon is an exception if it looks like a class: `connection: refused` names none.
    if exception is None or not exception[1].rpartition(".")[2][:1].isupper():
        return (process[1] if process else ""), rest
    kind = f"{process[1]} {exception[1]}" if process else exception[1]
    return kind, rest[exception.end() :]


def _mask(found: re.Match[str]) -> str:
    group, text = found.lastgroup, found[0]
    if group == "url":
        scheme, _, rest = text.partition("://")
        host, slash, _ = rest.partition("/")
        return f"{scheme}://{_DIGITS.sub('<n>', host.partition('?')[0])}{'/<path>' if slash else ''}"
    if group in ("time", "path"):
        return f"<{group}>"
    if group == "uuid":
        return "<id>"
    if group == "number":
        return "<n>"
    digits = sum(map(str.isdigit, text))
    if not digits:
        return text
    if digits < len(text) and _HEX.fullmatch(text):
        return "<hex>"
    if digits < len(text) and len(text) >= _ID_CHARACTERS and digits >= _ID_DIGITS:
        return "<id>"
    return _DIGITS.sub("<n>", text)
