"""The artefacts of runs: files that a task left in its work folder, kept as blobs.

    artefacts/<day>/<run>/<attempt>/000000, 000001, …   the contents
    artefacts/<day>/<run>/<attempt>/index               their names, sizes and digests; written last

They lie by the day of their run, so that retention drops whole days. Without an index nothing of an attempt is listed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from tickwise.domain.model import id_instant
from tickwise.ports.blobs import log_day

ARTEFACTS: Final = "artefacts/"
INDEX: Final = "index"


class Artefact(NamedTuple):
    """One kept file."""

    name: str
    """Its path in the work folder, with `/` between folders."""
    size_bytes: int
    sha256: str


class ArtefactIndex(NamedTuple):
    """The files that an attempt left in its work folder."""

    artefacts: Sequence[Artefact] = ()
    left: Sequence[str] = ()
    """Some of the files that were not kept, each with the reason, for people."""
    left_count: int = 0
    """The number of all files that were not kept."""


def artefacts_folder(run_id: UUID) -> str:
    """The folder of the artefacts of all attempts of a run."""
    return f"{ARTEFACTS}{log_day(id_instant(run_id))}/{run_id}/"


def artefact_key(run_id: UUID, attempt: int, number: int) -> str:
    """The key of the content of artefact `number`, from 0."""
    return f"{artefacts_folder(run_id)}{attempt}/{number:06d}"


def index_key(run_id: UUID, attempt: int) -> str:
    """The key of the list of an attempt's artefacts."""
    return f"{artefacts_folder(run_id)}{attempt}/{INDEX}"


def index_content(index: ArtefactIndex) -> bytes:
    """The list as it is stored, in the order of their numbers."""
    artefacts = [artefact._asdict() for artefact in index.artefacts]
    return json.dumps({"artefacts": artefacts, "left": list(index.left), "left_count": index.left_count}).encode()


def read_index(content: bytes) -> ArtefactIndex:
    """The list of an attempt's artefacts. Earlier releases wrote the artefacts alone, as an array."""
    read: Any = json.loads(content)
    said: dict[str, Any] = {"artefacts": read} if isinstance(read, list) else read
    artefacts = [Artefact(each["name"], each["size_bytes"], each["sha256"]) for each in said["artefacts"]]
    return ArtefactIndex(artefacts, said.get("left", ()), said.get("left_count", 0))
