"""The settings of identity tokens. `Settings` has them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tickwise.config.facts import declared_field
from tickwise.config.providers import SecretProviderSettings


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `IdentitySettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


@dataclass(frozen=True, kw_only=True)
class IdentitySettings(SecretProviderSettings):
    """The signed tokens that tell clouds and Vault which run a task is (`docs/how-to/cloud-access-without-keys.md`)."""

    identity_issuer: str | None = _setting(
        None,
        "The address that identity tokens name as their issuer: those who trust it read "
        "`/.well-known/openid-configuration` below it. The same for APIs and executors. Unset: `public_url`; without "
        "that, jobs with an identity token are refused.",
        schemes=("http", "https"),
    )
    identity_token_seconds: float = _setting(
        3_600.0,
        "The life of an identity token. The file of a task that goes on gets another one after two thirds of it.",
        least=60,
        most=3_600,
    )
    identity_key_days: float = _setting(
        90.0, "The age at which another key follows the one that signs identity tokens.", least=1, most=3_650
    )
    identity_namespaces: tuple[str, ...] = _setting(
        (), "The namespaces whose jobs may have identity tokens, for APIs and executors. Unset: all."
    )
