"""The use of quotas, beside the additions that keep them: `JobStore.add`, `RunStore.add`, `TaskStore.put`,
`RuleStore.put`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tickwise.domain.quotas import QuotaUse


class QuotaStore(Protocol):
    """Quotas of namespaces."""

    async def use(self, namespace: str) -> QuotaUse:
        """The use of a namespace, counted now."""
        ...

    async def take_runs(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """Count so many runs of namespaces today, or fewer, as their quotas allow; how many fewer, of those without
        room. Less than 0 gives back."""
        ...
