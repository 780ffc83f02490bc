"""The content of the audit log in memory: entries, and the chains of their seals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from tickwise.adapters.store.memory.records import Numbers
from tickwise.domain.audit import (
    ENTRIES_OF_SEAL,
    FIRST_HASH,
    AuditEntry,
    AuditSeal,
    CreatedJob,
    entry_digest,
    jobs_created,
    seal_hash,
)
from tickwise.domain.fencing import tokens_from
from tickwise.ports.audit import AuditCheckpoint, AuditRow
from tickwise.ports.clock import Clock

DAY_SECONDS = 86_400


class AuditLog:
    """Entries in the order in which they were written, and what is known of their chains."""

    def __init__(self, clock: Clock, shard: int | None = None) -> None:
        """`shard`: as of `State`. A namespace's entries may be in two shards, so no number is drawn in both."""
        self._clock = clock
        self.numbers = Numbers(*tokens_from(1, shard))
        self.rows: dict[int, AuditRow] = {}
        """By their numbers."""
        self.unsealed: dict[str, list[AuditRow]] = {}
        """Those that are not sealed yet, by namespace."""
        self.seals: dict[tuple[str, int], AuditSeal] = {}
        """By namespace and place in its chain, each chain in its order."""
        self.last_seals: dict[str, AuditSeal] = {}
        """By namespace."""
        self.checkpoints: dict[str, AuditCheckpoint] = {}
        """The newest of each namespace."""

    def write(self, *entries: AuditEntry | None) -> None:
        """Write entries; None is none."""
        for entry in entries:
            if entry is not None:
                row = AuditRow(entry=next(self.numbers), at=self._clock.now(), **entry._asdict())
                self.rows[row.entry] = row
                self.unsealed.setdefault(row.namespace, []).append(row)

    def write_jobs(self, jobs: Sequence[CreatedJob]) -> None:
        """Write the entries of new jobs; a job without a source has none."""
        self.write(*jobs_created(jobs))

    def seal(self, limit: int) -> int:
        """Seal up to `limit` entries of each namespace; how many."""
        return sum(self._seal(namespace, limit) for namespace in sorted(self.unsealed))

    def _seal(self, namespace: str, limit: int) -> int:
        rows = self.unsealed.pop(namespace)
        if rows[limit:]:
            self.unsealed[namespace] = rows[limit:]
        for _, group in groupby(rows[:limit], lambda row: int(row.at // DAY_SECONDS)):
            day = list(group)
            for first in range(0, len(day), ENTRIES_OF_SEAL):
                self._add_seal(namespace, day[first : first + ENTRIES_OF_SEAL])
        return len(rows[:limit])

    def _add_seal(self, namespace: str, rows: Sequence[AuditRow]) -> None:
        seq, previous = self._head(namespace)
        entries = [row.entry for row in rows]
        digests = b"".join(entry_digest(content_of(row)) for row in rows)
        self.last_seals[namespace] = self.seals[namespace, seq + 1] = AuditSeal(
            namespace=namespace,
            seq=seq + 1,
            sealed_at=self._clock.now(),
            since=min(row.at for row in rows),
            until=max(row.at for row in rows),
            entries=entries,
            digests=digests,
            previous=previous,
            hash=seal_hash(previous, namespace, seq + 1, entries, digests),
        )

    def _head(self, namespace: str) -> tuple[int, bytes]:
        last = self.last_seals.get(namespace)
        return self._begin(namespace) if last is None else (last.seq, last.hash)

    def restore(self) -> None:
        """Find out from entries and seals which entries are not sealed, and where the chains end."""
        self.last_seals = {seal.namespace: seal for seal in self.seals.values()}
        sealed = {entry for seal in self.seals.values() for entry in seal.entries}
        self.unsealed = {}
        for row in self.rows.values():
            if row.entry not in sealed:
                self.unsealed.setdefault(row.namespace, []).append(row)

    def retire(self, since: float) -> int:
        """Drop the entries of days before the one of `since`, with the seals that begin their chains; how many entries.
        Entries that are not sealed keep all."""
        low = since // DAY_SECONDS * DAY_SECONDS
        old = [row.entry for row in self.rows.values() if row.at < low]
        if not old or any(row.at < low for rows in self.unsealed.values() for row in rows):
            return 0
        for entry in old:
            del self.rows[entry]
        gone: dict[str, AuditSeal] = {}
        kept: set[str] = set()
        for place, seal in list(self.seals.items()):
            if seal.namespace in kept or seal.until >= low:
                kept.add(seal.namespace)
            else:
                gone[seal.namespace] = self.seals.pop(place)
        for namespace, seal in gone.items():
            if namespace not in kept:
                del self.last_seals[namespace]
            self.checkpoints[namespace] = AuditCheckpoint(namespace, seal.seq, seal.hash, low, self._clock.now())
        return len(old)

    def _begin(self, namespace: str) -> tuple[int, bytes]:
        checkpoint = self.checkpoints.get(namespace)
        return (0, FIRST_HASH) if checkpoint is None else (checkpoint.seq, checkpoint.hash)


def content_of(row: AuditRow) -> bytes:
    """An entry as it is sealed."""
    kind, caller_id, *source = row.source
    fields = [
        row.entry,
        round(row.at * 1_000_000),
        row.namespace,
        row.action,
        kind,
        None if caller_id is None else str(caller_id),
        *source,
        row.target_kind,
        row.target,
        [str(each) for each in row.targets],
        row.before,
        row.after,
        row.detail,
    ]
    return json.dumps(fields).encode()
