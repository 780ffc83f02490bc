"""What lies in `deploy/`, as tests and checks read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from tickwise.config import SETTINGS
from tickwise.config.described import Setting

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
COMPOSE: Final = DEPLOY / "compose" / "compose.yaml"
CHART: Final = DEPLOY / "helm" / "tickwise"
UNITS: Final = DEPLOY / "systemd"
ALERTS: Final = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD_FOLDER: Final = CHART / "files" / "dashboards"
VALUES: Final = CHART / "values.yaml"
VALUES_SCHEMA: Final = CHART / "values.schema.json"

NEVER_IN_A_CONFIG_MAP: Final = frozenset(
    {
        "bootstrap_key",
        "database_url",
        "heartbeat_fail_url",
        "heartbeat_url",
        "requests_keys",
        "search_database_url",
    }
)
"""They belong into `secrets`, whose home is a Secret. (The address of a broker or of Redis may hold no password.)"""


def load(file: Path) -> Any:
    """A YAML file of one document. What Compose is told to take away (`!reset`) is None."""
    return yaml.load(file.read_text(encoding="utf-8"), Loader=_ComposeLoader)  # a safe one


class _ComposeLoader(yaml.SafeLoader):
    """YAML with the tag of Compose."""


_ComposeLoader.add_constructor("!reset", lambda _loader, _node: None)


def chart_definitions() -> dict[str, Any]:
    """What `values.schema.json` must say of the settings, from their declarations."""
    open_ones = {name: setting for name, setting in SETTINGS.items() if name not in NEVER_IN_A_CONFIG_MAP}
    secret_ones = {name: setting for name, setting in SETTINGS.items() if setting.facts.secret}
    return {"settings": _object(open_ones), "secrets": _object(secret_ones)}


def _object(settings: dict[str, Setting]) -> dict[str, Any]:
    properties = {name: _property(setting) for name, setting in sorted(settings.items())}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _property(setting: Setting) -> dict[str, Any]:
    facts = setting.facts
    kinds: dict[str, dict[str, Any]] = {
        "int": {"type": "integer"},
        "float": {"type": "number"},
        "str": {"type": "string", "minLength": max(1, facts.shortest)},
        "Path": {"type": "string", "minLength": 1},
        "tuple[str, ...]": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[^\s,]+$"}
            | ({"minLength": facts.shortest} if facts.shortest else {}),
        },
    }
    said = kinds[setting.kind]
    if facts.least is not None:
        said["minimum"] = facts.least
    if facts.most is not None:
        said["maximum"] = facts.most
    if facts.choices:
        said["enum"] = list(facts.choices)
    if facts.schemes:
        said["pattern"] = f"^({'|'.join(facts.schemes)})://"
    return said


def granted(command: Iterable[str]) -> dict[str, str]:
    """The database roles that `db upgrade` grants rights by these words, with their kind: `executor` or `service`."""
    roles: dict[str, str] = {}
    for word in command:
        found = re.fullmatch(r"--(executor|service)-role=(\S+)", word)
        if found is not None:
            roles[found[2]] = found[1]
    return roles


def owners(migrations: str, services: Mapping[str, str], command: Iterable[str]) -> list[str]:
    """The services whose database address is no role of their own that the migrations grant what they need: a role
    that owns the schema, one that another service has, or one without rights. `services`: their addresses by name."""
    owner, roles = urlsplit(migrations).username, granted(command)
    users = {name: urlsplit(address).username for name, address in services.items()}
    return [
        f"{name} logs in as {user}"
        for name, user in users.items()
        if user == owner
        or [*users.values()].count(user) > 1
        or roles.get(str(user)) != ("executor" if name == "executor" else "service")
    ]


def unit(file: Path) -> dict[str, list[str]]:
    """The keys of a unit of systemd, each with its values in their order."""
    found: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found
