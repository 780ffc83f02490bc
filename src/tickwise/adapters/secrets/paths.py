"""The names of secrets in Vault and Kubernetes: a path, and the field behind a `#`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_PARTS: Final = 20
_PART: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}", re.ASCII)
_FIELD: Final = re.compile(r"[A-Za-z0-9_.-]{1,253}", re.ASCII)


class SecretPath(NamedTuple):
    """The place of a value."""

    parts: tuple[str, ...]
    field: str | None
    """None: the only field that there is."""


def read_path(name: str, *, parts_most: int = MAX_PARTS) -> SecretPath | None:
    """`app/db#password`; None: it cannot be a name. No part leads up or to another place."""
    path, sharp, field = name.partition("#")
    parts = tuple(path.split("/"))
    if len(parts) > parts_most or any(_PART.fullmatch(part) is None or set(part) == {"."} for part in parts):
        return None
    if sharp and _FIELD.fullmatch(field) is None:
        return None
    return SecretPath(parts, field if sharp else None)
