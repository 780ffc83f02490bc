"""Large values in pieces: a node takes no mutation above half a segment of its commit log (16 MiB as shipped)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tickwise.adapters.store.cassandra.link import CassandraLink

PIECE_BYTES: Final = 512 << 10


def cut(body: bytes) -> list[bytes]:
    """The pieces of a value; of an empty one a single empty piece."""
    return [body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES)] or [b""]


def joined(rows: Sequence[tuple[int, bytes]]) -> bytes | None:
    """The value of rows with the number of all pieces and one of them each, in order. None: a piece is missing."""
    if not rows or len(rows) != rows[0][0]:
        return None
    return b"".join(body for _, body in rows)


async def read_value(link: CassandraLink, name: str, *key: Any) -> bytes | None:
    """The value whose pieces that statement reads, page by page: rows as `joined` takes them. None: one is missing."""
    rows: list[tuple[int, bytes]] = []
    after: bytes | None = None
    while True:
        found, after = await link.page(name, *key, after=after)
        rows += [(pieces, body) for pieces, body in found]
        if after is None:
            return joined(rows)


def grouped(rows: Sequence[tuple[int, int, int, int, bytes]]) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Of each position the pieces of its highest epoch. The rows have position, epoch, piece, number of pieces and
    body, ordered by position, then by epoch from the highest on, then by piece."""
    at, epoch, found = 0, 0, list[tuple[int, bytes]]()
    for position, of_epoch, _, pieces, body in rows:
        if position != at:
            if found:
                yield at, found
            at, epoch, found = position, of_epoch, []
        if of_epoch == epoch:
            found.append((pieces, body))
    if found:
        yield at, found
