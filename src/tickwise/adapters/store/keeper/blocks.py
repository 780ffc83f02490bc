"""The form of blocks: ended runs that are written once, then named by each checkpoint instead of written again.

    block       [VERSION, schema, runs]                         schema: the part that an ended run needs
    run         [id, job, namespace, FAILED, due, end, image]   nil: a place whose run went before the block was written
    part        ["ended.blocks", [[epoch, number, FAILED, places, gone], …]]      of a checkpoint, before its rows
    gone        a bit for each place, from the lowest on; shorter where no higher one is set

A checkpoint that names blocks has the runs of all places that are not gone, beside its rows of `ended`. Runs that
FAILED are in blocks of their own, since they are kept for longer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from tickwise.adapters.store.keeper.images import ROWS_OF_PART, Reader, schema_of, value_image
from tickwise.adapters.store.keeper.log import BlockName, EffectLog
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.domain.errors import Misconfigured

BLOCK_VERSION: Final = 1
NAMES_OF_PART: Final = 2_000
ENDED: Final = "ended"
PART: Final = "ended.blocks"
BLOCK_SCHEMA: Final = schema_of(EndedRun)


class BlockRun(NamedTuple):
    """An ended run in a block, with what indexes need of it."""

    run: bytes
    job: bytes
    namespace: str
    failed: bool
    due: float
    """The time at which it was due, in epoch seconds."""
    end: float
    """The time at which it ended, in epoch seconds."""
    image: bytes


class NamedBlock(NamedTuple):
    """A block as a checkpoint names it."""

    epoch: int
    number: int
    failed: bool
    """True if its runs FAILED."""
    places: int
    """The number of its places."""
    gone: bytes = b""
    """Those whose runs do not count any more: see the module."""

    @property
    def name(self) -> BlockName:
        """The name by which the log has it."""
        return BlockName(self.epoch, self.number)

    def is_gone(self, place: int) -> bool:
        """Check whether the run at this place does not count any more."""
        return place >> 3 < len(self.gone) and bool(self.gone[place >> 3] & 1 << (place & 7))


class BlockBody(msgspec.Struct, array_like=True):
    """A block, as it is stored."""

    version: int
    schema: dict[str, list[str]]
    runs: list[BlockRun | None]


_bodies: Final = msgspec.msgpack.Decoder(BlockBody)
_names: Final = msgspec.msgpack.Decoder(tuple[str, list[NamedBlock]])
_ended: Final = msgspec.msgpack.Decoder(EndedRun)
_begin: Final = b"\x92" + msgspec.msgpack.encode(PART)


def block_body(runs: Sequence[BlockRun | None]) -> bytes:
    """The bytes of a block."""
    return value_image((BLOCK_VERSION, BLOCK_SCHEMA, runs))


def read_block(named: NamedBlock, body: bytes) -> list[BlockRun | None]:
    """The runs of a block by their places, with images of the present schema; None where there is none that counts.
    Raises `Misconfigured` if it is not the block that was named."""
    try:
        found = _bodies.decode(body)
    except msgspec.DecodeError as failure:
        raise Misconfigured(f"the log is damaged: {named.name} cannot be read: {failure}") from None
    if found.version != BLOCK_VERSION:
        raise Misconfigured(
            f"{named.name} of the log has another layout ({found.version}, here {BLOCK_VERSION}): use a later release"
        )
    if len(found.runs) != named.places:
        raise Misconfigured(f"the log is damaged: {named.name} has {len(found.runs)} places, and not {named.places}")
    runs = [None if named.is_gone(place) else run for place, run in enumerate(found.runs)]
    return runs if found.schema == BLOCK_SCHEMA else _translated(found.schema, runs)


def _translated(schema: dict[str, list[str]], runs: Sequence[BlockRun | None]) -> list[BlockRun | None]:
    """Runs that another release wrote."""
    reader = Reader()
    reader.use(schema)
    table = reader.table(ENDED)
    assert table is not None
    return [None if run is None else run._replace(image=value_image(table.value(run.image))) for run in runs]


def ended_of(runs: Sequence[BlockRun | None]) -> Iterator[tuple[UUID, EndedRun]]:
    """The ended runs of a block, by their ids."""
    return ((UUID(bytes=run.run), _ended.decode(run.image)) for run in runs if run is not None)


def parts_of_names(blocks: Iterator[NamedBlock]) -> Iterator[bytes]:
    """The parts of a checkpoint that name blocks."""
    while some := list(islice(blocks, NAMES_OF_PART)):
        yield value_image((PART, some))


def names_in(part: bytes) -> Sequence[NamedBlock]:
    """The blocks that a part of a checkpoint names; none in a part of another kind."""
    if not part.startswith(_begin):
        return ()
    try:
        return _names.decode(part)[1]
    except msgspec.DecodeError as failure:
        raise Misconfigured(f"the log is damaged: the names of blocks cannot be read: {failure}") from None


async def pages_of_blocks(log: EffectLog, names: Sequence[NamedBlock]) -> AsyncIterator[dict[UUID, EndedRun]]:
    """The ended runs of blocks, some at a time, for who keeps no blocks."""
    for named in names:
        runs = read_block(named, await log.block(named.name))
        for begin in range(0, len(runs), ROWS_OF_PART):
            yield dict(ended_of(runs[begin : begin + ROWS_OF_PART]))
