"""The jobs of a list in the form that is sent: each is encoded once, and kept until something in its answer changes.

    row, warnings ──► those that the kept bytes were made of? ──yes──► these bytes
                         └─no──► job_view ──► encoded ──► kept

People and programs read the newest pages again and again, and of their jobs nearly all are as they were. To decode a
definition, make its view and encode it took half of what a page takes.

Invariant: the bytes are those of `encode(job_view(row, warnings))`. An answer follows from these two alone, and both
are compared whole, so a run, a pause or another namespace that changes a row changes its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.api.wire import encode, job_view
from tickwise.ports.store import JobRow

KEPT_JOBS: Final = 1_024
"""Twenty usual pages. With rows and answers they take some 4 MB, and at most 8 MB."""
KEPT_CHARACTERS: Final = 2_048
"""Of a definition. The answers of longer ones are made anew."""


class _Encoded(NamedTuple):
    row: JobRow
    warnings: tuple[str, ...]
    content: bytes


class JobPages:
    """The encoded jobs of one process, the least lately read out first."""

    def __init__(self, most: int = KEPT_JOBS) -> None:
        """`most`: the number of jobs that are kept."""
        self._most = most
        self._kept: dict[UUID, _Encoded] = {}

    def content(self, rows: Sequence[JobRow], warnings: Sequence[tuple[str, ...]]) -> bytes:
        """A JSON list of these jobs, each with its warnings."""
        return b"[%b]" % b",".join(map(self._encoded, rows, warnings))

    def _encoded(self, row: JobRow, warnings: tuple[str, ...]) -> bytes:
        kept = self._kept.pop(row.job_id, None)
        if kept is None or kept.row != row or kept.warnings != warnings:
            content = encode(job_view(row, warnings))
            if len(row.definition) > KEPT_CHARACTERS:
                return content
            kept = _Encoded(row, warnings, content)
            while len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
        self._kept[row.job_id] = kept
        return kept.content
