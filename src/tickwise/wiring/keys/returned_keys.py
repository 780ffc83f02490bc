"""Keys that came back with a backup: those that the logs of the API say were taken away since.

    api ──log──► key_revoked, key_rotated, bootstrap_key_replaced      kept apart from the database, so it is the anchor
                     └─ tickwise db restored --log FILE ──► those that the restored database takes again ──► revoked

A database that was set back does not know what it forgot: the log is the only witness. A key whose secret was replaced
since the backup has the secret of before again, and its programs have one that nobody knows: it counts as come back.

Invariant: a key that the log does not name is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from tickwise.domain.audit import AuditAction, key_by_program
from tickwise.domain.errors import Misconfigured
from tickwise.ports.identity import Keys

_ENDS: Final = frozenset({"key_revoked", "bootstrap_key_replaced", "key_rotated"})


class LoggedEvent(msgspec.Struct):
    """The fields of a log line that are read here."""

    event: str = ""
    key_id: str = ""
    rotation: int | None = None


class ReturnedKey(NamedTuple):
    """A key that works again, and must not."""

    key_id: str
    name: str
    why: str
    """`revoked` or `rotated` since the backup."""
    revoked: bool
    """It was revoked again just now."""


_decode: Final = msgspec.json.Decoder(LoggedEvent).decode


def logged_ends(files: Iterable[Path]) -> Mapping[UUID, int | None]:
    """The keys that the logs say were taken away: None for a revoked one, else the number of its newest secret. Raises
    `Misconfigured` for a file that cannot be read, or is no log of JSON lines."""
    found: dict[UUID, int | None] = {}
    for file in files:
        known = 0
        try:
            with file.open("rb") as lines:
                for text in lines:
                    try:
                        line = _decode(text)
                    except msgspec.MsgspecError:
                        continue  # a line of another program
                    known += bool(line.event)
                    _note(found, line)
        except OSError as failure:
            raise Misconfigured(f"the log {file} cannot be read: {failure.strerror}") from failure
        if not known:
            raise Misconfigured(f"no line of {file} is an event in JSON: give the log of an API with log_format = json")
    return found


def _note(found: dict[UUID, int | None], line: LoggedEvent) -> None:
    if line.event not in _ENDS:
        return
    try:
        key_id = UUID(line.key_id)
    except ValueError:
        return
    if line.event != "key_rotated":
        found[key_id] = None
        return
    known = found.get(key_id, 0)
    if known is not None:
        found[key_id] = max(known, line.rotation or 0)


async def returned_keys(keys: Keys, ends: Mapping[UUID, int | None], *, revoke: bool) -> Sequence[ReturnedKey]:
    """Those that the store takes again. `revoke`: revoke them, too. Raises `StoreUnavailable`."""
    returned = []
    for key_id, secret in ends.items():
        found = await keys.of_id(key_id)
        if found is None or (secret is not None and found.caller.secret >= secret):
            continue
        why = "revoked" if secret is None else "rotated"
        name = found.caller.name
        if revoke:
            reason = f"it came back with a backup, and had been {why} since"
            audit = key_by_program(AuditAction.KEY_REVOKED, key_id, name, found.caller.home, reason)
            await keys.revoke(None, key_id, audit=[audit])
        returned.append(ReturnedKey(str(key_id), name, why, revoke))
    return returned
