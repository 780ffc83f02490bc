"""Searches over several shards. All but a few name a namespace, and ask its shard."""

from __future__ import annotations

from tickwise.adapters.store.sharded.fleet import Fleet
from tickwise.adapters.store.sharded.routes import ROUTES, ByNamespace, RoutedPart
from tickwise.domain.errors import Invalid
from tickwise.domain.observing.analytics import Analysis
from tickwise.ports.store import AnalyticsQuery
from tickwise.ports.store import Searches as SearchesPort


class Searches(RoutedPart):
    """`Searches` of the port."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "searches", SearchesPort, ROUTES["searches"][1], ByNamespace())

    async def analyse(self, query: AnalyticsQuery) -> Analysis:
        """See the port. Of all namespaces at once, percentiles and samples of several databases make no common ones:
        such a question is refused."""
        if query.everywhere and len(self._fleet.numbers()) > 1:
            raise Invalid(
                "the namespaces are in several databases, whose percentiles cannot be combined: ask for one namespace "
                "at a time",
                code="one_namespace",
            )
        return await self._fleet.of(query.runs.namespace, lambda store: store.searches.analyse(query))
