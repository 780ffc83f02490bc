"""A declared setting, and how its value and its limits are shown."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from tickwise.config.facts import SettingFacts
from tickwise.config.files import PREFIX
from tickwise.config.values import KINDS

MASKED: Final = "********"
UNSET: Final = "(unset)"


class Described(NamedTuple):
    """One setting in force; the value of a secret one is masked."""

    name: str
    value: str
    origin: str
    meaning: str


class Setting(NamedTuple):
    """One declaration, as read off its field."""

    name: str
    kind: str
    facts: SettingFacts
    default: Any

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        """Its name on the command line, in commands that offer it."""
        return self.facts.option or "--" + self.name.replace("_", "-")


def allowed(setting: Setting) -> str:
    """The allowed values in words, for messages and the reference: `a whole number from 0 to 65535`."""
    facts = setting.facts
    if facts.choices:
        many = setting.kind.startswith("tuple")
        return ("one or more of " if many else "one of ") + ", ".join(facts.choices)
    if facts.schemes:
        return "an address that begins with " + " or ".join(f"{scheme}://" for scheme in facts.schemes)
    if facts.networks:
        return "a list of networks (10.0.0.0/8) and addresses (127.0.0.1), in the environment with commas between"
    if facts.form:
        return facts.form
    if setting.kind == "Path":
        return "the path of a file" if setting.name.endswith("_file") else "the path of a folder"
    if facts.shortest and setting.kind.startswith("tuple"):
        return f"a list of texts of at least {facts.shortest} characters (in the environment with commas between)"
    if facts.shortest:
        return f"a text of at least {facts.shortest} characters"
    called = KINDS[setting.kind].called
    if facts.least is not None and facts.most is not None:
        return f"{called} from {facts.least:g} to {facts.most:.15g}"
    if facts.least is not None:
        return f"{called} of at least {facts.least:.15g}"
    return called


def shown_value(setting: Setting, value: Any) -> str:
    """The value for people; a secret is masked."""
    if value is None or value == ():
        return UNSET
    if setting.facts.secret:
        # Of an address everything but its user, its password and its options is good to see.
        end, rest = (r"[^/?#]*", f"/{MASKED}") if setting.facts.token_in_path else (r"[^?]*", "")
        if not setting.facts.schemes:
            return MASKED
        return " ".join(_shown_address(each, end, rest) for each in str(value).split())
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _shown_address(value: str, end: str, rest: str) -> str:
    address = re.match(rf"(\w+://)(.*@)?({end})", value)
    return f"{address[1]}{MASKED + '@' if address[2] else ''}{address[3]}{rest}" if address else MASKED
