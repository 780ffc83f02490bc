"""The parts of the runner of pods that decide without a cluster: lines of logs, layers of a template, fates, causes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.container.kubernetes.causes import PodEnd, disruption
from tickwise.adapters.runner.container.kubernetes.cluster import ClusterAway
from tickwise.adapters.runner.container.kubernetes.entering import ResultLines
from tickwise.adapters.runner.container.kubernetes.following import StampedLines
from tickwise.adapters.runner.container.kubernetes.pods import (
    ContainerPhase,
    ContainerReport,
    Meta,
    Pod,
    PodCondition,
    PodStatus,
    Terminated,
)
from tickwise.adapters.runner.container.kubernetes.policy import JobPlace, JobPlaces, overlaid, read_template
from tickwise.adapters.runner.containers import AttemptFate
from tickwise.domain.errors import Misconfigured
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store.records import AttemptRow
from tickwise.wiring.containers.policy import fate_in

T1, T2, T3 = (f"2026-11-27T05:00:0{second}.000000001Z " for second in (1, 2, 3))


def _marked(name: str, *contents: bytes) -> bytes:
    lines = [b"\x1etickwise-%s:%s\n" % (name.encode(), base64.b64encode(each)) for each in contents]
    return b"\n" + b"".join(lines)


OUTPUTS = {
    "a whole line": (b"hello\n" + _marked("result", b"abc"), b"hello\n", b"abc"),
    "an open line": (b"hello" + _marked("result", b"abc", b"def"), b"hello", b"abcdef"),
    "nothing but a result": (_marked("result", b"x"), b"", b"x"),
    "no result": (b"\n\nq\n", b"\n\nq\n", None),
    "nothing": (b"", b"", None),
    "an unknown name": (b"\x1e no\n\x1etickwise-what:eA==\n", b"\x1e no\n\x1etickwise-what:eA==\n", None),
    "no base64": (b"a\n\x1etickwise-result:###\n", b"a\n\x1etickwise-result:###\n", None),
    "a long line": (b"\x1etickwise-" + b"y" * 20_000, b"\x1etickwise-" + b"y" * 20_000, None),
}


@pytest.mark.parametrize("step", [1, 2, 7, 100_000])
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_result_is_taken_out_of_the_output(name: str, step: int) -> None:
    """Also when it comes in pieces; all else stays as it was written."""
    written, output, result = OUTPUTS[name]
    lines = ResultLines(100)
    found = b"".join(lines.feed(written[place : place + step]) for place in range(0, len(written), step)) + lines.end()
    assert (output, result) == (found, lines.found("result"))


def test_a_result_is_kept_up_to_its_limit_and_one_byte() -> None:
    """The byte says that there were more."""
    lines = ResultLines(10)
    lines.feed(_marked("result", b"x" * 8, b"y" * 8))
    assert b"x" * 8 + b"yyy" == lines.found("result")


@pytest.mark.parametrize("step", [1, 5, 1_000])
@pytest.mark.parametrize("read", [0, 30, 40, 45, 46, 80, 90, 140, 160])
def test_a_log_that_breaks_off_anywhere_is_read_once(read: int, step: int) -> None:
    """Lines of one time, open lines and a second look at the whole second included."""
    log = f"{T1}one\n{T2}two\n{T2}three\n{T2}\n{T3}four and".encode()
    rest = f"{log.decode()} five\n{T3}six\n".encode()
    lines = StampedLines()
    found = b""
    for content in (log[:read], rest):
        lines.again()
        since = (lines.since or "").removesuffix("Z")
        heard = b"".join(line for line in content.splitlines(keepends=True) if line[:19].decode() >= since)
        found += b"".join(lines.feed(heard[place : place + step]) for place in range(0, len(heard), step))
    assert b"one\ntwo\nthree\n\nfour and five\nsix\n" == found


def test_a_log_without_times_is_refused() -> None:
    """It would be taken for times, and lost."""
    with pytest.raises(ClusterAway):
        StampedLines().feed(b"x" * 100)


def test_layers_are_merged_by_name() -> None:
    """Maps deep, lists of named things item by item, other lists whole."""
    lower: dict[str, Any] = {
        "a": {"b": 1, "c": 2},
        "containers": [{"name": "task", "x": 1}, {"name": "side"}],
        "l": [1],
    }
    upper: dict[str, Any] = {"a": {"c": 3}, "containers": [{"name": "task", "y": 2}, {"name": "new"}], "l": [2, 3]}
    expected = {
        "a": {"b": 1, "c": 3}, "containers": [{"name": "task", "x": 1, "y": 2}, {"name": "side"}, {"name": "new"}],
        "l": [2, 3],
    }  # fmt: skip
    assert expected == overlaid(lower, upper)
    assert {"b": 1, "c": 2} == lower["a"]


@pytest.mark.parametrize("text", ["[1]", "kind: Pod", "spec: 3", "a: [", "metadata: {}\nstatus: {}"])
def test_a_template_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    """At the start of an executor, not at its first run."""
    file = tmp_path / "template.yaml"
    file.write_text(text)
    with pytest.raises(Misconfigured):
        read_template(file)


def test_places_of_namespaces_are_by_name_and_then_by_star() -> None:
    """A namespace that is not named has none, unless no rule is there at all."""
    places = JobPlaces(["acme=acme-jobs/runner", "*=batch"])
    assert JobPlace("acme-jobs", "runner") == places.of("acme")
    assert JobPlace("batch", None) == places.of("other")
    assert ["acme-jobs", "batch"] == places.namespaces("own")
    assert JobPlace("", None) == JobPlaces([]).of("acme")
    with pytest.raises(ContainerFault):
        JobPlaces(["acme=x"]).of("other")
    for wrong in ("acme", "acme=", "=x", "acme=X", "acme=x/", "acme=x/A"):
        with pytest.raises(Misconfigured):
            JobPlaces([wrong])


def _row(token: int, state: RunState, reason: str | None = None) -> AttemptRow:
    return AttemptRow(
        attempt=1, token=token, executor=1, state=state, dispatched_at=None, started_at=None, ended_at=None,
        reason=reason, error=None,
    )  # fmt: skip


def test_the_fate_of_an_attempt_is_what_the_store_has_on_record() -> None:
    """Only what was lost with its executor may be adopted; what was reported may not."""
    found = {
        "running": fate_in([_row(7, RunState.RUNNING)], 7),
        "dispatched": fate_in([_row(7, RunState.DISPATCHED)], 7),
        "lease lost": fate_in([_row(7, RunState.QUEUED, "lease_lost"), _row(8, RunState.RUNNING)], 7),
        "never recorded": fate_in([_row(8, RunState.RUNNING)], 7),
        "failed, to be retried": fate_in([_row(7, RunState.RETRYING, "exit_code")], 7),
        "unknown outcome": fate_in([_row(7, RunState.QUEUED, "outcome_lost")], 7),
        "let go": fate_in([_row(7, RunState.QUEUED, "lease_over")], 7),
        "ended": fate_in([_row(7, RunState.FAILED, "executor_lost")], 7),
    }
    held, lost, settled = AttemptFate.HELD, AttemptFate.LOST, AttemptFate.SETTLED
    expected = dict(zip(found, [held, held, lost, lost, settled, settled, settled, settled], strict=True))
    assert expected == found


def _pod(
    code: int | None, finished: str, *, target: str | None = None, deleted: str | None = None, reason: str = "Error"
) -> PodEnd:
    end = None if code is None else Terminated(exit_code=code, reason=reason, finished_at=finished)
    conditions = [] if target is None else [PodCondition("DisruptionTarget", "True", "X", "", target)]
    status = PodStatus(
        conditions=conditions, container_statuses=[ContainerReport("task", ContainerPhase(terminated=end))]
    )
    return PodEnd(Pod(Meta(deletion_timestamp=deleted, deletion_grace_period_seconds=30), status=status), is_gone=True)


AT, BEFORE, AFTER = "2026-11-27T05:00:30Z", "2026-11-27T05:00:29Z", "2026-11-27T05:00:31Z"
LONG_BEFORE = "2026-11-27T05:00:27Z"
ASKED = "2026-11-27T05:01:00Z"
"""The end of the grace of a deletion that was asked for at `AT`."""


@pytest.mark.parametrize(
    ("end", "is_disrupted"),
    [
        (_pod(1, BEFORE, target=AT), False),
        (_pod(137, LONG_BEFORE, target=AT), False),
        (_pod(137, BEFORE, target=AT), True),
        (_pod(137, AT, target=AT, reason="OOMKilled"), False),
        (_pod(143, BEFORE, deleted=ASKED), True),
        (_pod(1, AT, target=AT), False),
        (_pod(137, AT, target=AT), True),
        (_pod(143, AFTER, target=AT), True),
        (_pod(0, AFTER, target=AT), True),
        (_pod(3, BEFORE, deleted=ASKED), False),
        (_pod(143, AFTER, deleted=ASKED), True),
        (_pod(None, "", deleted=ASKED), True),
        (_pod(None, ""), True),
    ],
)
def test_a_program_that_had_ended_before_is_not_disrupted(end: PodEnd, *, is_disrupted: bool) -> None:
    """Its own end is its own; within what the clocks of a cluster differ, its status decides."""
    assert is_disrupted == (disruption(end) is not None)


@pytest.mark.parametrize("reason", ["Evicted", "DeadlineExceeded"])
def test_a_pod_that_passed_a_limit_and_was_deleted_afterwards_is_not_disrupted(reason: str) -> None:
    """Nor is it known when its program ended: the kubelet ended all of the pod."""
    found = _pod(None, "", deleted=ASKED)
    evicted = found._replace(pod=replace(found.pod, status=replace(found.pod.status, reason=reason)))
    assert [True, False] == [disruption(each) is not None for each in (found, evicted)]
