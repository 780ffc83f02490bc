"""The installation's keys: they wrap the data keys of sealed values, and nothing else.

    LocalKey      32 bytes of a setting or a file; AES key wrap (RFC 3394), which needs no nonce and so has no limit
    CommandKey    a program of the operator, such as one that asks a KMS; the key never comes here

The command is started with one more argument, `wrap` or `unwrap`. It reads the bytes from its standard input, writes
the result to its standard output, and ends with status 0. All are raw bytes: 32 to wrap, at most 8 KiB wrapped.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Protocol

import structlog
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from tickwise.domain.errors import Misconfigured, NotOpened, SealingUnavailable
from tickwise.ports.sealing import COMMAND_KEY_ID, key_text

KEY_BYTES: Final = 32
WRAPPED_BYTES_MOST: Final = 8 << 10
"""The largest answer of a command. AWS KMS wraps 32 bytes in about 190, an RSA key of 4096 bits in 512."""
_COMMANDS_AT_ONCE: Final = 4
_ID_LABEL: Final = b"tickwise: id of a key for secrets\0"
_WORDS_CHARACTERS: Final = 300

logger = structlog.get_logger("tickwise.secrets")


class WrappingKey(Protocol):
    """One key that wraps data keys."""

    @property
    def key_id(self) -> bytes:
        """8 bytes, stored beside what it wraps."""
        ...

    async def wrap(self, data_key: bytes) -> bytes:
        """The data key, encrypted. Raises `SealingUnavailable`."""
        ...

    async def unwrap(self, wrapped: bytes) -> bytes:
        """The data key. Raises `NotOpened`, `SealingUnavailable`."""
        ...


class LocalKey:
    """A key of the settings. `WrappingKey`."""

    def __init__(self, key: bytes) -> None:
        """32 bytes, as `read_key` gives them."""
        self._key = key
        self.key_id = sha256(_ID_LABEL + key).digest()[:8]

    async def wrap(self, data_key: bytes) -> bytes:
        return aes_key_wrap(self._key, data_key)

    async def unwrap(self, wrapped: bytes) -> bytes:
        try:
            return aes_key_unwrap(self._key, wrapped)
        except (InvalidUnwrap, ValueError) as failure:
            raise NotOpened(
                f"a sealed data key was changed: the key {key_text(self.key_id)} does not open it"
            ) from failure


class CommandKey:
    """A key behind a command. `WrappingKey`."""

    def __init__(self, command: Sequence[str], *, seconds: float) -> None:
        """`command`: the program and its arguments; it is ended after `seconds`."""
        self._command = command
        self._seconds = seconds
        self._turns = asyncio.Semaphore(_COMMANDS_AT_ONCE)
        self.key_id = COMMAND_KEY_ID

    async def wrap(self, data_key: bytes) -> bytes:
        wrapped = await self._ask("wrap", data_key)
        if data_key in wrapped:
            raise SealingUnavailable(
                "the command of secrets_key_command gave the data key back as it was: it must encrypt it"
            )
        return wrapped

    async def unwrap(self, wrapped: bytes) -> bytes:
        data_key = await self._ask("unwrap", wrapped)
        if len(data_key) != KEY_BYTES:
            raise SealingUnavailable(
                f"the command of secrets_key_command unwrapped {len(data_key)} bytes, and a data key has {KEY_BYTES}: "
                "it must write the raw bytes alone, without a newline"
            )
        return data_key

    async def _ask(self, verb: str, given: bytes) -> bytes:
        async with self._turns:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    verb,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as failure:
                raise SealingUnavailable(
                    f"the command of secrets_key_command cannot be started: {failure.strerror or failure}"
                ) from failure
            try:
                async with asyncio.timeout(self._seconds):
                    written, words = await process.communicate(given)
            except TimeoutError:
                raise SealingUnavailable(
                    f"the command of secrets_key_command gave no answer to `{verb}` within {self._seconds:g} s"
                ) from None
            finally:
                await _end(process)
        return self._result(verb, process.returncode, written, words)

    def _result(self, verb: str, status: int | None, written: bytes, words: bytes) -> bytes:
        if status != 0:
            # The answer of the API says no more: the words are the operator's to read.
            shown = words.decode(errors="replace").strip()[-_WORDS_CHARACTERS:]
            logger.error("secrets_key_command_failed", verb=verb, status=status, words=shown)
            raise SealingUnavailable(
                f"the command of secrets_key_command ended `{verb}` with status {status}; the log has its words"
            )
        if not 0 < len(written) <= WRAPPED_BYTES_MOST:
            raise SealingUnavailable(
                f"the command of secrets_key_command answered `{verb}` with {len(written)} bytes; "
                f"1 to {WRAPPED_BYTES_MOST} are allowed"
            )
        return written


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process with those that it started, if it still runs."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


def read_key(text: str, place: str) -> bytes:
    """The 32 bytes of a key in base64 (also its form for addresses) or as 64 hexadecimal digits. `place` names it in
    the error. Raises `Misconfigured`."""
    clean = text.strip()
    with contextlib.suppress(binascii.Error, ValueError):
        key = bytes.fromhex(clean) if len(clean) == 2 * KEY_BYTES else _from_base64(clean)
        if len(key) == KEY_BYTES:
            if len(set(key)) < KEY_BYTES // 3:
                raise Misconfigured(f"{place}: the key can be guessed; make one with: tickwise secrets new-key")
            return key
    raise Misconfigured(
        f"{place}: a key has {KEY_BYTES} bytes in base64, or {2 * KEY_BYTES} hexadecimal digits; make one with: "
        "tickwise secrets new-key"
    )


def _from_base64(text: str) -> bytes:
    even = text.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(even + "=" * (-len(even) % 4), validate=True)
