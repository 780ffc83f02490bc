"""The limits of a setting, and the check of one value by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple

from tickwise.domain.errors import Invalid


class SettingFacts(NamedTuple):
    """The description of a setting beside its name, type and default."""

    meaning: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    """The allowed values, or the allowed items of a list."""
    schemes: tuple[str, ...] = ()
    networks: bool = False
    """Each item is a network or an address."""
    check: Callable[[Any], object] | None = None
    """Raises `Invalid` for a value that cannot be."""
    form: str = ""
    """The values that `check` allows, in words."""
    shortest: int = 0
    option: str = ""
    secret: bool = False
    token_in_path: bool = False
    """Of an address: its path is a secret too."""


def check_value(facts: SettingFacts, value: Any) -> None:
    """Raises ValueError if the value breaks a limit of its own."""
    if facts.least is not None and not facts.least <= value:
        raise ValueError
    if facts.most is not None and not value <= facts.most:
        raise ValueError
    if facts.choices:
        said = value if isinstance(value, tuple) else (value,)
        if not said or not set(facts.choices).issuperset(said):
            raise ValueError
    if facts.schemes and not value.startswith(tuple(f"{scheme}://" for scheme in facts.schemes)):
        raise ValueError
    if facts.check is not None:
        try:
            facts.check(value)
        except Invalid as wrong:
            raise ValueError from wrong
    if facts.networks and value:
        from ipaddress import ip_network

        for each in value:
            ip_network(each)
    if any(len(str(each)) < facts.shortest for each in (value if isinstance(value, tuple) else (value,))):
        raise ValueError


def declared_field(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `Settings`: its default, or the function that makes it, its meaning, and its `SettingFacts`."""
    metadata = {"facts": SettingFacts(meaning, **facts)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)
