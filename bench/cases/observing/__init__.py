"""Cases about seeing what runs do: what tracing costs, and questions about many runs."""

from typing import Final

from bench.cases.observing import analytics, tracing

CASES: Final = (analytics.CASE, tracing.CASE)
