"""`tickwise up` and `down` on an embedded database: in the background, twice, after a crash."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.support.local_up import Ran, environment, run_command
from tests.support.waiting import eventually
from tickwise.cli.failures import Exit


class Folder:
    """A data folder and the commands on it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tickwise(self, *arguments: str) -> Ran:
        return run_command(arguments, self.environ)

    @property
    def environ(self) -> dict[str, str]:
        return environment(TICKWISE_DATA_DIR=str(self.path))


@pytest.fixture(scope="module")
def folder() -> Iterator[Folder]:
    """One for the whole module, in the order of its tests: a first start makes a database, which takes its time."""
    path = Path(tempfile.mkdtemp(prefix="tickwise-up-"))
    # For root, whose database runs as another user: pytest's own folders are closed to that one.
    path.chmod(0o711)
    found = Folder(path)
    yield found
    found.tickwise("down")
    shutil.rmtree(path)


def test_up_in_the_background_is_ready_when_it_returns(folder: Folder) -> None:
    """It names the address, the data folder, the log file and the process; the next command needs nothing else."""
    ran = folder.tickwise("up", "--background", "--port", "0", "--json")
    assert 0 == ran.code, ran.err
    assert {"url", "data_dir", "log", "pid"} == set(ran.json)
    assert psutil.pid_exists(ran.json["pid"])
    assert Path(ran.json["log"]).is_file()
    hello = folder.tickwise("run", "examples/hello.py", "--now", "--follow")
    assert 0 == hello.code, hello.err
    assert hello.out.startswith("Hello, world!")


def test_a_job_with_a_key_is_the_same_job_each_time(folder: Folder) -> None:
    """As for `make up`, which runs its first job whenever it is called: one job, changed to what is said now, with a
    run for each time."""
    said = ("run", "examples/hello.py", "--key", "hello", "--follow", "--param")
    for name in ("Ada", "Bob"):
        hello = folder.tickwise(*said, f"name={name}")
        assert 0 == hello.code, hello.err
        assert hello.out.startswith(f"Hello, {name}!")
    [job] = [each for each in folder.tickwise("jobs", "list", "--json").json if each["key"] == "hello"]
    runs = folder.tickwise("jobs", "show", job["job_id"], "--json").json["runs"]
    assert ["SUCCESS", "SUCCESS"] == [run["status"] for run in runs]
    assert 0 == folder.tickwise("jobs", "cancel", "hello").code


def test_a_job_with_a_key_may_have_a_schedule(folder: Folder) -> None:
    """The schedule is changed as all else is."""
    for cron in ("0 3 * * *", "0 4 * * *"):
        ran = folder.tickwise("run", "--shell", "true", "--key", "nightly", "--cron", cron)
        assert 0 == ran.code, ran.err
    assert "0 4 * * *" == folder.tickwise("jobs", "show", "nightly", "--json").json["cron_expression"]
    assert 0 == folder.tickwise("jobs", "cancel", "nightly").code


def test_what_holds_a_key_is_only_for_its_user(folder: Folder) -> None:
    """The files for the command line; the log, which may name what is private, holds no key."""
    log = folder.path / "log" / "up.log"
    for path in (folder.path / "client.json", folder.path / "local.key", log):
        assert 0 == stat.S_IMODE(path.stat().st_mode) & 0o077, path
    key = json.loads((folder.path / "client.json").read_text(encoding="utf-8"))["key"]
    assert key.startswith("tw_")
    said = log.read_text(encoding="utf-8")
    assert key not in said
    assert str(folder.path / "local.key") in said


def test_a_second_up_says_that_it_is_up(folder: Folder) -> None:
    """In the background it is no error, in the foreground it is one; nothing is broken by either."""
    before = json.loads((folder.path / "client.json").read_text(encoding="utf-8"))
    again = folder.tickwise("up", "--background")
    assert 0 == again.code
    assert "up already" in again.out
    assert before["url"] in again.out
    front = folder.tickwise("up", "--port", "0")
    assert 6 == front.code
    assert before["url"] in front.err
    assert 0 == folder.tickwise("jobs", "list").code


async def test_up_shows_a_terminal_a_link_that_signs_in_once(folder: Folder) -> None:
    """In the background, on a terminal alone: elsewhere a log would keep it, and the command is named."""
    again = folder.tickwise("up", "--background")
    assert (True, False) == ("pages        tickwise open" in again.out, "/open/" in again.out)
    ours, theirs = os.openpty()
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tickwise", "up", "--background", env=folder.environ, stdin=DEVNULL, stdout=theirs
    )
    os.close(theirs)
    link = await link_on(ours)
    assert 0 == await ran.wait()
    os.close(ours)
    await opens_once(link)


async def test_up_in_the_foreground_shows_it_too(tmp_path: Path) -> None:
    """With the first lines of a fresh installation."""
    folder = Folder(tmp_path)
    ours, theirs = os.openpty()
    words = ("up", "--port", "0", "--database", "memory://")
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tickwise", *words, env=folder.environ, stdin=DEVNULL, stdout=DEVNULL, stderr=theirs
    )
    os.close(theirs)
    try:
        await opens_once(await link_on(ours))
    finally:
        ran.terminate()
        while await asyncio.to_thread(end_of, ours):
            pass
        assert 0 == await ran.wait()
        os.close(ours)


def end_of(terminal: int) -> bytes:
    """The next bytes; none once the process has closed its side."""
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so of a terminal whose other side is closed
        return b""


async def link_on(terminal: int) -> str:
    """The link to the pages that is shown there."""
    text = b""
    while (found := re.search(rb"(http://127\.0\.0\.1:\d+/open/\S+) \(signs in once, within 5 minutes", text)) is None:
        more = await asyncio.to_thread(end_of, terminal)
        assert more, text.decode()
        text += more
    return found[1].decode()


async def opens_once(link: str) -> None:
    """The first visit is signed in, the second is not."""
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        first, second = await client.get(link), await client.get(link)
    assert (303, "/") == (first.status_code, first.headers["location"])
    assert first.headers["set-cookie"].startswith("__Host-tickwise-")
    assert (True, False) == (second.status_code >= 400, "set-cookie" in second.headers)


def test_the_doctor_finds_nothing_broken(folder: Folder) -> None:
    """On a machine where everything runs."""
    ran = folder.tickwise("doctor", "--json")
    assert [] == [finding for finding in ran.json if finding["level"] == "error"]
    assert 0 == ran.code


def test_the_doctor_looks_at_the_up_that_runs(folder: Folder) -> None:
    """At its port and its database, not at those that a new one would take."""
    local = json.loads((folder.path / "client.json").read_text(encoding="utf-8"))
    found = {finding["name"]: finding for finding in folder.tickwise("doctor", "--json").json}
    assert f"{local['url']} is served by `tickwise up`, process {local['pid']}" == found["port"]["detail"]
    assert "1 alive" == found["executors"]["detail"]


async def test_it_starts_again_after_everything_was_killed(folder: Folder) -> None:
    """On the same data; the files of the dead one deceive nobody."""
    pid = json.loads((folder.path / "client.json").read_text(encoding="utf-8"))["pid"]
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    doctor = folder.tickwise("doctor", "--json")
    assert (1, ["port"]) == (doctor.code, [found["name"] for found in doctor.json if found["level"] == "error"])
    down = folder.tickwise("down")
    assert 0 == down.code
    assert "Nothing runs" in down.out
    assert 0 == folder.tickwise("up", "--background", "--port", "0").code
    jobs = folder.tickwise("jobs", "list", "--json").json
    assert ["hello"] == [job["name"] for job in jobs if job["status"] != "CANCELLED"]


def test_one_that_runs_earlier_code_is_restarted_by_the_next(folder: Folder) -> None:
    """By `make up` after an upgrade: at its address and on its data. (Its own record is set back here.)"""
    file = folder.path / "client.json"
    before = json.loads(file.read_text(encoding="utf-8"))
    jobs = folder.tickwise("jobs", "list", "--json").json
    file.write_text(json.dumps({**before, "version": "0.0.9"}), encoding="utf-8")
    ran = folder.tickwise("up", "--background")
    assert (0, True) == (ran.code, "It runs Tickwise 0.0.9" in ran.err), ran.err
    after = json.loads(file.read_text(encoding="utf-8"))
    assert (before["url"], False) == (after["url"], before["pid"] == after["pid"])
    assert (before["version"], before["build"]) == (after["version"], after["build"])
    assert not psutil.pid_exists(before["pid"])
    assert [job["job_id"] for job in jobs] == [job["job_id"] for job in folder.tickwise("jobs", "list", "--json").json]


def test_a_restart_keeps_the_settings_and_a_second_up_says_that_it_changes_none(folder: Folder) -> None:
    """An upgrade from another shell serves the same queues and finds the same functions' modules; a call with other
    settings is told that they are not in force."""
    file = folder.path / "client.json"
    given = {**folder.environ, "TICKWISE_QUEUES": "default,web1"}
    assert 0 == folder.tickwise("up", "--background", "--port", "0").code
    told = run_command(("up", "--background"), given)
    assert (0, True) == (told.code, "queues is default there and default,web1 here" in told.err), told.err
    folder.tickwise("down")
    assert 0 == run_command(("up", "--background", "--port", "0"), given).code
    before = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**before, "version": "0.0.9"}), encoding="utf-8")
    ran = folder.tickwise("up", "--background")
    assert (0, True) == (ran.code, "It keeps its settings: TICKWISE_QUEUES=default,web1" in ran.err), ran.err
    # The newest first: one that was killed before counts as alive until its lease is over.
    assert ["default", "web1"] == folder.tickwise("executors", "list", "--json").json[0]["queues"]


def test_functions_of_the_callers_folder_are_found_in_the_background(tmp_path: Path) -> None:
    """As in the foreground; where a module is not there, the places are told."""
    (tmp_path / "shop_jobs.py").write_text(
        "from tickwise_sdk import task\n\n\n@task('shop.tidy')\ndef tidy() -> int:\n    return 7\n"
    )
    data = Folder(tmp_path / "data")
    command = [sys.executable, "-m", "tickwise", "up", "--background", "--port", "0", "--database", "memory://"]
    for modules, code in (("shop_jobs", 0), ("no_such_module", int(Exit.MISCONFIGURED))):
        environ = {**data.environ, "TICKWISE_FUNCTION_MODULES": modules}
        ran = subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert code == ran.returncode, ran.stderr
        if code == 0:
            done = data.tickwise("run", "--function", "shop.tidy", "--now", "--wait")
            assert 0 == done.code, done.err
        data.tickwise("down")
    assert f"it is looked for in {tmp_path}, on PYTHONPATH" in ran.stderr


def test_an_upgrade_from_another_folder_finds_the_functions_of_the_one_before(tmp_path: Path) -> None:
    """`make up` after a `git pull` runs in the checkout, and the modules lie elsewhere: beside the caller of the first
    `up`, or on its PYTHONPATH. Modules that cannot be loaded any more leave the one that runs alone."""
    shop, parts, data = tmp_path / "shop", tmp_path / "parts", Folder(tmp_path / "data")
    shop.mkdir()
    parts.mkdir()
    (parts / "shop_parts.py").write_text("SEVEN = 7\n")
    module = shop / "shop_jobs.py"
    module.write_text(
        "from shop_parts import SEVEN\nfrom tickwise_sdk import task\n\n\n@task('shop.tidy')\n"
        "def tidy() -> int:\n    return SEVEN\n"
    )
    command = [sys.executable, "-m", "tickwise", "up", "--background", "--port", "0", "--database", "memory://"]
    given = {**data.environ, "TICKWISE_FUNCTION_MODULES": "shop_jobs", "PYTHONPATH": str(parts)}
    first = subprocess.run(command, env=given, cwd=shop, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == first.returncode, first.stderr
    file = data.path / "client.json"
    try:
        for is_broken in (False, True):
            if is_broken:
                module.write_text(f"{module.read_text()}\nimport no_such_package\n")
            before = json.loads(file.read_text(encoding="utf-8"))
            file.write_text(json.dumps({**before, "version": "0.0.9"}), encoding="utf-8")
            ran = data.tickwise("up", "--background")
            after = json.loads(file.read_text(encoding="utf-8"))
            assert (is_broken, int(Exit.MISCONFIGURED) if is_broken else 0) == (before["pid"] == after["pid"], ran.code)
            assert ("No module named 'no_such_package'" if is_broken else f"are looked for in {shop}.") in ran.err
            done = data.tickwise("run", "--function", "shop.tidy", "--now", "--wait")
            assert 0 == done.code, done.err
    finally:
        data.tickwise("down")


def test_a_restart_that_fails_says_how_to_start_with_the_settings_of_the_one_before(tmp_path: Path) -> None:
    """The record of the one before is gone by then. Here a setting of the next one is refused at its start."""
    data = Folder(tmp_path / "data")
    place = ("--port", "0", "--database", "memory://")
    given = {**data.environ, "TICKWISE_QUEUES": "default,web1"}
    assert 0 == run_command(("up", "--background", *place), given).code
    file = data.path / "client.json"
    before = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**before, "version": "0.0.9"}), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = data.tickwise("up", "--background", "--port", port)
    assert (int(Exit.MISCONFIGURED), True) == (ran.code, "The one before has ended." in ran.err), ran.err
    command = ran.err.strip().splitlines()[-1].strip()
    wanted = f"-m tickwise up --background --data-dir {data.path} --port {port}"
    assert (True, True) == ("TICKWISE_QUEUES=default,web1 " in command, command.endswith(wanted)), command


def test_one_of_another_installation_or_a_newer_one_goes_on(folder: Folder) -> None:
    """Two checkouts that share a folder do not stop each other's."""
    file, note = folder.path / "client.json", folder.path / "installation"
    before, ours = json.loads(file.read_text(encoding="utf-8")), note.read_text(encoding="utf-8")
    for facts, place in (({"version": "99.0"}, ours), ({"build": "another"}, "/another/checkout\n")):
        file.write_text(json.dumps({**before, **facts}), encoding="utf-8")
        note.write_text(place, encoding="utf-8")
        ran = folder.tickwise("up", "--background")
        assert (0, True) == (ran.code, "up already" in ran.out), ran.err
        assert psutil.pid_exists(before["pid"])
    file.write_text(json.dumps(before), encoding="utf-8")
    note.write_text(ours, encoding="utf-8")


def test_down_stops_it_and_waits(folder: Folder) -> None:
    """Afterwards nothing of it is left; doing it twice is no error."""
    pid = json.loads((folder.path / "client.json").read_text(encoding="utf-8"))["pid"]
    ran = folder.tickwise("down", "--json")
    assert (0, pid) == (ran.code, ran.json["stopped"]), ran.err
    assert not psutil.pid_exists(pid)
    assert not (folder.path / "client.json").exists()
    assert f"Waiting for process {pid} to end" in ran.err
    assert 3 == folder.tickwise("jobs", "list").code
    assert "Nothing runs" in folder.tickwise("down").out


def test_down_never_stops_a_process_that_is_not_ours(tmp_path: Path) -> None:
    """A number in an old file may belong to anybody by now."""
    stranger = psutil.Popen(["sleep", "60"])
    try:
        value = {"url": "http://127.0.0.1:1", "key": "k", "pid": stranger.pid}
        (tmp_path / "client.json").write_text(json.dumps(value), encoding="utf-8")
        ran = Folder(tmp_path).tickwise("down")
        assert 0 == ran.code
        assert stranger.is_running()
        assert stranger.status() != psutil.STATUS_ZOMBIE
    finally:
        stranger.kill()
        stranger.wait()


def test_a_port_in_use_is_said_where_the_person_looks(tmp_path: Path) -> None:
    """Also by the one that starts in the background; exit code 6 and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments in (("up",), ("up", "--background")):
            ran = Folder(tmp_path).tickwise(*arguments, "--port", port, "--database", "memory://")
            assert 6 == ran.code
            assert f"port {port}" in ran.err
            assert "--port" in ran.err
            assert "Traceback" not in ran.err


def test_a_data_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "file").touch()
    ran = Folder(tmp_path / "file" / "data").tickwise("up", "--background", "--port", "0")
    assert 6 == ran.code
    assert "--data-dir" in ran.err
