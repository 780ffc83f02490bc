"""The use of quotas, beside the additions that keep them: `JobStore.add` and `change`, `RunStore.add`, `TaskStore.put`,
`RuleStore.put`, `TimerStore.take_runs`."""

from __future__ import annotations

from typing import Protocol

from tickwise.domain.quotas import QuotaUse


class QuotaStore(Protocol):
    """Quotas of namespaces."""

    async def use(self, namespace: str) -> QuotaUse:
        """The use of a namespace, counted now."""
        ...
