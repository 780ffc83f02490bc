"""`tickwise backup` and `restore` of an embedded installation: under load, killed in the middle, in a fresh folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.local_up import OWN_TASKS, Local, Ran, environment, local_up, run_command
from tests.support.process_groups import kill_group
from tests.support.scratch import scratch
from tests.support.waiting import eventually
from tickwise.sdk.client import Client
from tickwise.wiring.installation.archive import ArchiveHead, ArchiveWriter, opened
from tickwise.wiring.installation.restore import RESTORING

DONE = ("SUCCESS", "FAILED", "CANCELLED", "SKIPPED")
ADMIN = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
"""A key of settings."""
QUICK = {"TICKWISE_DRAIN_SECONDS": "1"}


def folder(name: str) -> Path:
    """A fresh one with a short path, which the server's user can reach."""
    return Path(tempfile.mkdtemp(prefix=f"tw-{name}-", dir=scratch()))


def tickwise(*words: str | Path) -> Ran:
    """The command, in a process of its own."""
    return run_command(words, environment())


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """For all files of the module."""
    made = folder("backups")
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def config(place: Path) -> Path:
    """Files of settings."""
    made = place / "config"
    made.mkdir()
    (made / "service.toml").write_text("slots = 3\n")
    (made / "secrets.toml").write_text(f'bootstrap_key = "{ADMIN}"\n')
    (made / "secrets.toml").chmod(0o600)
    return made


@pytest.fixture(scope="module")
def up(place: Path, config: Path) -> Iterator[Local]:
    """The installation that is backed up."""
    with local_up(place / "up", TICKWISE_CONFIG_LOCATION=str(config), **OWN_TASKS, **QUICK) as made:
        yield made


def submit(client: Client, number: int) -> str:
    """A job that runs at once; its run prints the number."""
    body = {
        "name": f"load {number}",
        "schedule_type": "IMMEDIATE",
        "task": {"kind": "shell", "command": f"echo {number}"},
    }
    return str(client.job_create(body)["job_id"])


def all_runs(client: Client) -> list[dict[str, object]]:
    return [run for page in client.pages("/runs", {"limit": 500}) for run in page]


@pytest.fixture(scope="module")
async def taken(up: Local, place: Path) -> tuple[Path, list[str], str]:
    """A backup under load, the jobs that were acknowledged before it began, and one that comes later."""
    file, stop = place / "taken.backup", asyncio.Event()
    with Client(up.url, up.key) as client:

        async def load() -> list[str]:
            jobs: list[str] = []
            while not stop.is_set():
                jobs.append(await asyncio.to_thread(submit, client, len(jobs)))
            return jobs

        before = [submit(client, number) for number in range(1_000, 1_020)]
        hourly = {"name": "hourly", "every": "1h", "task": {"kind": "shell", "command": "true"}}
        before.append(str(client.job_create({**hourly, "key": "hourly"})["job_id"]))
        loading = asyncio.create_task(load())
        ran = await asyncio.to_thread(up.tickwise_with, "backup", file, "--json")
        stop.set()
        jobs = await loading
        assert (0, "") == (ran.code, ran.err)
        assert (str(file), file.stat().st_size) == (ran.json["file"], ran.json["bytes"])
        assert len(jobs) > 3
        return file, before, submit(client, 2_000)


def test_a_backup_is_for_its_owner_alone(taken: tuple[Path, list[str], str], place: Path) -> None:
    """It holds keys. Nothing else is left beside it, and it is not written over."""
    file, _, _ = taken
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert [] == list(place.glob("*.partial"))
    again = tickwise("backup", file, "--data-dir", place / "up")
    assert (6, True) == (again.code, "is there already" in again.err)
    assert "is whole" in tickwise("restore", file, "--check").out


async def test_a_restored_installation_goes_on_once(
    taken: tuple[Path, list[str], str], place: Path, config: Path
) -> None:
    """All that was acknowledged before the backup is there, each run with its output; what was queued runs once, what
    came later is gone; keys, settings and their modes are those of before; the report says what runs again."""
    file, before, later = taken
    data_dir = place / "restored"
    ran = tickwise("restore", file, "--data-dir", data_dir)
    assert (0, "") == (ran.code, ran.err)
    for words in ("occurrences in the past", "(misfire)", "stop it first", f"tickwise up --data-dir {data_dir}"):
        assert words in ran.out
    assert ADMIN not in ran.out
    for name in ("token.key", "settings/secrets.toml", "settings/service.toml"):
        assert 0o600 == stat.S_IMODE((data_dir / name).stat().st_mode), name
    assert (config / "secrets.toml").read_text() == (data_dir / "settings/secrets.toml").read_text()
    with (
        local_up(data_dir, TICKWISE_CONFIG_LOCATION=str(data_dir / "settings"), **OWN_TASKS, **QUICK) as there,
        Client(there.url, ADMIN) as client,
    ):
        found = await eventually(lambda: _ended(client))
        jobs = {str(job["job_id"]) for page in client.pages("/jobs", {"limit": 500}) for job in page}
        assert set(before) <= jobs
        assert later not in jobs
        runs = [run for run in found if run["job_id"] != before[-1]]
        assert Counter(jobs - {before[-1]}) == Counter(str(run["job_id"]) for run in runs)
        assert {"SUCCESS"} == {run["status"] for run in runs}
        for run in runs:
            said = client.run_log(str(run["run_id"]), attempt=int(str(run["attempt_number"])))
            assert said.content.strip().isdigit(), run
    # Nothing runs there now: the server is started for the backup, and stopped again.
    alone = tickwise("backup", place / "alone.backup", "--data-dir", data_dir, "--json")
    assert (0, "", True) == (alone.code, alone.err, alone.json["blobs"] >= len(runs))
    assert not (data_dir / "postgres" / "data" / "postmaster.pid").exists()


def _ended(client: Client) -> list[dict[str, object]]:
    """All runs, once each has ended."""
    runs = all_runs(client)
    return runs if runs and all(run["status"] in DONE for run in runs) else []


def test_a_folder_that_is_used_is_left_alone(taken: tuple[Path, list[str], str], place: Path) -> None:
    """Nothing in it is touched."""
    other = place / "other"
    other.mkdir()
    (other / "mine").write_text("mine")
    ran = tickwise("restore", taken[0], "--data-dir", other)
    assert (6, True, ["mine"]) == (ran.code, "is not empty" in ran.err, os.listdir(other))


@pytest.mark.parametrize(
    ("change", "words"),
    [({"schema": "9999", "tickwise": "9.0"}, "newer Tickwise (9.0"), ({"postgresql": "99.1"}, "PostgreSQL 99")],
)
def test_a_backup_of_a_later_version_is_refused(
    taken: tuple[Path, list[str], str], place: Path, change: dict[str, str], words: str
) -> None:
    """Before anything is made."""
    file = place / "later.backup"
    with opened(taken[0]) as (head, members), file.open("wb") as stream:
        facts = {name: getattr(head, name) for name in ArchiveHead.__slots__}
        archive = ArchiveWriter(stream, ArchiveHead(**{**facts, **change}))
        for member in members:
            archive.add(member.name, member.content.read())
        archive.finish()
    ran = tickwise("restore", file, "--data-dir", place / "later")
    assert (6, True, False) == (ran.code, words in ran.err, (place / "later").exists())


def test_a_damaged_backup_makes_nothing(taken: tuple[Path, list[str], str], place: Path) -> None:
    """A byte in the middle, and the last one gone."""
    whole = taken[0].read_bytes()
    middle = len(whole) // 2
    for number, content in enumerate((whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:-1])):
        file = place / f"damaged-{number}"
        file.write_bytes(content)
        ran = tickwise("restore", file, "--data-dir", place / "damaged")
        assert (6, True, False) == (ran.code, "is damaged" in ran.err, (place / "damaged").exists())


def test_a_dump_that_cannot_be_loaded_leaves_the_folder_empty(taken: tuple[Path, list[str], str], place: Path) -> None:
    """PostgreSQL's own words say why."""
    file, data_dir = place / "no-dump.backup", place / "no-dump"
    with opened(taken[0]) as (head, _), file.open("wb") as stream:
        archive = ArchiveWriter(stream, head)
        archive.add("database/00000001", b"no dump" * 2_000)
        archive.finish()
    ran = tickwise("restore", file, "--data-dir", data_dir)
    assert (6, True, []) == (ran.code, "pg_restore said" in ran.err, os.listdir(data_dir))


async def killed(words: list[str | Path], sign: Path, is_done: Callable[[], bool], undo: Callable[[], object]) -> None:
    """Kill a command as soon as something matches `sign` (a name with *). It may be done by then, where this process
    stood still meanwhile: then that is undone, and it begins once more."""
    while True:
        process = subprocess.Popen(
            [sys.executable, "-m", "tickwise", *map(str, words)], env=environment(), stdout=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            await eventually(partial(_has_come, process, sign))
        finally:
            kill_group(process)
            process.wait()
        if not is_done():
            assert -signal.SIGKILL == process.returncode, "it failed before it was killed"
            return
        undo()


def _has_come(process: subprocess.Popen[bytes], sign: Path) -> bool:
    return process.poll() is not None or any(sign.parent.glob(sign.name))


async def test_a_backup_that_is_killed_leaves_nothing_that_restores(up: Local, place: Path) -> None:
    """What is left has another name, and is refused all the same. The next backup is whole."""
    blob, file = place / "up" / "blobs" / "logs" / "large", place / "killed.backup"

    def begin() -> None:
        file.unlink(missing_ok=True)
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(os.urandom(100_000_000))

    begin()
    words: list[str | Path] = ["backup", file, "--data-dir", up.data_dir]
    await killed(words, file.with_name("killed.backup.*.partial"), file.exists, begin)
    blob.unlink()
    assert not file.exists()
    [partial] = place.glob("killed.backup.*.partial")
    ran = tickwise("restore", partial, "--data-dir", place / "killed")
    assert (6, True, False) == (ran.code, "is damaged" in ran.err, (place / "killed").exists())
    assert 0 == tickwise("backup", file, "--data-dir", up.data_dir).code
    assert 0 == tickwise("restore", file, "--check").code


async def test_a_restore_that_is_killed_is_no_installation(taken: tuple[Path, list[str], str], place: Path) -> None:
    """Neither `up` nor another restore begins on it; both say what to do."""
    data_dir = place / "half"
    await killed(
        ["restore", taken[0], "--data-dir", data_dir], data_dir / "postgres" / "data",
        lambda: not (data_dir / RESTORING).exists(), lambda: shutil.rmtree(data_dir),
    )  # fmt: skip
    assert (data_dir / RESTORING).exists()
    for words in (("up", "--port", "0"), ("restore", taken[0])):
        ran = tickwise(*words, "--data-dir", data_dir)
        assert (6, True) == (ran.code, "did not end" in ran.err), ran.err
    assert not (data_dir / "client.json").exists()


def test_a_folder_without_an_installation_is_said_to_be_none(place: Path) -> None:
    """And is not made."""
    none = tickwise("backup", place / "none.backup", "--data-dir", place / "nowhere")
    assert (6, True, False) == (none.code, "no Tickwise in" in none.err, (place / "nowhere").exists())


def test_a_database_of_ones_own_is_not_backed_up_by_halves(place: Path) -> None:
    """It has programs and rules of its own."""
    url = "postgresql://u@localhost:1/x"
    words = ("backup", place / "own.backup", "--data-dir", place / "own")
    ran = run_command(words, environment(TICKWISE_DATABASE_URL=url))
    assert (6, True) == (ran.code, "uses a PostgreSQL of yours" in ran.err)
