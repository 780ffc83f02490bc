"""Reading the artefacts of a run: their list, and the content of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import quote
from uuid import UUID

from tickwise.control.runs.downloads import Download
from tickwise.documents.artefacts import Artefact, ArtefactIndex, artefact_key, index_key, read_index
from tickwise.domain.errors import NotFound
from tickwise.ports.blobs import Blobs, SignedDownloads


class RunArtefacts(NamedTuple):
    """The artefacts of one attempt."""

    attempt: int
    """0: the run has not been tried yet."""
    artefacts: Sequence[Artefact]
    left: Sequence[str] = ()
    """Some of the files that were not kept, each with the reason, for people."""
    left_count: int = 0
    """The number of all files that were not kept."""


def attachment(name: str) -> str:
    """The header that has a browser save a file and not show it (RFC 6266)."""
    last = name.rpartition("/")[2]
    plain = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in last)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(last, safe='')}"


async def artefacts_of(blobs: Blobs, run: UUID, attempt: int) -> Sequence[Artefact]:
    """The artefacts of an attempt, in the order of their names; none if it left none, or retention took them."""
    return (await index_of(blobs, run, attempt)).artefacts


async def index_of(blobs: Blobs, run: UUID, attempt: int) -> ArtefactIndex:
    """The artefacts of an attempt, and some of the files that were not kept; nothing if retention took it."""
    try:
        return read_index(await blobs.get(index_key(run, attempt)))
    except NotFound:
        return ArtefactIndex()


async def artefact_download(
    blobs: Blobs, run: UUID, attempt: int, name: str, sign: SignedDownloads | None = None
) -> Download | str:
    """One of them, of which nothing is read yet; with `sign`, its signed address in the store. Raises `NotFound`."""
    for number, artefact in enumerate(await artefacts_of(blobs, run, attempt)):
        if artefact.name == name:
            key = artefact_key(run, attempt, number)
            if sign is not None:
                return await sign(key)
            return Download(size=artefact.size_bytes, identity=artefact.sha256, read=partial(blobs.get_range, key))
    raise NotFound(f"attempt {attempt} of the run has no artefact {name[:200]!r}")
