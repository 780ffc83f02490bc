"""`tickwise up --store file`: everything on a log in the data folder, for one process, also after it was killed."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.local_up import Ran, environment, run_command
from tests.support.waiting import eventually


class StoreFolder:
    """A data folder and the commands on it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tickwise(self, *arguments: str, **variables: str) -> Ran:
        return run_command(arguments, environment(TICKWISE_DATA_DIR=str(self.path), **variables))


@pytest.fixture(scope="module")
def folder() -> Iterator[StoreFolder]:
    """One for the whole module, in the order of its tests."""
    path = Path(tempfile.mkdtemp(prefix="tickwise-file-"))
    path.chmod(0o711)
    found = StoreFolder(path)
    yield found
    found.tickwise("down")
    shutil.rmtree(path)


def test_it_runs_jobs_without_a_database(folder: StoreFolder) -> None:
    """It says its limits, runs a job, and no PostgreSQL is in its folder."""
    ran = folder.tickwise("up", "--store", "file", "--background", "--port", "0")
    assert 0 == ran.code, ran.err
    assert "no second process can use it" in ran.err
    hello = folder.tickwise("run", "examples/hello.py", "--key", "hello", "--follow")
    assert 0 == hello.code, hello.err
    assert hello.out.startswith("Hello, world!")
    assert {"store", "blobs"} <= {each.name for each in folder.path.iterdir()}
    assert not (folder.path / "postgresql").exists()


def test_doctor_reads_the_log_of_the_one_that_runs(folder: StoreFolder) -> None:
    """All of it is whole."""
    found = json.loads(folder.tickwise("doctor", "--json").out)
    [store] = [each for each in found if each["name"] == "store"]
    assert "ok" == store["level"], store
    assert "all whole" in store["detail"]


def test_db_status_tells_the_state_of_a_file_store(folder: StoreFolder) -> None:
    """Beside the process that has it, for people and for programs; and `db upgrade` has nothing to do."""
    told = folder.tickwise("db", "status")
    assert (0, True) == (told.code, "A file store, which has no schema and needs no upgrade: a log in " in told.out)
    found = json.loads(folder.tickwise("db", "status", "--json").out)
    assert ("file", "file", True) == (found["found"], found["needed"], found["fits"])
    assert "all whole" in found["state"]
    named = folder.tickwise("db", "status", "--database", "file:///nowhere/store")
    assert "/nowhere/store is not there yet: `tickwise up --store file` makes it" in named.out


def test_a_backup_says_how_a_file_store_is_copied(folder: StoreFolder) -> None:
    """`backup` dumps a PostgreSQL; here a copy of the folder is one."""
    ran = folder.tickwise("backup", str(folder.path / "backup.tar"))
    assert 0 != ran.code
    assert "file-store.md" in ran.err


def test_a_backup_says_it_of_one_that_was_stopped(tmp_path: Path) -> None:
    """The folder alone tells that it has a file store."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lock").touch()
    ran = StoreFolder(tmp_path).tickwise("backup", str(tmp_path / "backup.tar"))
    assert 6 == ran.code
    assert "file-store.md" in ran.err


def test_a_backup_of_a_keyspace_is_for_cassandra(tmp_path: Path) -> None:
    """Its own snapshots are the backup."""
    address = "cassandra://127.0.0.1:1/tickwise"
    ran = StoreFolder(tmp_path).tickwise("backup", str(tmp_path / "b.tar"), TICKWISE_DATABASE_URL=address)
    assert 6 == ran.code
    assert "cassandra.md" in ran.err
    assert "PostgreSQL" not in ran.err


async def test_after_a_kill_the_next_start_goes_on(folder: StoreFolder) -> None:
    """Without being told of the file store again: the job and its run are there, and it runs again."""
    pid = json.loads((folder.path / "client.json").read_text())["pid"]
    psutil.Process(pid).kill()

    async def is_gone() -> bool:
        return not psutil.pid_exists(pid)

    await eventually(is_gone)
    again = folder.tickwise("up", "--background", "--port", "0")
    assert 0 == again.code, again.err
    runs = folder.tickwise("jobs", "show", "hello", "--json").json["runs"]
    assert ["SUCCESS"] == [run["status"] for run in runs]
    hello = folder.tickwise("run", "examples/hello.py", "--key", "hello", "--follow")
    assert 0 == hello.code, hello.err


def test_a_role_apart_is_refused(folder: StoreFolder) -> None:
    """The folder has one process, and the sentence says which."""
    ran = folder.tickwise("scheduler", TICKWISE_DATABASE_URL=(folder.path / "store").as_uri())
    assert 0 != ran.code
    assert "one process" in ran.out + ran.err


def test_damage_is_told_by_doctor_and_by_the_next_start(folder: StoreFolder) -> None:
    """With the file and the byte; the start fails and changes nothing. Damage before a whole checkpoint would be passed
    over, so no file is whole here."""
    assert 0 == folder.tickwise("down").code
    damaged = {}
    for path in (folder.path / "store").glob("*-*.tw"):
        content = bytearray(path.read_bytes())
        content[min(60, len(content) - 1)] ^= 0xFF
        path.write_bytes(content)
        damaged[path] = bytes(content)
    start = folder.tickwise("up", "--port", "0")
    assert 0 != start.code
    assert re.search(r"(log|checkpoint)-\d+\.tw at byte", start.out + start.err)
    url = (folder.path / "store").as_uri()
    (folder.path / "store" / "lock").unlink()  # as in a copy that left it out
    for variables in ({}, {"TICKWISE_DATABASE_URL": url}):
        found = json.loads(folder.tickwise("doctor", "--json", **variables).out)
        assert ["error"] == [each["level"] for each in found if each["name"] == "store"], variables
        assert [] == [each for each in found if each["name"] == "database"]
    assert damaged == {path: path.read_bytes() for path in damaged}


def test_a_store_elsewhere_needs_no_data_folder_before(tmp_path: Path) -> None:
    """The first start with an address makes both folders."""
    tmp_path.chmod(0o711)
    apart = StoreFolder(tmp_path / "data")
    url = (tmp_path / "elsewhere").as_uri()
    ran = apart.tickwise("up", "--background", "--port", "0", TICKWISE_DATABASE_URL=url)
    try:
        assert 0 == ran.code, ran.err
        assert list((tmp_path / "elsewhere").glob("log-*.tw"))
    finally:
        apart.tickwise("down")


def test_a_folder_with_a_log_is_not_opened_as_postgresql(folder: StoreFolder) -> None:
    """Who names another store than the folder has is told: an empty one beside it would look like a loss."""
    ran = folder.tickwise("up", "--store", "postgresql", "--background", "--port", "0")
    assert 6 == ran.code
    assert "has a file store" in ran.err
    assert "--data-dir" in ran.err


def test_a_folder_with_a_postgresql_gets_no_log_beside_it(tmp_path: Path) -> None:
    """Each later `up` would go on with the log, and the jobs of the PostgreSQL would be gone from view."""
    cluster = tmp_path / "postgres" / "data"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("18\n")
    ran = StoreFolder(tmp_path).tickwise("up", "--store", "file", "--background", "--port", "0")
    assert 6 == ran.code
    assert "has a PostgreSQL" in ran.err
    assert not (tmp_path / "store").exists()


def test_a_file_in_place_of_the_data_folder_is_no_bug(tmp_path: Path) -> None:
    """It is said, with what to do."""
    (tmp_path / "file").touch()
    ran = StoreFolder(tmp_path / "file").tickwise("up", "--store", "file", "--port", "0")
    assert 6 == ran.code, ran.err
    assert "--data-dir" in ran.err
    assert "bug" not in ran.err


def test_shards_of_a_file_store_are_refused_with_the_reason(tmp_path: Path) -> None:
    """It is no database that could not be reached."""
    ran = StoreFolder(tmp_path).tickwise("shards", "list", "--database", f"file://{tmp_path}/store")
    assert 6 == ran.code, ran.err
    assert "a file store has no shards" in ran.err


def test_a_copy_that_was_put_back_begins_an_epoch(tmp_path: Path) -> None:
    """`db restored` before the next `up`, which goes on with tokens above all that were given. It makes no store where
    none is, and leaves one alone that is in use."""
    folder = StoreFolder(tmp_path / "data")
    missing = folder.tickwise("db", "restored", "--database", (tmp_path / "typing-error").as_uri())
    assert 0 != missing.code
    assert "there is no file store in" in missing.err
    assert not (tmp_path / "typing-error").exists()

    up = ("up", "--store", "file", "--background", "--port", "0")
    try:
        assert 0 == folder.tickwise(*up).code
        hello = folder.tickwise("run", "examples/hello.py", "--key", "hello", "--follow")
        assert 0 == hello.code, hello.err
        used = folder.tickwise("db", "restored")
        assert 0 != used.code
        assert "another process" in used.err
        folder.tickwise("down")
        report = json.loads(folder.tickwise("db", "restored", "--json").out)
        assert (1, 1 << 40, 0) == (report["epoch"], report["tokens_from"], report["queued"])
        assert 2 == json.loads(folder.tickwise("db", "restored", "--json").out)["epoch"]
        assert 0 == folder.tickwise(*up).code
        script = tmp_path / "token.py"
        script.write_text("import os\nprint(os.environ['TICKWISE_FENCING_TOKEN'])\n")
        ran = folder.tickwise("run", str(script), "--key", "token", "--follow")
        assert 2 << 40 < int(ran.out.splitlines()[0]), ran.out
    finally:
        folder.tickwise("down")
