"""Bad input and bad days, at the programs as people use them: what is wrong is said, and what to do about it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.disks import small_disk_of_test
from tests.support.local_up import Local, environment, local_up, run_command

WHEN = {"name": "a", "schedule_type": "IMMEDIATE"}
SHELL = {"kind": "shell", "command": "true"}
REFUSED, MISCONFIGURED = 4, 6
"""Exit codes of the command line."""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles on a store in memory."""
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://") as up:
        yield up


@pytest.fixture(scope="module")
def client(local: Local) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {local.key}", "Content-Type": "application/json"}
    with httpx2.Client(
        base_url=f"{local.url}/api/v1", headers=headers, timeout=60, verify=False, trust_env=False
    ) as made:
        yield made


# ------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("body", "pointer", "position", "says"),
    [
        pytest.param({**WHEN, "nmae": "b"}, "/nmae", None, "no field 'nmae'.*did you mean name", id="unknown field"),
        pytest.param({**WHEN, "max_retries": "two"}, "/max_retries", None, "whole number.*not a text", id="wrong type"),
        pytest.param(
            {"name": "a", "schedule_type": "CRON", "cron_expression": "*/5 25 * * *"},
            "/cron_expression", 4, "hour: '25' is out of range; allowed: 0-23", id="cron line with a typo",
        ),
        pytest.param(
            {"name": "a", "schedule_time": "2020-01-01T00:00:00Z"},
            "/schedule_time", None, "in the past.*give a later time, or IMMEDIATE", id="date in the past",
        ),
        pytest.param(
            {"name": "a", "schedule_type": "FUTURE", "cron_expression": "* * * * *"},
            "/cron_expression", None, "belongs to CRON, but schedule_type is FUTURE; leave one of them out",
            id="contradictory schedule_type",
        ),
        pytest.param(
            {"name": "a", "cron": "* * * * *", "timezone": "Europe/Berlim"},
            "/timezone", None, "'Europe/Berlim' is no time zone; did you mean Europe/Berlin", id="unknown time zone",
        ),
        pytest.param(
            {**WHEN, "task": {"kind": "python", "source": "import os\n\ndef f(:\n    pass\n"}},
            "/task/source", None, r"does not compile.*line 3, column 7", id="script that does not compile",
        ),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_is_refused_where_it_is_wrong(
    local: Local, client: httpx2.Client, body: dict[str, Any], pointer: str, position: int | None, says: str
) -> None:
    """By the API with a pointer, by the command line with exit code 4 and the same words; nothing is stored."""
    body = {"task": SHELL, **body}
    answer = client.post("/jobs", content=json.dumps(body))
    found = answer.json()
    assert (422, pointer, position) == (answer.status_code, found["pointer"], found.get("position"))
    assert re.search(says, found["detail"])
    ran = local.tickwise("jobs", "create", "-", stdin=json.dumps(body))
    assert (REFUSED, "") == (ran.code, ran.out)
    assert re.search(says, ran.err.replace("\n", " ")), ran.err
    assert [] == client.get("/jobs").json()


def test_a_job_of_two_megabytes_is_refused(local: Local, client: httpx2.Client) -> None:
    """413, with the limit; by the command line too, and the connection is good for the next request."""
    body = json.dumps({**WHEN, "task": SHELL, "payload": "x" * 2_000_000})
    answer = client.post("/jobs", content=body)
    assert 413 == answer.status_code
    assert re.search(r"more than 1048576 bytes; send less", answer.json()["detail"])
    ran = local.tickwise("jobs", "create", "-", stdin=body)
    assert REFUSED == ran.code
    assert "1048576 bytes" in ran.err
    assert 200 == client.get("/jobs").status_code


def test_malformed_json_is_told_from_a_wrong_job(client: httpx2.Client) -> None:
    """400, with the place where it stops to be JSON."""
    answer = client.post("/jobs", content=b'{"name" "a"}')
    found = answer.json()
    assert (400, "malformed", 8) == (answer.status_code, found["code"], found["position"])


def test_a_function_that_nobody_offers_is_said_wherever_its_run_waits(local: Local, client: httpx2.Client) -> None:
    """Accepted, because its executor may come tomorrow; the job, the run and both views of the terminal say so."""
    task = {"kind": "function", "name": "nobody.offers.this"}
    created = client.post("/jobs", content=json.dumps({**WHEN, "task": task}))
    assert 201 == created.status_code
    job_id = created.json()["job_id"]
    (run,) = client.get(f"/jobs/{job_id}/runs").json()
    says = "no active executor offers the function 'nobody.offers.this'; its runs wait until one does"
    for path in (f"/jobs/{job_id}", f"/runs/{run['run_id']}"):
        assert [says] == client.get(path).json()["warnings"], path
    assert [says] == created.json()["warnings"]
    for arguments in (("jobs", "show", job_id), ("runs", "show", run["run_id"])):
        assert "nobody.offers.this" in local.tickwise(*arguments).out.replace("\\", "")
    assert 0 == local.tickwise("runs", "cancel", run["run_id"]).code


# ------------------------------------------------------------------------------------------ bad days


@pytest.mark.parametrize(
    "arguments", [("up",), ("api",), ("scheduler", "--health-port"), ("executor", "--health-port")], ids=lambda a: a[0]
)
def test_a_port_in_use_is_named(arguments: tuple[str, ...]) -> None:
    """Exit code 6 at once: before anything is started that would have to be stopped again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        options = [*arguments[1:], port] if len(arguments) > 1 else ["--port", port]
        ran = run_command([arguments[0], *options], environment(TICKWISE_DATABASE_URL="memory://"))
    assert (MISCONFIGURED, "") == (ran.code, ran.out)
    assert re.search(rf"port {port} of 127\.0\.0\.1 cannot be opened: Address already in use", ran.err), ran.err
    assert f"Choose a free port with {options[0]}, " in ran.err
    assert "Traceback" not in ran.err


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Open to the server's user: pytest's own folders are closed to it, and then the cluster is made elsewhere."""
    path = Path(tempfile.mkdtemp(prefix="tickwise-bad-days-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


def test_a_data_folder_of_a_newer_version_is_left_alone(data_dir: Path) -> None:
    """Which versions there are, and both ways out; nothing in the folder is changed."""
    version = data_dir / "postgres" / "VERSION"
    version.parent.mkdir()
    version.write_text("9\n")
    ran = run_command(["up", "--data-dir", data_dir, "--port", "0"], environment())
    assert MISCONFIGURED == ran.code
    assert re.search(r"made by a newer Tickwise: .* has layout 9, and this one knows \d+ at most", ran.err), ran.err
    assert "Install that version or a newer one, or start with another --data-dir" in ran.err
    assert (["VERSION"], "9\n") == ([file.name for file in version.parent.iterdir()], version.read_text())


@pytest.fixture
def small_disk(data_dir: Path) -> Iterator[Path]:
    """A disk of 50 MB."""
    with small_disk_of_test(data_dir, 50, mode="0711") as disk:
        yield disk


def test_a_full_disk_is_said_before_anything_is_made(small_disk: Path) -> None:
    """How much is free, how much is needed, and what to do: a database that runs out of disk stops for good."""
    ran = run_command(["up", "--data-dir", small_disk, "--port", "0"], environment())
    assert MISCONFIGURED == ran.code
    assert re.search(r"No space is left on the disk of .*: \d+ MB are free, and \d+ MB are needed", ran.err), ran.err
    assert "Free some space there, or start with another --data-dir" in ran.err


@pytest.mark.parametrize("role", ["api", "scheduler", "executor"])
def test_a_role_without_a_database_says_how_to_give_one(role: str) -> None:
    """Or how to do without."""
    options = ["--port", "0"] if role == "api" else []
    ran = run_command([role, *options], environment())
    assert MISCONFIGURED == ran.code
    assert "set TICKWISE_DATABASE_URL, or use `tickwise up`" in ran.err
