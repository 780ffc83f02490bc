"""Artefacts as an executor stores them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from uuid import UUID

from tickwise.documents.artefacts import Artefact, ArtefactIndex, artefact_key, index_content, index_key
from tickwise.ports.blobs import Blobs


async def keep_artefacts(
    blobs: Blobs, run: UUID, contents: Mapping[str, bytes], attempt: int = 1, *, left: Sequence[str] = (), more: int = 0
) -> None:
    """Store these contents, by name, as the artefacts of an attempt. `left`: files that were not kept, and `more`."""
    for number, content in enumerate(contents.values()):
        await blobs.put(artefact_key(run, attempt, number), content)
    said = [Artefact(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in contents.items()]
    await blobs.put(index_key(run, attempt), index_content(ArtefactIndex(said, left, len(left) + more)))
