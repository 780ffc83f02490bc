"""A log with the origin of each line: the task, or Tickwise itself.

A terminal obeys what a task prints, so a mark beside raw output could be printed by the task as well. Here each line
has a mark, and what a terminal would obey is shown in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from tickwise.cli import output
from tickwise.cli.session import Session

MARKS: Final = {"task": "task     | ", "tickwise": "tickwise | "}


def write_origins(session: Session, run: str, attempt: int) -> None:
    """Write the log of an attempt to stdout, each line behind its origin. `attempt` 0: there is none."""
    for origin, parts in groupby(_parts(session, run, attempt) if attempt else (), key=itemgetter(0)):
        text = "".join(text for _, text in parts)
        # A line of ours begins with the end of the line that the task did not end.
        text = text.removeprefix("\n") if origin == "tickwise" else text
        for line in text.removesuffix("\n").split("\n"):
            session.say(f"{MARKS[origin]}{output.safe(line)}")


def _parts(session: Session, run: str, attempt: int) -> Iterator[tuple[str, str]]:
    """The log by its origin, one request after the other."""
    offset = 0
    while True:
        query = {"attempt": attempt, "offset": offset}
        found = session.client.request("GET", f"/runs/{run}/logs", query=query).body
        if found["next_offset"] == offset:
            return
        parts = found["parts"] or [{"origin": "task", "text": found["text"]}]
        yield from ((each["origin"], each["text"]) for each in parts)
        offset = found["next_offset"]
