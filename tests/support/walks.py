"""The seeds of the walks in the contract of the stores.

`WALKS=200 SEED=1000 pytest tests/conformance -k Standstill` takes other ones, and more of them than usual.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

WALKS: Final = int(os.environ.get("WALKS", "0"))
FIRST_SEED: Final = int(os.environ.get("SEED", "0"))
WALKS_SECONDS: Final = 120.0 + WALKS * 60.0
"""The time for all of them, on a machine that has much else to do."""


def walked_seeds(usual: int) -> Sequence[int]:
    """The seeds of one backend: the `usual` number of them, unless `WALKS` says another."""
    return range(FIRST_SEED, FIRST_SEED + (WALKS or usual))
