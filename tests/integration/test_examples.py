"""Every example runs as its own text says, on a whole Tickwise."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.local_up import OWN_TASKS, ROOT, Local, local_up

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of whoever runs the examples."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Local]:
    """As `examples/functions.py` says to start it."""
    with local_up(
        tmp_path_factory.mktemp("up"), "--database", "memory://",
        HOME=str(home), PYTHONPATH=str(EXAMPLES), TICKWISE_FUNCTION_MODULES="functions",
        TICKWISE_HTTP_ALLOW="127.0.0.1",
        **OWN_TASKS,
    ) as up:  # fmt: skip
        yield up


def _result(local: Local, job: str) -> object:
    (run,) = local.tickwise("runs", "list", "--job", job, "--json").json
    return local.tickwise("runs", "show", run["run_id"], "--json").json["result"]


def test_every_example_is_tested() -> None:
    """A new one joins this list, and the table of examples/README.md."""
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert {
        "hello.py", "backup_sqlite.py", "disk_usage.sh", "clean_up.json", "health_check.json", "functions.py",
    } == files  # fmt: skip
    # The gateway: tests/integration/processes/test_parts_apart.py.
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {"services_apart_tls"} == folders
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in table for name in files | {f"{folder}/" for folder in folders})


def test_hello_greets_and_leaves_a_result(local: Local) -> None:
    """The first job of everybody."""
    ran = local.tickwise("run", "examples/hello.py", "--now", "--follow", "--param", "name=Ada")
    assert 0 == ran.code, ran.err
    assert ran.out.startswith("Hello, Ada! This is run ")
    assert {"greeted": "Ada"} == _result(local, "hello")


def test_the_backup_of_the_readme_works_on_a_fresh_machine(local: Local, home: Path) -> None:
    """A bare name makes a demonstration database, and says so; the copy holds what the original does."""
    ran = local.tickwise(
        "run", "examples/backup_sqlite.py", "--now", "--follow", "--param", "db=app.db", "--name", "demo"
    )
    assert 0 == ran.code, ran.out + ran.err
    assert "making a demonstration database" in ran.out
    assert (home / "tickwise-examples" / "app.db").is_file()
    (backup,) = (home / "tickwise-examples" / "backups").glob("app-*.sqlite3")
    with closing(sqlite3.connect(backup)) as copy:
        assert (1000,) == copy.execute("SELECT count(*) FROM orders").fetchone()


def test_the_backup_keeps_the_newest_few(local: Local, tmp_path: Path) -> None:
    """Of a database named by its whole path, in a folder of the person's choice."""
    source, folder = tmp_path / "shop.db", tmp_path / "backups"
    with closing(sqlite3.connect(source)) as database, database:
        database.execute("CREATE TABLE things (name TEXT)")
    folder.mkdir()
    for day in range(1, 4):
        (folder / f"shop-2020010{day}T000000Z.sqlite3").touch()
    (folder / "shop-notes.txt").touch()
    ran = local.tickwise(
        "run", "examples/backup_sqlite.py", "--name", "keeps", "--now", "--wait",
        "--param", f"db={source}", "--param", f"folder={folder}", "--param", "keep=2",
    )  # fmt: skip
    assert 0 == ran.code, ran.err
    kept = sorted(path.name for path in folder.iterdir())
    assert 3 == len(kept)
    assert {"shop-20200103T000000Z.sqlite3", "shop-notes.txt"} < set(kept)


def test_a_backup_of_nothing_fails_and_says_why(local: Local, tmp_path: Path) -> None:
    """A whole path that leads nowhere is a mistake, never a demonstration."""
    ran = local.tickwise(
        "run", "examples/backup_sqlite.py", "--follow", "--retries", "0", "--param", f"db={tmp_path / 'gone.db'}"
    )
    assert 1 == ran.code
    assert "There is no database" in ran.out
    assert not (tmp_path / "gone.db").exists()


@pytest.mark.parametrize(("limit", "code"), [(100, 0), (0, 1)])
def test_disk_usage_fails_over_its_limit(local: Local, limit: int, code: int) -> None:
    """A shell script with parameters and a result."""
    ran = local.tickwise(
        "run", "examples/disk_usage.sh", "--follow", "--retries", "0", "--name", f"disk {limit}",
        "--param", f"limit={limit}", "--param", "path=/",
    )  # fmt: skip
    assert code == ran.code, ran.out + ran.err
    assert f"the limit is {limit} %." in ran.out


def test_clean_up_runs_when_it_is_asked_to(local: Local) -> None:
    """A shell job as JSON, with its schedule."""
    job_id = local.tickwise("jobs", "create", "examples/clean_up.json", "--json").json["job_id"]
    job = local.tickwise("jobs", "show", job_id, "--json").json
    assert ("CRON", "Europe/Berlin", 2) == (job["schedule_type"], job["timezone"], job["max_retries"])
    ran = local.tickwise("jobs", "run-now", job_id, "--follow")
    assert (0, "done") == (ran.code, ran.out.splitlines()[-1])


def test_health_check_calls_the_server(local: Local) -> None:
    """An http job as JSON; here with the address of this server."""
    body = json.loads((EXAMPLES / "health_check.json").read_text(encoding="utf-8"))
    body["task"]["url"] = body["task"]["url"].replace("http://127.0.0.1:8470", local.url)
    job_id = local.tickwise("jobs", "create", "--json", stdin=json.dumps(body)).json["job_id"]
    ran = local.tickwise("jobs", "run-now", job_id, "--wait", "--json")
    assert 0 == ran.code, ran.err
    assert 200 == ran.json["result"]["status"]


def test_functions_return_results_and_write_logs(local: Local) -> None:
    """Sync and async; a parameter that is missing is not tried again."""
    counted = local.tickwise(
        "run", "--function", "reports.count_words", "--param", "text=one two three", "--wait", "--json"
    )
    assert (0, {"words": 3}) == (counted.code, counted.json["result"]), counted.err
    reminded = local.tickwise("run", "--function", "reports.remind", "--param", "who=Ada", "--follow")
    assert 0 == reminded.code, reminded.err
    assert reminded.out.startswith("Dear Ada, it is ")
    refused = local.tickwise("run", "--function", "reports.count_words", "--wait", "--json")
    assert (1, 1) == (refused.code, refused.json["attempt_number"])
    assert 0 == local.tickwise("bench", "--jobs", "200", "--function", "reports.nothing").code
