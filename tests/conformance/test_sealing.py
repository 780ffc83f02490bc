"""The sealer keeps the promises of its port, with keys of the settings and with a key behind a command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.secrets.keys import CommandKey, LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.testing.contracts.sealing import SealingContract

FIRST, NEXT, OTHER = (bytes(range(begin, begin + 32)) for begin in (0, 50, 100))


def local(*keys: bytes) -> EnvelopeSealing:
    """A sealer by these keys."""
    return EnvelopeSealing([LocalKey(key) for key in keys], SystemClock())


class TestLocalKeys(SealingContract):
    @pytest.fixture
    def sealer(self) -> EnvelopeSealing:
        return local(FIRST)

    @pytest.fixture
    def rotated(self) -> EnvelopeSealing:
        return local(NEXT, FIRST)

    @pytest.fixture
    def stranger(self) -> EnvelopeSealing:
        return local(OTHER)


PROGRAM = """
import sys
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
do = {"wrap": aes_key_wrap, "unwrap": aes_key_unwrap}[sys.argv[1]]
sys.stdout.buffer.write(do(bytes(range(7, 39)), sys.stdin.buffer.read()))
"""


class TestCommand(SealingContract):
    """The newer key is the one behind the command."""

    @pytest.fixture
    def sealer(self) -> EnvelopeSealing:
        return local(FIRST)

    @pytest.fixture
    def rotated(self, tmp_path: Path) -> EnvelopeSealing:
        program = tmp_path / "kms.py"
        program.write_text(PROGRAM)
        command = CommandKey([sys.executable, str(program)], seconds=20.0)
        return EnvelopeSealing([command, LocalKey(FIRST)], SystemClock())

    @pytest.fixture
    def stranger(self) -> EnvelopeSealing:
        return local(OTHER)
