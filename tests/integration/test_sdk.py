"""The SDK on a whole Tickwise: tasks that are submitted run in its workers; schedules are brought to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import sdk_tasks
from tests.support.local_up import OWN_TASKS, ROOT, Local, local_up
from tickwise_sdk import AsyncClient, Client, ProblemError, RegistrationError, TaskFailed, submit_many, sync
from tickwise_sdk.events import PROGRESS, follow_log
from tickwise_sdk.schedules import declared

DAY = date(2026, 1, 31)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A Tickwise whose workers have the tasks of `tests/support/sdk_tasks.py`."""
    with local_up(
        tmp_path_factory.mktemp("sdk"), "--database", "memory://",
        TICKWISE_FUNCTION_MODULES="tests.support.sdk_tasks", PYTHONPATH=str(ROOT), **OWN_TASKS,
    ) as made:  # fmt: skip
        yield made


@pytest.fixture
def client(up: Local) -> Iterator[Client]:
    """A client of it."""
    with Client(up.url, up.key) as made:
        yield made


def test_a_task_that_is_submitted_runs_and_its_result_comes_back(client: Client) -> None:
    """With its arguments converted on both sides; what it says is in the output."""
    submitted = sdk_tasks.count.submit(DAY, region="us", client=client)
    result = submitted.result()
    run = submitted.run()
    assert run is not None
    assert {"day": "2026-01-31", "region": "us", "run_id": run["run_id"]} == result
    log = client.get_run_log(run["run_id"])["text"]
    assert "progress 50% half\n" in log
    assert "INFO counting us\n" in log


def test_one_object_goes_in_and_another_one_comes_out(client: Client) -> None:
    """As the classes of the program; fields of the task are those of its jobs."""
    submitted = sdk_tasks.place.submit(sdk_tasks.Order(7, DAY), client=client)
    assert sdk_tasks.Order(8, DAY) == submitted.result()
    assert {"team": "orders"} == client.get_job(submitted.job_id)["labels"]


def test_submitting_again_under_a_key_gives_the_job_that_is_there(client: Client) -> None:
    """Of the same task; another task does not get its job."""
    at = datetime.now(UTC) + timedelta(days=1)
    first = sdk_tasks.count.submit(DAY, at=at, key="count once", client=client)
    again = sdk_tasks.count.submit(DAY, at=at, key="count once", client=client)
    assert first.job_id == again.job_id
    job = client.get_job(first.job_id)
    assert ("FUTURE", {"day": "2026-01-31"}) == (job["schedule_type"], job["payload"])
    with pytest.raises(ProblemError, match="belongs to another job"):
        sdk_tasks.tidy.submit(key="count once", client=client)


def test_many_are_submitted_in_one_request(client: Client) -> None:
    """All of them, in order."""
    days = [DAY + timedelta(days=each) for each in range(20)]
    made = submit_many([sdk_tasks.count.bind(each) for each in days], client=client)
    assert [each.isoformat() for each in days] == [each.result()["day"] for each in made]


async def test_the_asynchronous_client_does_the_same(up: Local) -> None:
    """Submit, wait, list, refuse."""
    async with AsyncClient(up.url, up.key) as client:
        submitted = await sdk_tasks.place.submit_async(sdk_tasks.Order(1, DAY), client=client)
        assert sdk_tasks.Order(2, DAY) == await submitted.result()
        runs = [run["status"] async for run in client.list_job_runs(submitted.job_id)]
        assert ["SUCCESS"] == runs
        assert await client.is_ready()
        with pytest.raises(ProblemError) as refused:
            await client.get_job("no-job")
        assert 404 == refused.value.status


def test_a_payload_for_another_version_fails_at_once_with_a_reason(client: Client) -> None:
    """Though there are retries left: the worker is older than its client, or the types have changed."""
    body = sdk_tasks.count.bind(DAY).body(fields={"max_retries": 5})
    body["payload"] = {"day": "2026-01-31", "rows": 3}
    job = client.create_job(body)["job_id"]
    submitted = type(sdk_tasks.count.submit(DAY, client=client))
    known = submitted(job, (), sdk_tasks.count.bind(DAY).conversion, client)
    with pytest.raises(TaskFailed, match=r"PayloadError: the payload does not fit count.*without `rows`") as failed:
        known.result()
    assert ("FAILED", 1, "invalid") == tuple(failed.value.run[name] for name in ("status", "attempt_number", "reason"))


def test_a_function_knows_that_it_was_cancelled(client: Client, tmp_path: Path) -> None:
    """Where it cleans up."""
    submitted = sdk_tasks.until_stopped.submit(str(tmp_path), client=client)
    with pytest.raises(TimeoutError):
        submitted.result(timeout_seconds=0.05)
    while not (tmp_path / "runs").exists():
        submitted.run()
    client.cancel_job(submitted.job_id)
    with pytest.raises(TaskFailed, match="CANCELLED"):
        submitted.result()
    assert "True" == (tmp_path / "cancelled").read_text(encoding="utf-8")


def test_a_run_says_how_far_it_is(client: Client, up: Local, tmp_path: Path) -> None:
    """In the API and in `runs show` while it goes on, and in the stream of its output; then it is over."""
    submitted = sdk_tasks.stages.submit(str(tmp_path), client=client)
    told: list[tuple[float, str]] = []
    for share in (0.25, 0.5):
        run: Any = {}
        while (run.get("progress") or {}).get("share") != share:
            latest = submitted.run()
            run = {} if latest is None else client.get_run(latest["run_id"])
        told.append((run["progress"]["share"], run["progress"]["text"]))
        shown = up.tickwise("runs", "show", run["run_id"]).out
        assert re.search(rf"progress +{share:.0%} rows", shown), shown
        (tmp_path / str(share)).touch()
    submitted.result()
    assert [(0.25, "rows"), (0.5, "rows")] == told
    assert client.get_run(run["run_id"])["progress"] is None
    events_seen = [event.data for event in follow_log(client, run["run_id"]) if event.name == PROGRESS]
    assert [(0.5, "rows")] == [(each["share"], each["text"]) for each in events_seen]


# ------------------------------------------------------------------------------------------ schedules


@pytest.fixture
def _declared() -> Iterator[None]:
    declared.clear()
    yield
    declared.clear()


@pytest.mark.usefixtures("_declared")
def test_schedules_are_brought_to_the_server_and_taken_away(client: Client) -> None:
    """Only what changed is written; what is declared no more is told, and cancelled when that is asked for."""
    sdk_tasks.tidy.schedule(cron="0 2 * * *", timezone="Europe/Berlin")
    sdk_tasks.tidy.schedule("hourly", every="1h", arguments=sdk_tasks.tidy.bind("tmp"), fields={"priority": 7})
    assert ["sdk.tidy", "sdk.tidy@hourly"] == sync(client, "shop", dry_run=True).created
    assert ["sdk.tidy", "sdk.tidy@hourly"] == sync(client, "shop").created
    job = client.get_job_by_key("sdk.tidy@hourly")
    assert (3600.0, {"folder": "tmp"}, 7, {"deployed-by": "shop"}) == (
        job["interval_seconds"], job["payload"], job["priority"], job["labels"],
    )  # fmt: skip
    assert ["sdk.tidy", "sdk.tidy@hourly"] == sync(client, "shop").unchanged

    declared.clear()
    sdk_tasks.tidy.schedule(cron="0 3 * * *", timezone="Europe/Berlin")
    report = sync(client, "shop")
    assert (["sdk.tidy"], ["sdk.tidy@hourly"], False) == (report.changed, report.removed, report.pruned)
    assert "0 3 * * *" == client.get_job_by_key("sdk.tidy")["cron_expression"]
    assert "SCHEDULED" == client.get_job(job["job_id"])["status"]
    assert ["sdk.tidy@hourly"] == sync(client, "shop", prune=True).removed
    assert "CANCELLED" == client.get_job(job["job_id"])["status"]
    assert [] == sync(client, "shop").removed

    sdk_tasks.tidy.schedule("hourly", every="2h")
    assert ["sdk.tidy@hourly"] == sync(client, "shop").created
    assert ("SCHEDULED", 7200.0) == tuple(
        client.get_job_by_key("sdk.tidy@hourly")[name] for name in ("status", "interval_seconds")
    )


@pytest.mark.usefixtures("_declared")
def test_jobs_of_others_are_left_alone(client: Client) -> None:
    """Of another program, or of a person; and a program without schedules prunes nothing by mistake."""
    with pytest.raises(RegistrationError, match="no schedule is declared"):
        sync(client, "empty", prune=True)
    client.create_job(
        {"name": "by hand", "key": "sdk.tidy@mine", "every": "1h", "task": {"kind": "shell", "command": "true"}}
    )
    sdk_tasks.tidy.schedule("mine", every="1h")
    with pytest.raises(RegistrationError, match="the key sdk.tidy@mine belongs to a job that was not made by a deploy"):
        sync(client, "empty")


# ------------------------------------------------------------------------------------------ the distribution


def _needed(name: str) -> set[str]:
    """The distributions that one needs, at any depth, as they are installed here."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for text in distribution(waiting.pop()).requires or ():
            wanted = Requirement(text)
            known = canonicalize_name(wanted.name)
            if known not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
                found.add(known)
                waiting.append(known)
    return found


@pytest.mark.takes_up_to(240)
def test_the_wheel_works_in_an_environment_without_the_server(up: Local, tmp_path: Path) -> None:
    """Built, installed by uv beside its HTTP library, which is taken from here, and used on a running server."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT / "sdk", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("tickwise_sdk-*.whl")
    venv = tmp_path / "venv"
    uv = [sys.executable, "-m", "uv", "--quiet", "--offline", "--no-config"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(venv)], check=True)
    python = venv / "bin" / "python"
    subprocess.run([*uv, "pip", "install", "--python", str(python), "--no-index", "--no-deps", str(wheel)], check=True)
    (site,) = (venv / "lib").glob("python*/site-packages")
    for name in _needed("tickwise-sdk"):
        files = distribution(name).files or ()
        for top in {path.parts[0] for path in files} - {"..", "__pycache__"}:
            (site / top).symlink_to(str(distribution(name).locate_file(top)))
    program = (
        "import tickwise_sdk, importlib.util as u\n"
        "assert not any(map(u.find_spec, ('tickwise', 'msgspec', 'asyncpg')))\n"
        "@tickwise_sdk.task('sdk.count')\n"
        "def count(day: str) -> dict: ...\n"
        "print(count.submit('2026-01-31').result()['day'])\n"
    )
    env = {"TICKWISE_URL": up.url, "TICKWISE_API_KEY": up.key, "PATH": os.environ["PATH"]}
    done = subprocess.run([python, "-c", program], env=env, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ("2026-01-31\n", "") == (done.stdout, done.stderr)
    assert (site / "tickwise_sdk" / "py.typed").is_file()


def test_the_server_takes_any_release_of_the_sdk_that_it_names() -> None:
    """Its own requirement holds for what is installed here."""
    try:
        wanted = [Requirement(text) for text in distribution("tickwise").requires or ()]
    except PackageNotFoundError:  # a checkout without its installation
        pytest.fail("tickwise is not installed here: make setup")
    (sdk,) = [each for each in wanted if each.name == "tickwise-sdk"]
    assert sdk.specifier.contains(distribution("tickwise-sdk").version)


def test_the_command_line_deploys_the_schedules_of_a_module(up: Local, tmp_path: Path) -> None:
    """From the folder where it is; what cannot be imported is said, with the reason."""
    (tmp_path / "shop_tasks.py").write_text(
        "from tickwise_sdk import task\n@task('shop.tidy')\ndef tidy() -> None: ...\ntidy.schedule(every='1h')\n",
        encoding="utf-8",
    )
    (tmp_path / "broken_tasks.py").write_text("import no_such_package\n", encoding="utf-8")
    command = [sys.executable, "-m", "tickwise", "deploy", "--app", "shop of files", "--data-dir", str(up.data_dir)]

    def said(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=dict(up.environ), capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    assert (0, "shop.tidy: would be created\n") == said("shop_tasks", "--dry-run")
    assert (0, "shop.tidy: created\n") == said("shop_tasks")
    assert (0, "shop.tidy: unchanged\n") == said("shop_tasks")
    code, text = said("broken_tasks")
    assert (2, True) == (code, "ModuleNotFoundError: No module named 'no_such_package'" in text), text
