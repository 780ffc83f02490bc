"""JSON Merge Patch (RFC 7396) of a job: an object changes the members that it has, and null takes one away.

Sent as plain JSON, a field of a job is replaced as a whole; sent as `application/merge-patch+json`, an object in it is
merged with the one that the job has.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tickwise.api.reading import decode
from tickwise.api.spelling import respelled
from tickwise.api.wire import task_shown
from tickwise.control.bodies import JobBody
from tickwise.documents.definition import decode_definition
from tickwise.ports.store import JobRow

MERGE_PATCH: Final = b"application/merge-patch+json"

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode: Final = msgspec.json.Encoder().encode
_NULL: Final = b"null"


def patched(row: JobRow, patch: bytes) -> bytes:
    """The body of a change that does to the job what the patch says. Raises `Malformed`, `Invalid`."""
    decode(_members, patch)
    other = respelled(JobBody, patch)
    sent = _members.decode(patch if other is None else other.body)
    before = _before(row)
    return _encode({name: merged(before.get(name), value) for name, value in sent.items()})


def merged(before: Any, patch: msgspec.Raw) -> Any:
    """A value after its patch. A null that stands for a whole field is kept: a change knows it as the default."""
    if not _is_object(patch):
        return patch
    found: dict[str, Any] = {}
    if before is not None and _is_object(before):
        found.update(_members.decode(before))
    for name, value in _members.decode(patch).items():
        if bytes(value) == _NULL:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def _is_object(raw: msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:64]).lstrip()[:1] == b"{"


def _before(row: JobRow) -> dict[str, msgspec.Raw]:
    """The objects that the job has, by the name of their field. Its task is as it is shown, with its secrets masked:
    who sends it elsewhere by a patch must know them too."""
    said = decode_definition(row.definition)
    objects = {
        "labels": row.labels, "dst": said.dst, "misfire": said.misfire, "limits": said.limits, "retry": said.retry,
        "concurrency": said.concurrency, "rate": said.rate, "task": task_shown(said.task), "payload": said.payload,
        "params": said.payload,
    }  # fmt: skip
    return {name: msgspec.Raw(_encode(value)) for name, value in objects.items() if value is not None}
