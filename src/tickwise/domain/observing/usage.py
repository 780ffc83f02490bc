"""The resources that one attempt used, as far as they were measured, and the image that it ran in.

Invariant: a quantity is measured or absent (None); no part of Tickwise estimates one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, cast
from uuid import UUID

MAX_BYTES: Final = (1 << 63) - 1
"""The largest number that a store keeps."""
MAX_CPU_SECONDS: Final = 1e12
_IMAGE: Final = re.compile(r"([a-z0-9][A-Za-z0-9._:/-]{0,499}@)?sha256:[0-9a-f]{64}")


class ResourceUsage(NamedTuple):
    """The usage of one attempt. None: it was not measured."""

    cpu_seconds: float | None = None
    """Processor time, user and system, of its processes that had ended with it."""
    memory_bytes: int | None = None
    """The peak of its memory: that of its control group if it has one, else of its largest process."""
    output_bytes: int | None = None
    """The part of its output that was kept."""
    read_bytes: int | None = None
    """Bytes that its processes that had ended with it read from disks."""
    written_bytes: int | None = None
    """Bytes that they wrote to disks."""
    network_bytes: int | None = None
    """Bytes that went between it and the network, both ways, where its way to the network counts them."""
    work_bytes: int | None = None
    """The most that it kept in its work folder at once, as far as it was looked at: while it ran if the job limits it,
    else at its end."""
    image: str | None = None
    """The image of its container, exactly: `ghcr.io/acme/etl@sha256:…`, or `sha256:…` for one that came from no
    registry."""

    @property
    def is_plausible(self) -> bool:
        """Check whether a store can keep it: it may come from a plugin or through a broker."""
        return (
            _is_number(self.cpu_seconds, (int, float), MAX_CPU_SECONDS)
            and all(_is_number(size, (int,), MAX_BYTES) for size in self[1:-1])
            and (self.image is None or (type(self.image) is str and _IMAGE.fullmatch(self.image) is not None))
        )


def _is_number(value: object, kinds: tuple[type, ...], most: float) -> bool:
    """Check whether a quantity is absent, or a number of one of these types from 0 to `most`; NaN is none."""
    return value is None or (type(value) in kinds and 0 <= cast(float, value) <= most)


NOT_MEASURED: Final = ResourceUsage()
UsageByRun = Mapping[UUID, ResourceUsage]
"""The usage of attempts, by their runs; of runs without usage nothing."""
NO_USAGE: Final[UsageByRun] = {}
