"""The audit log outside the database: the file of anchors, and `tickwise audit verify`.

An anchor is a line of JSON with namespace, seq and hash. `verify` reads the file that schedulers append to, and also a
log with the lines `audit_anchored`: both have these fields.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tickwise.adapters.clock import SystemClock
from tickwise.control.audit.verification import Anchor, AuditReport, verify
from tickwise.domain.errors import Misconfigured
from tickwise.ports.audit import AuditHead
from tickwise.wiring.storage.databases import store_of
from tickwise.wiring.storage.file_store import is_in_process


class AnchorFile:
    """A file that heads are appended to. It is made for its owner alone, and never shortened."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, heads: Sequence[AuditHead]) -> None:
        """Append them; they are on the disk when this returns. Raises `OSError`."""
        lines = [
            json.dumps(
                {"namespace": head.namespace, "seq": head.seq, "hash": head.hash.hex(), "sealed_at": head.sealed_at}
            )
            for head in heads
        ]
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, ("\n".join(lines) + "\n").encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_anchors(path: Path) -> Iterator[Anchor]:
    """The anchors of a file; lines of a log about other things are passed over. Raises `Misconfigured`."""
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                anchor = _anchor(line)
                if anchor is not None:
                    yield anchor
    except (OSError, UnicodeDecodeError) as failure:
        raise Misconfigured(f"the anchors {path} cannot be read: {failure}; name another file") from failure


def _anchor(line: str) -> Anchor | None:
    if '"hash"' not in line:
        return None
    try:
        said = json.loads(line)
        sealed_at = said.get("sealed_at")
        at = None if sealed_at is None else float(sealed_at)
        return Anchor(said["namespace"], int(said["seq"]), bytes.fromhex(said["hash"]), at)
    except (ValueError, KeyError, TypeError):
        return None  # a line that was cut off by a crash, or of another program


def verify_database(
    database_url: str | None, anchors: Sequence[Path] = (), *, kept_seconds: float | None = None
) -> AuditReport:
    """Check the audit log of a database. Raises `Misconfigured`, `StoreUnavailable`."""
    if database_url is None or is_in_process(database_url):
        raise Misconfigured(
            "there is no database to read: name one with --database or TICKWISE_DATABASE_URL, or start `tickwise up`"
        )
    return asyncio.run(_verify_database(database_url, anchors, kept_seconds))


async def _verify_database(database_url: str, anchors: Sequence[Path], kept_seconds: float | None) -> AuditReport:
    store = store_of(database_url, SystemClock())
    await store.open()
    try:
        noted = [anchor for path in anchors for anchor in read_anchors(path)]
        return await verify(store.audit, noted, kept_seconds=kept_seconds)
    finally:
        await store.close()
