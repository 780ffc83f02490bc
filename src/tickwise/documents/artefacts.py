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
MAX_ARTEFACTS: Final = 100
"""Of one attempt."""
MAX_ARTEFACT_BYTES: Final = 16 << 20
MAX_ATTEMPT_BYTES: Final = 64 << 20
"""Of all artefacts of one attempt."""
MAX_TOTAL_BYTES: Final = 10 << 30
"""Of all artefacts that are stored: the oldest go first."""


class Artefact(NamedTuple):
    """One kept file."""

    name: str
    """Its path in the work folder, with `/` between folders."""
    size_bytes: int
    sha256: str


def artefacts_folder(run_id: UUID) -> str:
    """The folder of the artefacts of all attempts of a run."""
    return f"{ARTEFACTS}{log_day(id_instant(run_id))}/{run_id}/"


def artefact_key(run_id: UUID, attempt: int, number: int) -> str:
    """The key of the content of artefact `number`, from 0."""
    return f"{artefacts_folder(run_id)}{attempt}/{number:06d}"


def index_key(run_id: UUID, attempt: int) -> str:
    """The key of the list of an attempt's artefacts."""
    return f"{artefacts_folder(run_id)}{attempt}/{INDEX}"


def index_content(artefacts: Sequence[Artefact]) -> bytes:
    """The list as it is stored, in the order of their numbers."""
    return json.dumps([artefact._asdict() for artefact in artefacts]).encode()


def read_index(content: bytes) -> Sequence[Artefact]:
    """The list of an attempt's artefacts."""
    said: list[dict[str, Any]] = json.loads(content)
    return [Artefact(each["name"], each["size_bytes"], each["sha256"]) for each in said]
