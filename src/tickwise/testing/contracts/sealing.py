"""Sealing: what was sealed comes back in its own context alone, and no byte of it can be changed."""

from __future__ import annotations

import asyncio

import pytest

from tickwise.domain.errors import NotOpened
from tickwise.ports.sealing import EnvelopeSealer, SealedParts, key_id_of
from tickwise.testing.contracts.base import Contract

PLAIN = b"correct horse \x00\xff\n battery staple"


class SealingContract(Contract):
    """The promises of `EnvelopeSealer`. The adapter's class provides three fixtures: `sealer`; `rotated`, which has a
    newer key before those of `sealer`; and `stranger`, which has another key alone."""

    async def test_what_was_sealed_comes_back(self, sealer: EnvelopeSealer, rotated: EnvelopeSealer) -> None:
        """An empty value, one byte, a megabyte; also by a process with a newer key."""
        for plain in (b"", b"x", PLAIN, bytes(range(256)) * 4_096):
            sealed = await sealer.seal(plain, "a/b/1")
            assert plain == await sealer.open(sealed, "a/b/1")
            assert plain == await rotated.open(sealed, "a/b/1")
            parts = await sealer.seal_parts(plain, "a/b/1")
            assert plain == await rotated.open_parts(parts, "a/b/1")
            assert plain == await rotated.open(parts.key + parts.value, "a/b/1")

    async def test_nothing_of_the_value_can_be_seen(self, sealer: EnvelopeSealer) -> None:
        """The same value is sealed to other bytes each time, and is in none."""
        found = [await sealer.seal(PLAIN, "a") for _ in range(3)]
        assert len(set(found)) == 3
        assert all(PLAIN not in each and PLAIN[:8] not in each for each in found)

    async def test_a_value_opens_in_its_own_context_alone(self, sealer: EnvelopeSealer) -> None:
        """A row that was copied to another name, namespace or version opens nowhere."""
        sealed = await sealer.seal(PLAIN, "secret/default/db/3")
        for other in ("secret/default/db/2", "secret/team/db/3", "secret/default/dc/3", "", "secret/default/db/3 "):
            with pytest.raises(NotOpened):
                await sealer.open(sealed, other)

    async def test_each_byte_counts(self, sealer: EnvelopeSealer) -> None:
        """One that was changed, left out or added: refused, and never another value."""
        sealed = await sealer.seal(b"abc", "a")
        changed = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
        for wrong in (*changed, *(sealed[:at] for at in range(len(sealed))), sealed + b"\0"):
            with pytest.raises(NotOpened):
                await sealer.open(wrong, "a")

    async def test_a_lost_key_is_told_by_its_name(self, sealer: EnvelopeSealer, stranger: EnvelopeSealer) -> None:
        """Without a part of the value, and of no other use."""
        sealed = await sealer.seal(PLAIN, "a")
        with pytest.raises(NotOpened, match=key_id_of(sealed).hex()) as refusal:
            await stranger.open(sealed, "a")
        assert "horse" not in refusal.value.detail
        assert await stranger.open(await stranger.seal(PLAIN, "a"), "a") == PLAIN

    async def test_a_key_is_wrapped_anew(
        self, sealer: EnvelopeSealer, rotated: EnvelopeSealer, stranger: EnvelopeSealer
    ) -> None:
        """The value stays as it is; afterwards the earlier key is of no use."""
        assert (sealer.newest, rotated.known[1:]) == (sealer.known[0], tuple(sealer.known))
        parts = await sealer.seal_parts(PLAIN, "a")
        assert sealer.newest == key_id_of(parts.key)
        key = await rotated.rewrap(parts.key)
        assert rotated.newest == key_id_of(key) != sealer.newest
        assert PLAIN == await rotated.open_parts(SealedParts(key, parts.value), "a")
        with pytest.raises(NotOpened):
            await sealer.open_parts(SealedParts(key, parts.value), "a")
        with pytest.raises(NotOpened):
            await stranger.rewrap(parts.key)

    async def test_many_are_sealed_and_opened_at_once(self, sealer: EnvelopeSealer) -> None:
        """Each gives its own."""
        plains = [f"{number}".encode() for number in range(20)]
        sealed = await asyncio.gather(*(sealer.seal(plain, f"{at}") for at, plain in enumerate(plains)))
        assert plains == await asyncio.gather(*(sealer.open(each, f"{at}") for at, each in enumerate(sealed)))
