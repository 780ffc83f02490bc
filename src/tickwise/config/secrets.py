"""The settings of the installation's key for secrets. `Settings` has them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tickwise.config.facts import declared_field


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `SecretSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


@dataclass(frozen=True, kw_only=True)
class SecretSettings:
    """The key that encrypts secrets, or the command that has it (`docs/how-to/secrets.md`)."""

    secrets_key: tuple[str, ...] = _setting(
        (),
        "The keys of the installation, the same for APIs and executors: the first encrypts secrets, each decrypts. One "
        "has 32 random bytes in base64, as of `tickwise secrets new-key` or `openssl rand -base64 32`. The word "
        "`command` stands for `secrets_key_command`, where its place among them matters. Unset: `up` with its own "
        "database makes a key in its data folder; others refuse to store secrets.",
        shortest=7,
        secret=True,
    )
    secrets_key_file: Path | None = _setting(
        None,
        "A file with these keys, one a line, in place of `secrets_key`. Only its owner may read it, or, of a file of "
        "root, its group.",
    )
    secrets_key_command: str | None = _setting(
        None,
        "A command that has the key, such as one that asks a KMS. It is called with `wrap` or `unwrap` as one more "
        "argument, reads the bytes from its input, and writes the result to its output. It encrypts, and "
        "`secrets_key` only decrypts, unless that names it. Put no secret into its arguments.",
    )
    secrets_key_command_seconds: float = _setting(
        10.0, "The time limit of one call of `secrets_key_command`.", least=0.1, most=120
    )
