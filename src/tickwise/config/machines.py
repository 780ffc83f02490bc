"""The settings of sign-in without a stored key. `Settings` has them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tickwise.config.facts import declared_field


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `MachineSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """Tokens of other issuers (`tickwise federations`)."""

    federation_allow: tuple[str, ...] = _setting(
        (),
        "Issuers of federations that may be asked for their keys though their addresses are not public: networks "
        "(`10.0.0.0/8`), hosts (`kubernetes.default.svc.cluster.local`) or `host:port`. Unset: public addresses alone.",
    )
    federation_ca_file: Path | None = _setting(
        None,
        "The authorities, PEM, whose certificates issuers of federations may have, such as that of a cluster. Unset: "
        "those of the system.",
    )
