"""Names that tell the jobs of one import apart: people name jobs by them.

    tar -czf … /srv/shop/orders  ──► tar orders          the first word that no other entry of this name has
    tar -czf … /srv/shop/images  ──► tar images
    date · date                  ──► date · date 2       where no word tells them apart

Invariant: no two entries that come back have one name, and an entry whose name is its own keeps it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tickwise.importers.report import ImportEntry

MAX_WORD_CHARACTERS: Final = 40
_WORD: Final = re.compile(r"[^\W\d_][\w.-]{1,}")


def named_apart(entries: Sequence[ImportEntry]) -> list[ImportEntry]:
    """The entries, those of one name with a word or a number more."""
    often = Counter(_name(entry) for entry in entries if entry.job is not None)
    words = [tuple(_words(entry.text)) for entry in entries]
    holders: dict[str, dict[str, int]] = defaultdict(Counter)
    for entry, own in zip(entries, words, strict=True):
        if entry.job is not None and often[_name(entry)] > 1:
            for word in set(own):
                holders[_name(entry)][word] += 1
    taken = {name for name, count in often.items() if count == 1}
    found = []
    for entry, own in zip(entries, words, strict=True):
        if entry.job is None or often[_name(entry)] == 1:
            found.append(entry)
            continue
        name = _name(entry)
        rare = next((word for word in own if holders[name][word] == 1 and word not in name.split()), None)
        name = _free(f"{name} {rare[:MAX_WORD_CHARACTERS]}" if rare else name, taken)
        taken.add(name)
        found.append(replace(entry, job={**entry.job, "name": name}))
    return found


def _name(entry: ImportEntry) -> str:
    return str((entry.job or {}).get("name"))


def _words(text: str) -> list[str]:
    return [word.strip("-.") for word in _WORD.findall(text)]


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first with a number that no entry has."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name} {number}"
    return found
