"""Keys that encrypt secrets: how they are written, and a command that has one, on its bad days."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.secrets.keys import CommandKey, LocalKey, read_key
from tickwise.adapters.secrets.own import OwnSecrets
from tickwise.adapters.secrets.sealing import KEPT_KEY_SECONDS, EnvelopeSealing
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import Misconfigured, NotOpened, SealingUnavailable, StoreUnavailable
from tickwise.ports.secrets import SecretFault, WantedSecret
from tickwise.ports.store.secrets import NewSecret, SealedSecret, SecretPlace, secret_context
from tickwise.testing.clock import VirtualClock

KEY = bytes(range(32))
CLOCK = SystemClock()


def test_a_key_is_read_in_each_of_its_forms() -> None:
    """Base64 with and without its padding, that of addresses, hexadecimal digits; blanks around it do not count."""
    key = bytes(range(200, 232))
    for text in (
        base64.b64encode(key).decode(), base64.b64encode(key).decode().rstrip("="),
        base64.urlsafe_b64encode(key).decode(), key.hex(), key.hex().upper(), f" {key.hex()}\n",
    ):  # fmt: skip
        assert key == read_key(text, "here")


@pytest.mark.parametrize(
    "text", ["", "abc", "x" * 64, base64.b64encode(bytes(31)).decode(), base64.b64encode(bytes(range(33))).decode()]
)
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    """With the place, and the command that makes one."""
    with pytest.raises(Misconfigured, match="new-key") as refusal:
        read_key(text, "TICKWISE_SECRETS_KEY")
    assert refusal.value.detail.startswith("TICKWISE_SECRETS_KEY: ")
    assert not text or text not in refusal.value.detail


@pytest.mark.parametrize("weak", [bytes(32), b"ab" * 16, b"passwordpasswordpasswordpassword"])
def test_a_key_that_can_be_guessed_is_refused(weak: bytes) -> None:
    """One of a few different bytes is no random one."""
    with pytest.raises(Misconfigured, match="guessed"):
        read_key(weak.hex(), "here")


def command(tmp_path: Path, source: str, seconds: float = 20.0) -> CommandKey:
    """A key behind a program."""
    program = tmp_path / "kms.py"
    program.write_text(f"import sys, time\nout, given = sys.stdout.buffer, sys.stdin.buffer.read()\n{source}\n")
    return CommandKey([sys.executable, str(program)], seconds=seconds)


async def test_a_command_is_asked_once_for_many_values_of_one_secret(tmp_path: Path) -> None:
    """The unwrapped data key is kept for a bounded time; then the command is asked again."""
    log = tmp_path / "asked"
    key = command(
        tmp_path, f"open({str(log)!r}, 'a').write(sys.argv[1] + ' ')\nout.write(bytes(each ^ 7 for each in given))"
    )
    clock = VirtualClock()
    sealer = EnvelopeSealing([key], clock)
    sealed = await sealer.seal(b"x", "a")
    for _ in range(3):
        assert b"x" == await sealer.open(sealed, "a")
    assert ["wrap", "unwrap"] == log.read_text().split()
    await clock.advance(KEPT_KEY_SECONDS + 1)
    assert b"x" == await sealer.open(sealed, "a")
    assert ["wrap", "unwrap", "unwrap"] == log.read_text().split()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("print('access denied: token s3cret', file=sys.stderr); sys.exit(3)", "status 3"),
        ("pass", "0 bytes"),
        ("out.write(bytes(9000))", "9000 bytes"),
        ("time.sleep(60)", "no answer"),
        ("out.write(given)", "as it was"),
        ("out.write(b'prefix' + given + b'\\n')", "as it was"),
    ],
)
async def test_a_command_that_fails_is_told_by_its_failure(tmp_path: Path, source: str, words: str) -> None:
    """Within its time; what it said is in the log alone."""
    key = command(tmp_path, source, seconds=1.0 if "sleep" in source else 20.0)
    with capture_logs() as logs, pytest.raises(SealingUnavailable, match=words) as refusal:
        await EnvelopeSealing([key], CLOCK).seal(b"x", "a")
    assert "s3cret" not in refusal.value.detail
    assert ("exit" in source) == any("access denied" in str(each) for each in logs)


async def test_a_command_that_unwraps_something_else_is_refused(tmp_path: Path) -> None:
    """A newline behind the key is the usual slip."""
    key = command(tmp_path, "out.write(given[::-1] if sys.argv[1] == 'wrap' else given[::-1] + b'\\n')")
    sealer = EnvelopeSealing([key], CLOCK)
    sealed = await sealer.seal(b"x", "a")
    with pytest.raises(SealingUnavailable, match="without a newline"):
        await sealer.open(sealed, "a")


async def test_a_command_that_is_not_there_is_told() -> None:
    """And nothing else breaks."""
    sealer = EnvelopeSealing([CommandKey(["/nowhere/kms"], seconds=1.0), LocalKey(KEY)], CLOCK)
    with pytest.raises(SealingUnavailable, match="cannot be started"):
        await sealer.seal(b"x", "a")
    assert b"x" == await sealer.open(await EnvelopeSealing([LocalKey(KEY)], CLOCK).seal(b"x", "a"), "a")


async def test_without_a_key_nothing_is_sealed() -> None:
    """The refusal says which settings give one, and how to make one."""
    sealer = EnvelopeSealing([], CLOCK)
    assert (None, ()) == (sealer.newest, sealer.known)
    with pytest.raises(SealingUnavailable, match="tickwise secrets new-key"):
        await sealer.seal(b"x", "a")
    with pytest.raises(NotOpened):
        await sealer.open(await EnvelopeSealing([LocalKey(KEY)], CLOCK).seal(b"x", "a"), "a")


# ------------------------------------------------------------------------------------------ the provider


async def stored(store: MemoryStore, sealer: EnvelopeSealing, name: str, *values: bytes) -> None:
    """A secret of the namespace `default`, with these versions."""
    for version, value in enumerate(values, start=1):
        sealed = await sealer.seal_parts(value, secret_context(SecretPlace("default", name), version))
        new = NewSecret(namespace="default", name=name, version=version, sealed=sealed, by="ada")
        await store.secrets.put(new)


async def test_a_start_gets_the_newest_values_of_its_namespace() -> None:
    """Several in one question; what is not there is told with the command that sets it."""
    store, sealer = MemoryStore(CLOCK), EnvelopeSealing([LocalKey(KEY)], CLOCK)
    await stored(store, sealer, "db", b"old", b"new")
    await stored(store, sealer, "api", b"\x00\xff")
    provider = OwnSecrets(store.secrets, sealer)
    wanted = [WantedSecret("default", "db"), WantedSecret("default", "api"), WantedSecret("team", "db")]
    found = await provider.values(wanted)
    assert (b"new", b"\x00\xff") == (found[wanted[0]], found[wanted[1]])
    fault = found[wanted[2]]
    assert isinstance(fault, SecretFault)
    assert (False, True) == (fault.is_passing, "tickwise secrets set db" in fault.detail)
    await provider.close()


async def test_of_a_lost_key_only_its_secrets_are_lost() -> None:
    """They are told by name; the others come, and a new value can be set."""
    store, first = MemoryStore(CLOCK), EnvelopeSealing([LocalKey(KEY)], CLOCK)
    await stored(store, first, "old", b"lost")
    sealer = EnvelopeSealing([LocalKey(bytes(range(40, 72)))], CLOCK)
    await stored(store, sealer, "new", b"there")
    provider = OwnSecrets(store.secrets, sealer)
    wanted = [WantedSecret("default", name) for name in ("old", "new")]
    found = await provider.values(wanted)
    fault = found[wanted[0]]
    assert isinstance(fault, SecretFault)
    assert not fault.is_passing
    assert "'old'" in fault.detail
    assert b"there" == found[wanted[1]]
    sealed = await sealer.seal_parts(b"again", secret_context(SecretPlace("default", "old"), 2))
    await store.secrets.put(NewSecret(namespace="default", name="old", version=2, sealed=sealed, by="ada"))
    assert b"again" == (await provider.values(wanted))[wanted[0]]


async def test_a_row_that_was_moved_in_the_database_gives_no_value() -> None:
    """Neither under another name nor in another namespace nor as another version."""
    store, sealer = MemoryStore(CLOCK), EnvelopeSealing([LocalKey(KEY)], CLOCK)
    await stored(store, sealer, "a", b"of a")
    [found] = await store.secrets.sealed([SecretPlace("default", "a")])

    class Moved:
        async def sealed(self, places: object) -> list[SealedSecret]:
            return [
                SealedSecret(SecretPlace("default", "b"), 1, found.sealed),
                SealedSecret(SecretPlace("team", "a"), 1, found.sealed),
                SealedSecret(SecretPlace("default", "a"), 2, found.sealed),
            ]

    wanted = [WantedSecret("default", "b"), WantedSecret("team", "a"), WantedSecret("default", "a")]
    values = await OwnSecrets(Moved(), sealer).values(wanted)
    assert [SecretFault] * 3 == [type(values[each]) for each in wanted]


async def test_while_the_store_is_away_a_start_can_be_tried_again() -> None:
    """It never raises."""

    class Away:
        async def sealed(self, places: object) -> list[SealedSecret]:
            raise StoreUnavailable("the database is away")

    wanted = WantedSecret("default", "a")
    fault = (await OwnSecrets(Away(), EnvelopeSealing([LocalKey(KEY)], CLOCK)).values([wanted]))[wanted]
    assert isinstance(fault, SecretFault)
    assert fault.is_passing
