"""The rules of an operator for Jobs of Kubernetes, read once at the start of an executor.

    acme=acme-jobs/runner,*=batch     namespace acme: pods in acme-jobs with the service account runner; others in batch

The pod template is YAML with `metadata` and `spec`, as in a Job's `template`. Three layers are laid one over the other:

    our defaults (walls, folders)  <  the template  <  what an attempt needs (program, image, marks, service account)

Objects are merged name by name; lists whose items have names (containers, volumes, env, …) item by item; other lists
are taken whole from the upper layer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.containers import CONTAINER_REFUSED
from tickwise.domain.errors import Misconfigured

MAX_TEMPLATE_BYTES: Final = 256 << 10
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ACCOUNT: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KEYS: Final = ("name", "mountPath", "ip")
"""The account of what names the items of a list, the first that all have."""


class JobPlace(NamedTuple):
    """The place of the pods of a namespace of Tickwise."""

    namespace: str
    """Of Kubernetes. Empty: that of the executor's own credentials."""
    account: str | None
    """Their service account; None: the namespace's default, without its token."""


class JobPlaces:
    """The places of all namespaces of Tickwise."""

    def __init__(self, rules: Sequence[str]) -> None:
        """Raises `Misconfigured`."""
        self._places = dict(_place(rule) for rule in rules)

    def of(self, namespace: str) -> JobPlace:
        """The place of a namespace. Raises `ContainerFault` if there is none."""
        if not self._places:
            return JobPlace("", None)
        found = self._places.get(namespace) or self._places.get("*")
        if found is None:
            raise ContainerFault(
                CONTAINER_REFUSED,
                f"TICKWISE_KUBERNETES_NAMESPACES of this executor names no place for pods of the namespace {namespace}",
            )
        return found

    def namespaces(self, own: str) -> Sequence[str]:
        """All namespaces of Kubernetes that pods may be in. `own`: that of the executor's credentials."""
        return sorted({place.namespace for place in self._places.values()}) or [own]


def _place(rule: str) -> tuple[str, JobPlace]:
    whose, sign, place = rule.partition("=")
    namespace, slash, account = place.partition("/")
    good = sign and whose and _NAME.fullmatch(namespace) and (not slash or _ACCOUNT.fullmatch(account))
    if not good:
        raise Misconfigured(
            f"{rule!r} in TICKWISE_KUBERNETES_NAMESPACES is no rule; write acme=batch, or acme=batch/service-account"
        )
    return whose, JobPlace(namespace, account or None)


def read_template(file: Path | None) -> Mapping[str, Any]:
    """The operator's pod template. Raises `Misconfigured`. Blocking."""
    if file is None:
        return {}
    try:
        content = file.read_bytes()
        found = yaml.safe_load(content) if len(content) <= MAX_TEMPLATE_BYTES else None
    except (OSError, UnicodeError, yaml.YAMLError) as wrong:
        raise Misconfigured(f"the pod template {file} cannot be read: {wrong}") from wrong
    if found is None and not content.strip():
        return {}
    if not isinstance(found, dict) or not set(found) <= {"metadata", "spec"}:
        raise Misconfigured(f"the pod template {file} must be YAML with metadata and spec, as in a Job's template")
    if not all(isinstance(part, dict) for part in found.values()):
        raise Misconfigured(f"metadata and spec of the pod template {file} must be maps")
    return found


def overlaid(lower: Any, upper: Any) -> Any:
    """Two layers in one. The arguments stay as they are."""
    if isinstance(lower, Mapping) and isinstance(upper, Mapping):
        both = {name: overlaid(value, upper[name]) if name in upper else value for name, value in lower.items()}
        return both | {name: value for name, value in upper.items() if name not in lower}
    if isinstance(lower, list) and isinstance(upper, list):
        key = next((key for key in _KEYS if all(_has(each, key) for each in (*lower, *upper))), None)
        if key is not None and lower and upper:
            above = {each[key]: each for each in upper}
            both_lists = [overlaid(each, above.pop(each[key])) if each[key] in above else each for each in lower]
            return both_lists + list(above.values())
    return upper


def _has(item: Any, key: str) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get(key), str)
