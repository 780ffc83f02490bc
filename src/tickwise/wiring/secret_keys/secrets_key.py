"""The installation's keys for secrets: from a setting, a file or a command; `up` makes one for its own database.

    secrets_key, secrets_key_file ──► the first wraps, each unwraps
    secrets_key_command           ──► wraps, unless the keys name it: `command`
    `up` with its own database    ──► secrets.key in the data folder, made at the first start
    none of these                 ──► nothing can be set or read; all else works

Invariant: no key is in the database, in a log or in an error.
"""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tickwise.config import SETTINGS, Settings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.wiring.private_files import read_private

if TYPE_CHECKING:
    from tickwise.adapters.secrets.keys import WrappingKey
    from tickwise.adapters.secrets.sealing import EnvelopeSealing

SECRETS_KEY: Final = "secrets.key"
"""The file that `up` makes in the data folder."""
BY_COMMAND: Final = "command"
"""Stands for the command among the keys."""


def make_sealer(settings: Settings, clock: Clock) -> EnvelopeSealing:
    """The sealer of this process. Raises `Misconfigured` for keys that cannot be read."""
    from tickwise.adapters.secrets.sealing import EnvelopeSealing

    return EnvelopeSealing(_keys(settings), clock)


def make_key_of_up(settings: Settings) -> None:
    """Make the key of an `up` with its own database, unless there is one or the settings name one. It is on the disk
    before a secret is stored."""
    file = settings.data_dir / SECRETS_KEY
    is_given = settings.database_url is not None and not settings.database_url.startswith("file:")
    if is_given or _is_set(settings) or file.exists():
        return
    # The store may be elsewhere (`file:///folder`): then nothing has made the data folder yet.
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(new_key() + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)
    descriptor = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_key() -> str:
    """A new key as the settings take it: 32 random bytes in base64."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return base64.b64encode(AESGCM.generate_key(256)).decode()


def _is_set(settings: Settings) -> bool:
    return bool(settings.secrets_key or settings.secrets_key_file or settings.secrets_key_command)


def _keys(settings: Settings) -> Sequence[WrappingKey]:
    """The keys, the one that wraps first. Raises `Misconfigured`."""
    from tickwise.adapters.secrets.keys import CommandKey, LocalKey, read_key

    texts, place = _texts(settings)
    command = None
    if settings.secrets_key_command is not None:
        try:
            words = shlex.split(settings.secrets_key_command)
        except ValueError as wrong:
            raise Misconfigured(f"secrets_key_command cannot be read: {wrong}") from wrong
        command = CommandKey(words, seconds=settings.secrets_key_command_seconds)
    found: list[WrappingKey] = []
    for text in texts:
        if text != BY_COMMAND:
            found.append(LocalKey(read_key(text, place)))
        elif command is None:
            raise Misconfigured(f"{place} names the command, and TICKWISE_SECRETS_KEY_COMMAND is not set")
        else:
            found.append(command)
    if command is not None and BY_COMMAND not in texts:
        found.insert(0, command)
    return found


def _texts(settings: Settings) -> tuple[Sequence[str], str]:
    """The keys as they are written, and the place where they are. Raises `Misconfigured`."""
    if settings.secrets_key:
        if settings.secrets_key_file is not None:
            raise Misconfigured("secrets_key and secrets_key_file are both set: write all keys into one of them")
        return settings.secrets_key, SETTINGS["secrets_key"].variable
    file = settings.secrets_key_file
    if file is None:
        # Also beside a command: what was set before the command was is still read.
        file = settings.data_dir / SECRETS_KEY
        if not file.exists():
            return (), ""
    return _lines(file), str(file)


def _lines(file: Path) -> Sequence[str]:
    """The keys of a file. Raises `Misconfigured`."""
    text = read_private(file, "the file of keys for secrets").decode(errors="replace")
    found = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not found:
        raise Misconfigured(f"the file of keys for secrets {file} has no key: tickwise secrets new-key > {file}")
    return found
