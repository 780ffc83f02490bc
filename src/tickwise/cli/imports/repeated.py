"""Sentences that a report would repeat: each is numbered, and stands once below the report with its count of entries.

changed  line 4  [1] [2]
    25 6 * * * root /usr/sbin/logrotate
changed  line 9  [2]
    0 4 * * * root /srv/bin/report
  - no line break ends the file …                                   said of this entry alone: it stands here
…
  [2] cron runs it as the user root, here … (2 entries)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tickwise.cli.sources import SourceEntry

REPEATED: Final = 2
"""The entries from which on a sentence is repeated."""


@dataclass(frozen=True, slots=True)
class RepeatedSentences:
    """The changes and reasons that several entries of one report have."""

    counts: dict[str, int] = field(default_factory=dict)
    """The number of entries of each, in the order in which the report comes to them."""

    @classmethod
    def of(cls, found: Iterable[SourceEntry]) -> RepeatedSentences:
        """The sentences that are said of several of these entries."""
        counts = Counter(sentence for each in found for sentence in dict.fromkeys(sentences(each)))
        return cls({sentence: count for sentence, count in counts.items() if count >= REPEATED})

    def marks(self, each: SourceEntry) -> str:
        """The numbers of an entry's repeated sentences, such as `[1] [3]`; empty if it has none."""
        numbers = {sentence: number for number, sentence in enumerate(self.counts, 1)}
        return " ".join(f"[{numbers[sentence]}]" for sentence in sentences(each) if sentence in numbers)

    def own(self, each: SourceEntry) -> list[str]:
        """The sentences that are said of this entry alone."""
        return [sentence for sentence in sentences(each) if sentence not in self.counts]

    def lines(self) -> Iterator[str]:
        """Each repeated sentence with its number and the number of its entries."""
        for number, (sentence, count) in enumerate(self.counts.items(), 1):
            yield f"[{number}] {sentence} ({count} entries)"


def sentences(each: SourceEntry) -> Sequence[str]:
    """The changes in meaning of an entry, or the reason of its refusal."""
    entry = each.entry
    return entry.changes if entry.reason is None else (*entry.changes, entry.reason)
