"""The report of an import: one entry for each thing in the source that would run, with a verdict and an advice.

    source text ── read_crontab, read_systemd, … ──► Report(entries) ──► jobs: what an import submits
                                                          └──► as_json: what `--dry-run --json` prints

Invariants: nothing is dropped: each line that the other system would run, or refuse, is an entry. An entry that is
`same` has a job and no changes; `changed` has a job and at least one change; `refused` has a reason and no job.
All text of a report can be encoded as UTF-8 and printed, for any bytes of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

MAX_SHOWN_CHARACTERS: Final = 1_000
"""An entry's text is there to be recognised: a line that is longer is cut here, with an ellipsis as its last sign."""


class ImportVerdict(StrEnum):
    """The verdict of an import on one entry."""

    SAME = "same"
    """The job means what the source means."""
    CHANGED = "changed"
    """The job means something else in the ways that `changes` lists, each in a sentence."""
    REFUSED = "refused"
    """There is no job; `reason` says why and what to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportEntry:
    """One thing of the source. `imported` and `refused` make them, so that verdict and contents agree."""

    line: int
    """The line at which it begins in its file, counted from 1."""
    text: str
    """The source's own words, made printable and cut: see `shown`."""
    verdict: ImportVerdict
    job: Mapping[str, Any] | None = None
    """A body for `POST /jobs` in the API's long words; its `key` stays the same when the source is read again."""
    changes: tuple[str, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()
    """Facts that change nothing of when and what runs, such as where the output goes."""
    recipients: tuple[str, ...] = ()
    """The addresses to which the source mails the output: those that may want to hear of failures."""

    def as_json(self) -> dict[str, Any]:
        """`line`, `text`, `verdict`, then `job`, `changes`, `reason` and `notes` as far as the entry has them."""
        found: dict[str, Any] = {"line": self.line, "text": self.text, "verdict": self.verdict.value}
        if self.job is not None:
            found["job"] = dict(self.job)
        if self.changes:
            found["changes"] = list(self.changes)
        if self.reason is not None:
            found["reason"] = self.reason
        if self.notes:
            found["notes"] = list(self.notes)
        return found


@dataclass(frozen=True, slots=True)
class ImportReport:
    """All entries of a source, in its order."""

    entries: tuple[ImportEntry, ...] = ()

    @property
    def jobs(self) -> tuple[Mapping[str, Any], ...]:
        """The bodies of all entries that are not refused: what one import submits, as a whole."""
        return tuple(entry.job for entry in self.entries if entry.job is not None)

    def count(self, verdict: ImportVerdict) -> int:
        """The number of entries with this verdict."""
        return sum(entry.verdict is verdict for entry in self.entries)

    def as_json(self) -> dict[str, Any]:
        """`{"entries": […]}`, each as `ImportEntry.as_json` says."""
        return {"entries": [entry.as_json() for entry in self.entries]}


def imported(
    line: int, text: str, *, job: Mapping[str, Any], changes: Iterable[str] = (), notes: Iterable[str] = ()
) -> ImportEntry:
    """An entry with a job: `same` if nothing changes, else `changed`. A change said twice is kept once."""
    unique = tuple(dict.fromkeys(changes))
    verdict = ImportVerdict.CHANGED if unique else ImportVerdict.SAME
    return ImportEntry(line=line, text=shown(text), verdict=verdict, job=job, changes=unique, notes=tuple(notes))


def refused(line: int, text: str, *, reason: str) -> ImportEntry:
    """An entry without a job. `reason` says why, and what to write or do instead."""
    return ImportEntry(line=line, text=shown(text), verdict=ImportVerdict.REFUSED, reason=reason)


def shown(text: str) -> str:
    """A text for people: what UTF-8 or a terminal cannot show becomes U+FFFD, and it is cut to a length to be read.

    Line breaks and tabs stay.
    """
    cut = text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for character in cut
    )
