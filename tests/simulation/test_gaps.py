"""What worlds have found and nothing mends yet. Each of these really fails; who mends one takes its mark away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwise.testing.world import draw, played


@pytest.mark.takes_up_to(390)
@pytest.mark.xfail(reason="what a claim takes after its executor gave it up is known to nobody, and stays", strict=True)
def test_a_request_may_take_effect_after_its_caller_gave_it_up() -> None:
    """A server that stood still carries out what lies in its queue. Its caller has asked what it holds before that, and
    will not ask again until another claim fails."""
    late = [replace(draw(seed), faults=frozenset({"late effect"}), call_fault_share=0.02) for seed in range(8, 14)]
    assert "" == "\n".join(report.as_text() for swarm in late if (report := played(swarm)).findings)
