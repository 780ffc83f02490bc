"""The use of quotas, beside the additions that keep them: `JobStore.add` and `change`, `RunStore.add`, `TaskStore.put`,
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

    async def take_runs(self, batch_id: int, wanted: Mapping[str, int]) -> Mapping[str, int | None]:
        """Count so many runs of namespaces today, or fewer, as their quotas `runs_per_day` allow. Returns how many
        fewer, of each namespace without room; None of a namespace whose runs another caller is just counting: none was
        counted, and its timers are left for a later batch. This call waits for no such caller, since the batch holds
        timers of other namespaces.

        `batch_id`: the batch of `TimerStore.take` whose fires these are. The runs stay counted if it is committed, and
        only then. Raises `StoreUnavailable` if it is over.
        """
        ...
