"""Scripts that declare an environment, with real builds by uv: from packages that the tests make, without a network."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import generate_latest

from tests.support.environments import opened
from tests.support.packages import add_source, add_wheel, index_of
from tests.support.runners import OWN_USER, gone
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.environments import EnvironmentSettings, UvEnvironments
from tickwise.adapters.environments.folder import EnvironmentFolder
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.observability.metrics import Metrics
from tickwise.ports.environments import (
    ENVIRONMENT_INVALID,
    ENVIRONMENT_TIMEOUT,
    ENVIRONMENT_UNAVAILABLE,
    EnvironmentDemand,
    EnvironmentFailure,
)
from tickwise.ports.runner import Ending, Verdict
from tickwise.testing.contracts.environments import ignored
from tickwise.testing.contracts.runner import Listener, assignment, log_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as users of their own")
HEADER = '# /// script\n# dependencies = ["tickle"]\n# ///\n'
TELL = 'import json, os, sys\njson.dump({}, open(os.environ["TICKWISE_RESULT_FILE"], "w"))\n'
TICKLE = HEADER + "import tickle\n" + TELL.format("[tickle.WORD, sys.prefix, os.environ['VIRTUAL_ENV']]")
HANG = "open({file!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
QUIET = EnvironmentDemand("default", "tickle", from_source=True)
"""As of a script that is a plain process."""


class Shop:
    """A runner with environments, and its listener."""

    def __init__(self, root: Path, links: Path, **settings: Any) -> None:
        self.root, self.links = root, links
        self.blobs = open_blobs("memory://")
        self.listener = Listener()
        self.metrics = Metrics()
        users = settings.pop("run_tasks_as", OWN_USER)
        place = settings.pop("place", root / "environments")
        given = {"root": place, "find_links": str(links), "is_offline": True, **settings}
        self.environments = UvEnvironments(EnvironmentSettings(**given), SystemClock(), self.metrics)
        self.runner = ProcessRunner(
            RunnerSettings(
                blobs=self.blobs,
                clock=SystemClock(),
                work_root=root / "work",
                kill_grace_seconds=0.2,
                run_tasks_as=users,
                environments=self.environments,
            )
        )

    @property
    def folder(self) -> EnvironmentFolder:
        return EnvironmentFolder(self.environments._host.root)

    async def run(self, task: dict[str, Any], **changes: Any) -> tuple[Ending, str]:
        """Its ending and its log."""
        given = assignment({"kind": "python", **task}, **changes)
        self.runner.launch([given])
        ending = await self.listener.ending_of(given)
        return ending, await log_of(self.blobs, given)

    def count(self, name: str) -> float:
        """A metric of this executor."""
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


@pytest.fixture
def links(tmp_path: Path) -> Path:
    folder = tmp_path / "links"
    folder.mkdir()
    add_wheel(folder, "tickle", "WORD = 'hello'\n")
    return folder


@pytest_asyncio.fixture
async def shop(tmp_path: Path, links: Path) -> AsyncIterator[Shop]:
    made = Shop(tmp_path, links)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.runner.close()
    assert [] == [*(tmp_path / "environments/building").iterdir()], "a build left something behind"


# ------------------------------------------------------------------------------------------ scripts


async def test_a_script_runs_with_the_packages_of_its_header(shop: Shop) -> None:
    """Built for the first run, whose log shows that; found by the second. Programs of the environment come first."""
    ending, log = await shop.run({"source": TICKLE})
    word, prefix, venv = json.loads(ending.result or str(ending))
    assert ("hello", prefix) == (word, venv)
    assert Path(prefix).is_relative_to(shop.environments.root / "ready")
    assert "tickle==1.0" in log
    again, log = await shop.run({"source": TICKLE})
    assert (ending.result, "") == (again.result, log)
    assert (1, 1) == (
        shop.count("tickwise_environment_build_seconds_count"),
        shop.count("tickwise_environments_reused_total"),
    )


@pytest.mark.parametrize("field", ["requirements", "uv.lock", "pylock.toml"])
async def test_a_task_brings_its_packages_along(shop: Shop, tmp_path: Path, field: str) -> None:
    """As requirements, or as the lock of uv or of PEP 751; the script itself says nothing."""
    task = {"source": "import tickle\n" + TELL.format("tickle.WORD")}
    if field == "requirements":
        ending, _ = await shop.run({**task, "requirements": "# what it needs\ntickle==1.0  # the newest\n"})
    else:
        index = tmp_path / "index"
        (index / "tickle").mkdir(parents=True)
        add_wheel(index / "tickle", "tickle", "WORD = 'hello'\n")
        with index_of(index) as address:
            shop.environments._settings = EnvironmentSettings(root=shop.environments.root, index_url=address)
            ending, log = await shop.run({**task, "lock": _locked(tmp_path / "project", address)[field]})
            assert "tickle==1.0" in log
            assert "warning" not in log  # of uv, about its own options
    assert ending.result == '"hello"', ending


def _locked(project: Path, index: str) -> dict[str, str]:
    """The locks that uv makes of a project, by the name of their file."""
    from uv import find_uv_bin

    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "project"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["tickle"]\n'
    )
    variables = {"UV_DEFAULT_INDEX": index, "UV_CACHE_DIR": str(project / "cache"), "UV_NO_CONFIG": "1"}
    for command in (["lock"], ["export", "--format", "pylock.toml", "-o", "pylock.toml"]):
        subprocess.run(
            [find_uv_bin(), *command, "--quiet"], cwd=project, env=variables | {"PATH": os.defpath}, check=True
        )
    return {name: (project / name).read_text() for name in ("uv.lock", "pylock.toml")}


async def test_an_error_quotes_the_script_and_not_the_build_before_it(shop: Shop) -> None:
    """The log has both; the first run would else fail with another error than all that follow."""
    ending, log = await shop.run({"source": HEADER + "import sys\nprint('mine')\nsys.exit(3)\n"})
    assert "exit status 3: mine" == ending.error
    assert "building the environment" in log
    assert log.endswith("mine\n")


async def test_a_script_that_declares_nothing_runs_as_before(shop: Shop) -> None:
    """On the executor's own Python, with nothing built; also with a header that this Python fulfils."""
    for source in ("pass", '# /// script\n# requires-python = ">=3.11"\n# dependencies = []\n# ///\n'):
        ending, _ = await shop.run({"source": source})
        assert ending.verdict is Verdict.OK, ending
    assert [] == shop.folder.stored()


async def test_the_environment_of_a_held_run_is_built_before_it_is_due(shop: Shop) -> None:
    """So the first run finds it, and its log says nothing of a build. Others have nothing to prepare."""
    for source in (TICKLE, TICKLE, "pass", HEADER.replace("tickle", "tickle>=2"), "# /// script\n# a = \n# ///\n"):
        shop.runner.prepare(assignment({"kind": "python", "source": source}))
    await eventually(lambda: not shop.runner._script_environments._preparing)
    assert 1 == len(shop.folder.stored())
    ending, log = await shop.run({"source": TICKLE})
    assert (Verdict.OK, "") == (ending.verdict, log)


async def test_a_dependency_that_does_not_exist_fails_for_good(shop: Shop) -> None:
    """With the words of uv, in the error and in the log; no retry follows."""
    ending, log = await shop.run({"source": HEADER.replace("tickle", "tickle>=2")})
    assert (Verdict.INVALID, ENVIRONMENT_INVALID) == (ending.verdict, ending.reason)
    assert "tickle>=2" in (ending.error or "")
    assert "tickwise: " not in (ending.error or "")
    assert "No solution found" in log
    assert 1 == shop.count("tickwise_environments_failed_total")


async def test_a_python_that_is_not_there_fails_for_good(shop: Shop) -> None:
    """It is looked for on the machine, and never downloaded."""
    ending, _ = await shop.run({"source": '# /// script\n# requires-python = ">=3.99"\n# ///\n'})
    assert (Verdict.INVALID, ENVIRONMENT_INVALID) == (ending.verdict, ending.reason)
    assert ">=3.99" in (ending.error or "")


async def test_a_lock_that_is_none_fails_for_good(shop: Shop) -> None:
    """The builder reads it, and says what it wants."""
    ending, _ = await shop.run({"source": "pass", "lock": "version = 1\n[[package]]\n"})
    assert (Verdict.INVALID, ENVIRONMENT_INVALID) == (ending.verdict, ending.reason)
    assert "uv.lock" in (ending.error or "")


async def test_an_index_that_is_away_is_asked_again(tmp_path: Path, links: Path) -> None:
    """The attempt fails and may be tried again."""
    async with opened(tmp_path, is_offline=False, index_url="http://127.0.0.1:1/") as environments:
        found = await environments.acquire(QUIET, ignored)
    assert isinstance(found, EnvironmentFailure)
    assert (ENVIRONMENT_UNAVAILABLE, False) == (found.reason, found.is_permanent)


async def test_packages_come_from_the_index_of_the_settings(tmp_path: Path) -> None:
    """An address over HTTP; nothing else is asked."""
    index = tmp_path / "index"
    (index / "only").mkdir(parents=True)
    add_wheel(index / "only", "only")
    with index_of(index) as address:
        async with opened(tmp_path, is_offline=False, index_url=address) as environments:
            found = await environments.acquire(EnvironmentDemand("default", "only"), ignored)
    assert not isinstance(found, EnvironmentFailure), found
    found.release()


async def test_a_build_that_hangs_is_ended_with_all_its_processes(tmp_path: Path, links: Path) -> None:
    """By its timeout; the attempt may be tried again."""
    number = tmp_path / "number"
    add_source(links, "hanging", HANG.format(file=str(number)))
    async with opened(tmp_path, find_links=str(links), build_seconds=6.0) as environments:
        found = await environments.acquire(EnvironmentDemand("default", "hanging", from_source=True), ignored)
    assert isinstance(found, EnvironmentFailure)
    assert (ENVIRONMENT_TIMEOUT, False) == (found.reason, found.is_permanent)
    assert gone(int(number.read_text()))
    assert [] == [*(tmp_path / "environments/building").iterdir()]


async def test_a_full_disk_is_told_and_tried_again(tmp_path: Path, links: Path) -> None:
    """The words of the system are recognised in those of uv."""
    add_source(links, "large", "raise OSError(28, 'No space left on device')")
    async with opened(tmp_path, find_links=str(links)) as environments:
        found = await environments.acquire(EnvironmentDemand("default", "large", from_source=True), ignored)
    assert isinstance(found, EnvironmentFailure)
    assert ENVIRONMENT_UNAVAILABLE == found.reason
    assert "no space is left on the disk" in found.detail


def test_a_program_that_finds_no_room_leaves_none_of_it(tmp_path: Path) -> None:
    """What was copied of it would keep the disk full."""
    folder, source = EnvironmentFolder(tmp_path / "environments"), tmp_path / "program"
    source.write_bytes(b"x" * 100_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            folder.program(source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [] == [*(folder.root / "programs").iterdir()]
    assert folder.program(source).read_bytes() == source.read_bytes()


async def test_a_cancelled_attempt_does_not_wait_for_its_build(shop: Shop, tmp_path: Path) -> None:
    """It ends at once; the build goes on until the executor closes, and then nothing of it lives."""
    number = tmp_path / "number"
    add_source(shop.links, "hanging", HANG.format(file=str(number)))
    given = assignment({"kind": "python", "source": "pass", "requirements": "hanging"})
    shop.runner.launch([given])
    await eventually(number.exists)
    shop.runner.stop(given.run_id, grace_seconds=0.0)
    ending = await shop.listener.ending_of(given)
    assert Verdict.CANCELLED is ending.verdict
    await eventually(lambda: number.read_text() != "")
    assert not gone(int(number.read_text()))
    await shop.runner.close()
    assert gone(int(number.read_text()))


# ------------------------------------------------------------------------------------------ ahead, and after a failure


async def test_an_environment_is_built_ahead_of_any_run(shop: Shop) -> None:
    """At low priority; the first run finds it. A declaration that the executor's own Python fulfils builds nothing."""
    add_source(shop.links, "polite", f"open({str(shop.root / 'nice')!r}, 'w').write(str(os.nice(0)))")
    assert await shop.runner.warm(EnvironmentDemand("default", "polite", from_source=True)) is None
    assert str(os.nice(0) + 10) == (shop.root / "nice").read_text()
    assert await shop.runner.warm(EnvironmentDemand("default", python=">=3.9")) is None
    assert ["polite"] == [each.facts.declared for each in shop.folder.stored()]
    ending, log = await shop.run({"source": "import polite", "requirements": "polite"})
    assert (Verdict.OK, "") == (ending.verdict, log)


async def test_what_cannot_be_built_ahead_is_told(shop: Shop) -> None:
    """And the first run fails with it at once, without another build."""
    failure = await shop.runner.warm(EnvironmentDemand("default", "tickle>=2", from_source=True))
    assert failure is not None
    assert ENVIRONMENT_INVALID == failure.reason
    ending, log = await shop.run({"source": "pass", "requirements": "tickle>=2"})
    assert (Verdict.INVALID, failure.detail) == (ending.verdict, ending.error)
    assert "the last build of this environment failed; it is tried again in 300 s" in log
    assert 1 == shop.count("tickwise_environments_failed_total")


async def test_a_build_that_failed_for_now_is_tried_again_after_a_pause(shop: Shop) -> None:
    """The attempt says how long, and the retries of its job wait for so long at least."""
    add_source(shop.links, "large", "raise RuntimeError('error sending request')")
    ending, _ = await shop.run({"source": "pass", "requirements": "large"})
    assert (Verdict.FAILED, ENVIRONMENT_UNAVAILABLE, 1.0) == (
        ending.verdict, ending.reason, ending.retry_after_seconds,
    )  # fmt: skip
    again, _ = await shop.run({"source": "pass", "requirements": "large"})
    assert again.retry_after_seconds is not None
    assert 0.0 < again.retry_after_seconds < 1.0 or 2.0 == again.retry_after_seconds


async def test_a_run_is_given_back_where_the_disk_is_full(shop: Shop) -> None:
    """Another executor may have room; the failure counts as none of the run's own."""
    add_source(shop.links, "large", "raise OSError(28, 'No space left on device')")
    ending, _ = await shop.run({"source": "pass", "requirements": "large"})
    assert (Verdict.UNOFFERED, ENVIRONMENT_UNAVAILABLE) == (ending.verdict, ending.reason)
    assert "no space is left on the disk" in (ending.error or "")
    assert ending.retry_after_seconds is not None


# ------------------------------------------------------------------------------------------ limits of a build


async def test_a_build_that_fills_the_disk_is_ended(tmp_path: Path, links: Path) -> None:
    """With a reason that names the setting; nothing of it stays."""
    add_source(links, "large", "open('filling', 'wb').write(bytes(8 << 20))\ntime.sleep(600)")
    async with opened(tmp_path, find_links=str(links), build_bytes=4 << 20) as environments:
        found = await environments.acquire(EnvironmentDemand("default", "large", from_source=True), ignored)
        assert isinstance(found, EnvironmentFailure)
        assert (ENVIRONMENT_INVALID, True) == (found.reason, found.is_permanent)
        assert "TICKWISE_ENVIRONMENT_BUILD_BYTES" in found.detail
        assert [] == [*(environments.root / "building").iterdir()]


async def test_a_build_that_takes_too_much_memory_is_ended(tmp_path: Path, links: Path) -> None:
    """All processes of it count; nothing of them lives afterwards."""
    number = tmp_path / "number"
    add_source(links, "greedy", f"kept = b'x' * (300 << 20)\n{HANG.format(file=str(number))}")
    async with opened(tmp_path, find_links=str(links), build_memory_bytes=256 << 20) as environments:
        found = await environments.acquire(EnvironmentDemand("default", "greedy", from_source=True), ignored)
        assert isinstance(found, EnvironmentFailure)
        assert (ENVIRONMENT_INVALID, True) == (found.reason, found.is_permanent)
        assert "TICKWISE_ENVIRONMENT_BUILD_MEMORY_BYTES" in found.detail
        assert [] == [*(environments.root / "building").iterdir()]
    assert not number.exists() or gone(int(number.read_text()))


# ------------------------------------------------------------------------------------------ the folder


async def test_an_environment_is_read_only(shop: Shop) -> None:
    """No file of it and no folder can be written any more."""
    ending, _ = await shop.run({"source": TICKLE})
    prefix = Path(json.loads(ending.result or "")[1])
    for path in (prefix, *prefix.rglob("*")):
        if not path.is_symlink():
            assert not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH), path


async def test_those_used_least_recently_are_removed(tmp_path: Path, links: Path) -> None:
    """Over the limit of their number, and none that is in use."""
    for name in ("first", "second", "third"):
        add_wheel(links, name)
    async with opened(tmp_path, find_links=str(links), limit=2) as environments:
        folder = EnvironmentFolder(environments.root)
        kept = await environments.acquire(EnvironmentDemand("default", "first"), ignored)
        assert not isinstance(kept, EnvironmentFailure), kept
        for name in ("second", "third"):
            found = await environments.acquire(EnvironmentDemand("default", name), ignored)
            assert not isinstance(found, EnvironmentFailure), found
            found.release()
        assert ["first", "third"] == [each.facts.declared for each in folder.stored()]
        assert [True, False] == [each.in_use for each in folder.stored()]
        assert kept.program.exists()
        kept.release()
        assert folder.shrink(bytes_most=0, count_most=0)
        assert [] == folder.stored()
        assert [] == [*(environments.root / "caches").iterdir()]


async def test_an_environment_whose_python_is_gone_is_built_anew(tmp_path: Path, links: Path) -> None:
    """As after an upgrade of the machine's Python."""
    async with opened(tmp_path, find_links=str(links)) as environments:
        found = await environments.acquire(QUIET, ignored)
        assert not isinstance(found, EnvironmentFailure), found
        found.release()
        found.program.parent.chmod(0o755)
        found.program.unlink()
        found.program.symlink_to(tmp_path / "gone")
        again = await environments.acquire(QUIET, ignored)
        assert not isinstance(again, EnvironmentFailure), again
        assert again.program.exists()
        again.release()


# ------------------------------------------------------------------------------------------ processes


def _executor(root: Path, links: Path, requirement: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.environments", str(root), str(links), requirement],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def counted(links: Path, tmp_path: Path) -> Path:
    """The file to which each build of the package `counted` adds its process; it waits for the file `go` beside it."""
    file = tmp_path / "builds"
    add_source(
        links,
        "counted",
        f"with open({str(file)!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}):\n    time.sleep(0.01)",
    )
    return file


def _builders(counted: Path) -> list[int]:
    """The processes that have built the package so far."""
    lines = counted.read_text().splitlines(keepends=True) if counted.exists() else []
    return [int(line) for line in lines if line.endswith("\n")]


async def test_two_executors_build_once(tmp_path: Path, links: Path, counted: Path) -> None:
    """Side by side, as processes of their own: one builds, the other waits, and both get the same environment."""
    executors = [_executor(tmp_path, links, "counted") for _ in range(2)]
    await eventually(counted.exists)
    (tmp_path / "go").touch()
    programs = [executor.stdout.readline() for executor in executors if executor.stdout is not None]
    for executor in executors:
        executor.communicate()
        assert 0 == executor.returncode
    assert 1 == len({*programs})
    assert Path(programs[0].strip()).exists()
    assert 1 == len(_builders(counted))


async def test_a_killed_build_leaves_nothing_that_is_used(tmp_path: Path, links: Path, counted: Path) -> None:
    """The executor is killed in the midst of it: another one builds anew, and what was left is removed."""
    executor = _executor(tmp_path, links, "counted")
    await eventually(lambda: len(_builders(counted)) == 1)
    executor.send_signal(signal.SIGKILL)
    executor.communicate()
    folder = EnvironmentFolder(tmp_path / "environments")
    await eventually(lambda: gone(_builders(counted)[0]))
    assert [] == folder.stored()
    assert [] != [*(folder.root / "building").iterdir()]
    (tmp_path / "go").touch()
    other = _executor(tmp_path, links, "counted")
    out, _ = other.communicate()
    assert Path(out.strip()).exists()
    assert 2 == len(_builders(counted))
    assert [] == [*(folder.root / "building").iterdir()]


# ------------------------------------------------------------------------------------------ users


@needs_root
async def test_builds_run_as_the_user_of_the_tasks(tmp_path: Path) -> None:
    """A build from source has the rights of a script of its namespace; its result is root's, and each namespace builds
    its own."""
    (tmp_path / "private").mkdir(mode=0o700)
    with tempfile.TemporaryDirectory(prefix="tickwise-tests-") as place:
        links = Path(place)
        links.chmod(0o777)
        add_source(links, "builder", f"open({place!r} + '/uid-' + str(os.getuid()), 'w').close()")
        (links / "builder-1.0.tar.gz").chmod(0o644)
        shop = Shop(tmp_path / "private", links, run_tasks_as=None)
        await shop.runner.start(shop.listener, time.time)
        root = shop.environments._host.root
        try:
            found = [await _told(shop, namespace) for namespace in ("one", "two")]
        finally:
            await shop.runner.close()
            shutil.rmtree(root)
        assert {f"uid-{uid}" for uid, *_ in found} == {path.name for path in links.glob("uid-*")}
        assert [[0, False], [0, False]] == [facts[1:3] for facts in found]
        assert found[0][0] != found[1][0]
        assert found[0][3] != found[1][3]


@needs_root
async def test_executors_with_other_users_share_a_folder_of_environments(tmp_path: Path) -> None:
    """Each user of builds has a cache of its own: in that of another one it may neither read nor write. The numbers of
    users follow from the work folder, so those of two executors differ."""
    with tempfile.TemporaryDirectory(prefix="tickwise-tests-") as place:
        root = Path(place)
        root.chmod(0o755)
        links = root / "links"
        links.mkdir()
        tickles = [f"tickle{number}" for number in range(2)]
        for name in tickles:
            add_wheel(links, name).chmod(0o644)
        shops = [Shop(root / name, links, run_tasks_as=None, place=root / "environments") for name in ("one", "two")]
        for shop in shops:
            await shop.runner.start(shop.listener, time.time)
        try:
            for shop, name in zip([*shops, shops[0]], [*tickles, "tickle0==1.0"], strict=True):
                ending, log = await shop.run({"source": "import os\n", "requirements": name})
                assert ending.verdict is Verdict.OK, (ending, log)
            caches = [*(root / "environments" / "caches").glob("*/uv")]
            assert 2 == len({cache.stat().st_uid for cache in caches}) == len(caches)
        finally:
            for shop in shops:
                await shop.runner.close()


async def _told(shop: Shop, namespace: str) -> list[Any]:
    """The user of a script, the owner of its environment, whether it may write there, and where that is."""
    source = TELL.format("[os.getuid(), os.stat(sys.prefix).st_uid, os.access(sys.prefix, os.W_OK), sys.prefix]")
    ending, log = await shop.run({"source": source, "requirements": "builder"}, namespace=namespace)
    assert ending.verdict is Verdict.OK, (ending, log)
    told: list[Any] = json.loads(ending.result or "")
    return told
