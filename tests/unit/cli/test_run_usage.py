"""`tickwise runs show` has what each attempt used, and what is unusual about a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli import moments
from tickwise.cli.main import main

RUN = "01a21853-68c1-8bf4-9af1-196a88fe15d9"
ATTEMPT: dict[str, Any] = {
    "attempt_number": 1, "status": "SUCCESS", "start_time": "2026-11-21T08:00:00Z", "end_time": "2026-11-21T08:00:05Z",
    "executor_id": "7", "error_message": None, "reason": None,
}  # fmt: skip
FOUND: dict[str, Any] = {"run_id": RUN, "status": "SUCCESS", "warnings": []}


def shown(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    """What is printed of this run."""
    with serving(Reply(200, found)) as server:
        assert 0 == main(["runs", "show", RUN, "--url", server.url, "--api-key", "k"])
    return capsys.readouterr().out


def test_an_attempt_has_its_processor_time_and_its_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """What was not measured is empty, also of a server of the release before."""
    used = {**ATTEMPT, "cpu_seconds": 1.2, "memory_bytes": 48_000_000, "output_bytes": 10}
    told = shown({**FOUND, "attempts": [used, {**ATTEMPT, "attempt_number": 2}]}, capsys)
    [title, first, second] = told.strip().splitlines()[-3:]
    assert ["CPU", "MEMORY"] == title.split()[4:6]
    assert ("1.2 s" in first, "48 MB" in first) == (True, True)
    assert ("1.2 s" in second, "MB" in second) == (False, False)


def test_bytes_of_disk_network_and_work_folder_are_columns_of_the_wide_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each as far as it was measured; the usual table has none of them."""
    moved = {"read_bytes": 3_000_000, "written_bytes": 0, "network_bytes": None, "work_bytes": 5_000}
    found = {**FOUND, "attempts": [{**ATTEMPT, **moved}]}
    assert "WRITTEN" not in shown(found, capsys)
    with serving(Reply(200, found)) as server:
        asked = ["runs", "show", RUN, "--columns", "try,read,written,network,work"]
        assert 0 == main([*asked, "--url", server.url, "--api-key", "k"])
    title, row = capsys.readouterr().out.strip().splitlines()[-2:]
    assert (["TRY", "READ", "WRITTEN", "NETWORK", "WORK"], ["1", "3.0", "MB", "0", "B", "5.0", "kB"]) == (
        title.split(), row.split()
    )  # fmt: skip


def test_the_image_of_an_attempt_is_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    """With its digest."""
    image = f"ghcr.io/acme/etl@sha256:{'a' * 64}"
    with serving(Reply(200, {**FOUND, "attempts": [{**ATTEMPT, "image": image}]})) as server:
        asked = ["runs", "show", RUN, "--columns", "try,image", "--url", server.url, "--api-key", "k"]
        assert 0 == main(asked)
    assert ["1", image] == capsys.readouterr().out.strip().splitlines()[-1].split()


def test_what_is_unusual_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside what is usual."""
    more = {"kind": "more", "runs_compared": 20}
    anomalies = [
        {"quantity": "duration", "value": 600.0, "low": 2.0, "high": 3.0, **more},
        {"quantity": "output", "value": 3_200_000.0, "low": 10_000.0, "high": 12_000.0, **more},
    ]
    told = shown({**FOUND, "attempts": [], "anomalies": anomalies}, capsys)
    assert "10 min, usually 2.0 s to 3.0 s" in told
    assert "3.2 MB, usually 10 kB to 12 kB" in told


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (9_960, "10 kB"),
        (48_000_000, "48 MB"),
        (999_600_000, "1.0 GB"),
        (2e15, "2000 TB"),
    ],
)
def test_a_size_has_its_largest_fitting_unit(count: float, text: str) -> None:
    """Each 1,000 of the one before."""
    assert text == moments.size(count)
