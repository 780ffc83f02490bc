"""Cases about seeing what runs do: what tracing and notification rules cost, and questions about many runs."""

from typing import Final

from bench.cases.observing import analytics, notices, tracing

CASES: Final = (analytics.CASE, notices.CASE, tracing.CASE)
