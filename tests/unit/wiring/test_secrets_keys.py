"""The installation's keys for secrets from the settings, and the proof that no value is stored as it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.adapters.store.memory import MemoryStore
from tickwise.config import Settings, load
from tickwise.domain.errors import Misconfigured
from tickwise.ports.identity.factors import FactorKind, NewFactor, seed_context
from tickwise.ports.sealing import COMMAND_KEY_ID, SealedParts
from tickwise.ports.store.secrets import NewSecret, SecretPlace, SecretQuery, secret_context
from tickwise.testing.contracts.store.people.users import new_user
from tickwise.testing.factories import Factory
from tickwise.wiring.secret_keys.secrets_check import check_sealing, secret_findings
from tickwise.wiring.secret_keys.secrets_key import make_key_of_up, make_sealer, new_key

CLOCK = SystemClock()
FIRST, NEXT = bytes(range(32)), bytes(range(50, 82))


def ids(settings: Settings) -> list[bytes]:
    """The ids of the keys, the newest first."""
    return list(make_sealer(settings, CLOCK).known)


def test_the_first_key_of_the_setting_wraps(tmp_path: Path) -> None:
    """Each unwraps; the value of the setting is shown nowhere."""
    settings = load({"TICKWISE_SECRETS_KEY": f"{NEXT.hex()},{FIRST.hex()}", "TICKWISE_DATA_DIR": str(tmp_path)})
    assert [LocalKey(NEXT).key_id, LocalKey(FIRST).key_id] == ids(settings)
    assert NEXT.hex() not in repr(settings) + str(settings.describe())


def test_a_file_has_a_key_a_line(tmp_path: Path) -> None:
    """Which nobody else may read."""
    file = tmp_path / "keys"
    file.write_text(f"# the newest first\n{NEXT.hex()}\n\n{FIRST.hex()}\n")
    file.chmod(0o600)
    settings = Settings(secrets_key_file=file, data_dir=tmp_path)
    assert [LocalKey(NEXT).key_id, LocalKey(FIRST).key_id] == ids(settings)
    file.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        make_sealer(settings, CLOCK)
    file.chmod(0o600)
    file.write_text("# none\n")
    with pytest.raises(Misconfigured, match="new-key"):
        make_sealer(settings, CLOCK)


def test_a_command_wraps_unless_the_keys_give_it_another_place(tmp_path: Path) -> None:
    """So an installation moves to a KMS and away from it by the same two settings."""
    first, next_ = LocalKey(FIRST).key_id, LocalKey(NEXT).key_id
    command: dict[str, Any] = {"secrets_key_command": "/usr/local/bin/kms --region eu", "data_dir": tmp_path}
    assert [COMMAND_KEY_ID] == ids(Settings(**command))
    assert [COMMAND_KEY_ID, first] == ids(Settings(**command, secrets_key=(FIRST.hex(),)))
    away = (NEXT.hex(), "command", FIRST.hex())
    assert [next_, COMMAND_KEY_ID, first] == ids(Settings(**command, secrets_key=away))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"secrets_key": ("abcdefgh",)}, "32 bytes in base64"),
        ({"secrets_key": (FIRST.hex(),), "secrets_key_file": Path("/nowhere")}, "both set"),
        ({"secrets_key_file": Path("/nowhere/keys")}, "cannot be read"),
        ({"secrets_key": ("command",)}, "SECRETS_KEY_COMMAND is not set"),
        ({"secrets_key_command": "kms 'x"}, "quotation"),
    ],
)
def test_a_key_that_cannot_be_read_is_told_at_the_start(tmp_path: Path, fields: Any, words: str) -> None:
    """Before anything is stored under it."""
    with pytest.raises(Misconfigured, match=words):
        make_sealer(Settings(data_dir=tmp_path, **fields), CLOCK)


def test_up_makes_a_key_once(tmp_path: Path) -> None:
    """For its own database, unless the settings name a key; only its user can read it."""
    folder = tmp_path / "data"
    folder.mkdir()
    for settings in (
        Settings(data_dir=folder, database_url="postgresql://db/x"),
        Settings(data_dir=folder, secrets_key=(new_key(),)),
        Settings(data_dir=folder, secrets_key_command="kms"),
    ):
        make_key_of_up(settings)
        assert [] == os.listdir(folder)
    settings = Settings(data_dir=folder)
    assert [] == ids(settings)
    make_key_of_up(settings)
    file = folder / "secrets.key"
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert ["secrets.key"] == os.listdir(folder)
    text = file.read_text()
    made = ids(settings)
    make_key_of_up(settings)
    assert (text, made) == (file.read_text(), ids(settings))


# ------------------------------------------------------------------------------------------ the proof


class Leaky(EnvelopeSealing):
    """Seals, and lets a form of the value stand beside it."""

    def __init__(self, form: Callable[[bytes], bytes]) -> None:
        super().__init__([LocalKey(FIRST)], CLOCK)
        self._form = form

    async def seal_parts(self, plain: bytes, context: str) -> SealedParts:
        sealed = await super().seal_parts(plain, context)
        return SealedParts(sealed.key + self._form(plain), sealed.value)


def _coded(plain: bytes) -> bytes:
    import base64

    return base64.b64encode(b"x" + plain + b"yz")


@pytest.mark.parametrize("form", [bytes, lambda plain: plain.hex().encode(), _coded], ids=["plain", "hex", "base64"])
async def test_a_start_ends_where_a_value_can_be_read(form: Callable[[bytes], bytes]) -> None:
    """In any of the forms that a reader of a dump would look for."""
    with pytest.raises(Misconfigured, match="readable in the database"):
        await check_sealing(MemoryStore(CLOCK), Leaky(form), CLOCK)


async def test_a_start_goes_on_where_none_can_be_read() -> None:
    """And leaves nothing; also without a key, and while a command fails."""
    store = MemoryStore(CLOCK)
    await check_sealing(store, EnvelopeSealing([LocalKey(FIRST)], CLOCK), CLOCK)
    assert [] == await store.secrets.find(SecretQuery(namespace=None))
    with capture_logs() as logs:
        await check_sealing(store, EnvelopeSealing([], CLOCK), CLOCK)
        failing = make_sealer(Settings(secrets_key_command="/nowhere/kms", data_dir=Path("/nowhere")), CLOCK)
        await check_sealing(store, failing, CLOCK)
    assert ["secrets_without_key", "secrets_unproved"] == [each["event"] for each in logs]


async def put(store: MemoryStore, name: str, key: bytes) -> None:
    """A secret under a key."""
    sealed = await EnvelopeSealing([LocalKey(key)], CLOCK).seal_parts(
        b"x", secret_context(SecretPlace("default", name), 1)
    )
    await store.secrets.put(NewSecret(namespace="default", name=name, version=1, sealed=sealed, by="ada"))


async def told(store: MemoryStore, settings: Settings) -> list[tuple[str, str]]:
    """The levels and details of the findings."""
    return [(each.level, each.detail) async for each in secret_findings(settings, store, CLOCK)]


async def test_the_doctor_tells_how_many_secrets_are_under_which_key(tmp_path: Path) -> None:
    """What is lost by name."""
    store = MemoryStore(CLOCK)
    none = Settings(data_dir=tmp_path)
    assert [("ok", True)] == [(level, "none is stored" in text) for level, text in await told(store, none)]
    await put(store, "a", FIRST)
    await put(store, "b", NEXT)
    assert [("warning", True)] == [(level, "2 are stored" in text) for level, text in await told(store, none)]
    both = Settings(data_dir=tmp_path, secrets_key=(NEXT.hex(), FIRST.hex()))
    [proof, earlier] = await told(store, both)
    assert ("ok", True) == (proof[0], f"1 under the newest key ({LocalKey(NEXT).key_id.hex()})" in proof[1])
    assert ("warning", f"1 under {LocalKey(FIRST).key_id.hex()}, an earlier key") == earlier
    [_, lost] = await told(store, Settings(data_dir=tmp_path, secrets_key=(NEXT.hex(),)))
    assert ("error", True) == (lost[0], "default/a" in lost[1])
    [wrong] = await told(store, Settings(data_dir=tmp_path, secrets_key=("abcdefgh",)))
    assert "error" == wrong[0]


async def test_the_doctor_counts_seeds_that_a_change_of_the_key_left_behind(tmp_path: Path) -> None:
    """Those under an earlier key with the command that mends it, those that are lost with what is left to do."""
    store = MemoryStore(CLOCK)
    user = await store.users.add(new_user(Factory(CLOCK.now()), "ada"))
    for number, key in enumerate((FIRST, NEXT)):
        factor_id = UUID(int=number + 2)
        sealed = await EnvelopeSealing([LocalKey(key)], CLOCK).seal(b"SEED", seed_context(factor_id))
        await store.factors.add(
            NewFactor(factor_id=factor_id, user_id=user.user_id, kind=FactorKind.TOTP, name="app", secret=sealed)
        )
        assert await store.factors.confirm(user.user_id, factor_id, number + 1)
    [_, earlier] = await told(store, Settings(data_dir=tmp_path, secrets_key=(NEXT.hex(), FIRST.hex())))
    assert ("warning", "the seeds of 1 second factors are not sealed by the newest key") == earlier
    [_, lost] = await told(store, Settings(data_dir=tmp_path, secrets_key=(NEXT.hex(),)))
    assert ("error", "the seeds of 1 second factors do not open, so their codes do not work") == lost
