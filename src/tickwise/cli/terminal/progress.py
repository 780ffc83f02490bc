"""A bar for work that takes long: on stderr, on a terminal alone, gone when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from tickwise.cli.moments import monotonic

DRAW_SECONDS: Final = 0.1
"""A picture takes a millisecond, and nobody sees more of them."""


class Progress(Protocol):
    """The progress of one piece of work."""

    def __call__(self, done: int, of: int | None = None) -> None:
        """Show that `done` of `of` is done; None: it is not known yet how much there is."""
        ...


@contextmanager
def progress(what: str, of: int | None = None, *, quiet: bool = False) -> Iterator[Progress]:
    """Show how far `what` has come. Nothing is shown where stderr is no terminal, or `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield unseen
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Its own colours follow NO_COLOR and TERM.
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bars:
        task = bars.add_task(what, total=of)

        drawn_at = float("-inf")

        def tell(done: int, of: int | None = None) -> None:
            nonlocal drawn_at
            at = monotonic()
            is_due = at - drawn_at >= DRAW_SECONDS
            drawn_at = at if is_due else drawn_at
            bars.update(task, completed=done, total=of, refresh=is_due)  # a total of None leaves what is known

        yield tell


def unseen(done: int, of: int | None = None) -> None:
    """Nobody looks."""
