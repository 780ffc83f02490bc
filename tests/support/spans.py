"""A sink that keeps the spans it is given, in place of a collector."""

from __future__ import annotations

from tickwise.ports.tracing import SpanGroup, SpanRecord


class KeptSpans:
    """Keeps what is recorded; groups as the spans that they are sent as."""

    def __init__(self) -> None:
        self.all: list[SpanRecord] = []
        self.groups: list[SpanGroup] = []

    def add(self, span: SpanRecord) -> None:
        """Keep it."""
        self.all.append(span)

    def add_group(self, group: SpanGroup) -> None:
        """Keep its spans."""
        self.groups.append(group)
        self.all += group.spans()

    def named(self, name: str) -> list[SpanRecord]:
        """Those with this name."""
        return [span for span in self.all if span.name == name]
