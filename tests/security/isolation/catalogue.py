"""All attacks, in the order of the table."""

from __future__ import annotations

from typing import Final

from tests.security.isolation import amounts, files, handed, kernel, left, namespaces, network, processes
from tests.security.isolation.attacks import ATTACKS, GROUPS, Attack

MODULES: Final = (files, processes, namespaces, kernel, network, amounts, left, handed)
"""Each registers its own when it is imported."""

ALL: Final[tuple[Attack, ...]] = tuple(
    sorted(
        (each for each in ATTACKS.values() if each.act.__module__ in {module.__name__ for module in MODULES}),
        key=lambda each: GROUPS.index(each.group),
    )
)
