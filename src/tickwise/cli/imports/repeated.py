"""Sentences that a report would repeat: each is numbered, and stands once below the report with its count of entries.

changed  line 4  [1] [2]
    25 6 * * * root [ -x /usr/sbin/logrotate ] && /usr/sbin/logrotate
changed  line 9  [1]
    0 4 * * * root /srv/bin/report
  - no line break ends the file …                                   said of this entry alone: it stands here
…
  [1] cron runs it as the user root, here … (2 entries)
  [2] [ … ] && command: a false test … (1 entry)                    a note stands below, and its number says of which
  - MAILTO: cron mails the output … (2 entries)                     a note of all that is imported needs no number
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tickwise.cli.sources import SourceEntry

REPEATED: Final = 2
"""The entries from which on a sentence is repeated."""


@dataclass(frozen=True, slots=True)
class RepeatedSentences:
    """The sentences that stand below a report: what several entries have in common, and all notes."""

    counts: dict[str, int] = field(default_factory=dict)
    """The number of entries of each numbered sentence, in the order in which the report comes to them: changes and
    reasons, then warnings of the server, then notes."""
    everywhere: dict[str, str] = field(default_factory=dict)
    """The sign of each sentence that all imported entries have: `!` of a warning, `-` of a note."""
    imported: int = 0
    """The number of entries with a job."""

    @classmethod
    def of(cls, found: Sequence[SourceEntry], warnings: Mapping[int, Sequence[str]] | None = None) -> RepeatedSentences:
        """Of these entries, and of what the server said about the jobs of some, by their place."""
        told = Counter(sentence for each in found for sentence in dict.fromkeys(sentences(each)))
        warned = Counter(sentence for said in (warnings or {}).values() for sentence in dict.fromkeys(said))
        noted = Counter(note for each in found for note in dict.fromkeys(each.entry.notes))
        imported = sum(each.entry.job is not None for each in found)
        counts = {sentence: count for sentence, count in told.items() if count >= REPEATED}
        everywhere = {}
        below = {"!": {sentence: count for sentence, count in warned.items() if count >= REPEATED}, "-": noted}
        for sign, group in below.items():
            for sentence, count in group.items():
                if count == imported:
                    everywhere[sentence] = sign
                else:
                    counts[sentence] = count
        return cls(counts, everywhere, imported)

    def marks(self, each: SourceEntry, warnings: Sequence[str] = ()) -> str:
        """The numbers of an entry's sentences that stand below, such as `[1] [3]`; empty if it has none."""
        said = {*sentences(each), *warnings, *each.entry.notes}
        return " ".join(f"[{number}]" for number, sentence in enumerate(self.counts, 1) if sentence in said)

    def own(self, each: SourceEntry) -> list[str]:
        """The changes and the reason that are said of this entry alone."""
        return [sentence for sentence in sentences(each) if sentence not in self.counts]

    def own_warnings(self, warnings: Sequence[str]) -> list[str]:
        """Those of these warnings that are said of one job alone."""
        return [each for each in warnings if each not in self.counts and each not in self.everywhere]

    def lines(self) -> Iterator[str]:
        """Each sentence that stands below, with its number or sign and the number of its entries."""
        for number, (sentence, count) in enumerate(self.counts.items(), 1):
            yield f"[{number}] {sentence} ({_entries(count)})"
        for sentence, sign in self.everywhere.items():
            yield f"{sign} {sentence} ({_entries(self.imported)})"


def sentences(each: SourceEntry) -> Sequence[str]:
    """The changes in meaning of an entry, or the reason of its refusal."""
    entry = each.entry
    return entry.changes if entry.reason is None else (*entry.changes, entry.reason)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"
