"""The outcomes of a job's latest runs as a strip of marks, drawn as SVG.

A page of jobs has a thousand of them. Written as one text, they take a tenth of the time that a template takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Final

from markupsafe import Markup, escape

from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import RunRow
from tickwise.web import texts

STRIP: Final = 20
"""The runs of a job whose outcomes a list shows."""
PITCH: Final = 7
TALL: Final = {RunState.FAILED: (0, 16), RunState.SUCCESS: (3, 13)}
"""Where a mark begins, and its height. A failure stands out without its colour."""
LOW: Final = (8, 8)


def strip(runs: Sequence[RunRow], url: Callable[[str], str], zone: tzinfo) -> Markup:
    """The latest runs, given newest first, drawn oldest first. `url` gives the address of a page."""
    if not runs:
        return Markup('<span class="muted small">no runs yet</span>')
    before, _, after = (str(escape(part)) for part in url("/runs/@").partition("@"))
    marks = [
        _mark(run, f"{before}{run.run_id}{after}", (STRIP - 1 - place) * PITCH, zone)
        for place, run in enumerate(runs[:STRIP])
    ]
    counts = _counts(runs)
    return Markup(  # each part is escaped above or below
        f'<svg class="strip" viewBox="0 0 {STRIP * PITCH} 16" width="{STRIP * PITCH}" height="16" role="group"'
        f' aria-label="the latest {len(runs)} runs: {counts[RunState.SUCCESS]} succeeded,'
        f' {counts[RunState.FAILED]} failed">{"".join(marks)}</svg>'
    )


def _mark(run: RunRow, address: str, x: int, zone: tzinfo) -> str:
    y, height = TALL.get(run.state, LOW)
    word = run.state.value.lower()
    why = f": {escape(texts.visible(run.reason))}" if run.reason else ""
    return (
        f'<a href="{address}" tabindex="-1"><title>{word}, due {escape(texts.absolute(run.due_at, zone))}{why}</title>'
        f'<rect class="s-{word}" x="{x}" y="{y}" height="{height}" width="5" rx="1"/></a>'
    )


def _counts(runs: Sequence[RunRow]) -> Mapping[RunState, int]:
    return {state: sum(run.state is state for run in runs) for state in TALL}
