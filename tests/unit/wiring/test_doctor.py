"""What `tickwise doctor` says of a server that was killed."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tickwise.cli.main import main

Doctor = Callable[[], tuple[int, dict[str, str]]]

NOBODY = 2**22 + 1
"""A number that no process has: Linux counts up to 2²²."""


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """A port that belongs to this test, and at which nobody listens yet."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        yield made


@pytest.fixture
def doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Calls it on an empty data folder: the exit code, and what is said of the port."""

    def call() -> tuple[int, dict[str, str]]:
        code = main(["doctor", "--json", "--data-dir", str(tmp_path), "--database", "memory://"])
        [port] = [found for found in json.loads(capsys.readouterr().out) if found["name"] == "port"]
        return code, port

    return call


def killed(data_dir: Path, taken: socket.socket) -> str:
    """The address of an `up` that left its file behind."""
    url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    (data_dir / "client.json").write_text(json.dumps({"url": url, "key": "k", "pid": NOBODY}), encoding="utf-8")
    return url


def test_a_server_that_was_killed_is_an_error_with_its_address_and_what_to_do(
    tmp_path: Path, taken: socket.socket, doctor: Doctor
) -> None:
    """All other commands go by its file, and cannot reach it: who asks the doctor is told why."""
    url = killed(tmp_path, taken)
    code, port = doctor()
    assert (1, "error") == (code, port["level"])
    for part in (url, str(tmp_path / "client.json"), "does not answer", str(NOBODY)):
        assert part in port["detail"]
    assert f"start it again: tickwise up --data-dir {tmp_path}" == port["advice"]


def test_somebody_else_at_its_address_is_worth_a_word(tmp_path: Path, taken: socket.socket, doctor: Doctor) -> None:
    """The command line would talk to a stranger; that is no proof of anything broken."""
    killed(tmp_path, taken)
    taken.listen()
    code, port = doctor()
    assert (0, "warning") == (code, port["level"])
    assert "another program answers" in port["detail"]


def test_where_nothing_was_left_behind_nothing_is_said_of_it(doctor: Doctor) -> None:
    """The port is looked at that a new one would take."""
    code, port = doctor()
    assert (0, "ok") == (code, port["level"])
