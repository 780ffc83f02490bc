"""The labels in bodies that give permissions: of keys, of roles, and of the roles of people.

Invariant: no body means "all jobs" by accident: labels that are sent have one name at least.
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from tickwise.control.bodies import TEXT_MAX
from tickwise.control.texts import clean_text
from tickwise.domain.errors import Invalid
from tickwise.domain.selectors import Labels, labels_from

LABELS_MAX: Final = 10
LABELS_BYTES_MAX: Final = 1_500
"""They are part of a row of an index, which takes 2,700 bytes."""

GrantedLabels = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)], Annotated[str, Meta(max_length=TEXT_MAX)]],
    Meta(
        min_length=1,
        max_length=LABELS_MAX,
        description="The permissions hold for jobs that have all of these labels, with their runs, dead letters and "
        "logs; for nothing else. Left out: for all jobs, and for what has no labels.",
    ),
]


def granted_labels(said: dict[str, str] | UnsetType | None, pointer: str) -> Labels:
    """The labels of a body; none: all jobs. Raises `Invalid`."""
    if said is UNSET or said is None:
        return ()
    for name, value in said.items():
        clean_text(name, pointer)
        clean_text(value, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
    if len(json.dumps(said, ensure_ascii=False).encode()) > LABELS_BYTES_MAX:
        raise Invalid(
            f"the labels have more than {LABELS_BYTES_MAX} bytes; name fewer labels, or shorter ones", pointer=pointer
        )
    return labels_from(said)
