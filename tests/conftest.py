"""What every test may use: a PostgreSQL and databases of it, a Kafka, a Redis, and property tests that fail the same
way twice."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio._backends._asyncio  # noqa: F401  # pytest parses it at its import, and Python 3.11 may fail where a collection comes between
import hypothesis
import pytest
import pytest_asyncio
import structlog

from tests.services import kubernetes_programs, packages, shared
from tests.services.elasticmq import CREDENTIALS
from tests.services.redis import DATABASES
from tests.services.s3.server import S3
from tests.services.server import INSTALL_SECONDS
from tests.support import cassandras, databases
from tests.support.alarm import more_time
from tests.support.order import begun_elsewhere, longest_first
from tickwise.adapters.runner.process import task_places
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.adapters.store.postgres.connection.link import (
    BEAT,
    HOT,
    HOT_SETTINGS,
    PAGE_SETTINGS,
    POOL_SETTINGS,
    TERMS,
)
from tickwise.domain.errors import Misconfigured

pytest_plugins = ["tests.support.failures", "tests.support.skips"]

# A control plane takes Go ten minutes to build. Where it is not there, these are left out; the header says so.
collect_ignore_glob = [] if kubernetes_programs.built() else ["**/test_cluster_*.py"]

# The gate draws the same examples each time, so it is red or green for the change and not for the day.
# `pytest --hypothesis-profile explore` looks for new ones; a find prints the line that replays it.
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True, database=None, print_blob=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1_000, print_blob=True)
hypothesis.settings.load_profile("gate")

TEST_SECONDS = 240.0
"""Several times the patience of one step of a test, so that a step says first what it waited for."""
REMINDER_SECONDS = 5.0  # a cancellation may be swallowed once

_configure_logs = structlog.configure


def _configure_logs_uncached(*args: Any, **settings: Any) -> None:
    """A cached logger keeps the processors of its test, so no later test of the process could capture its lines."""
    _configure_logs(*args, **{**settings, "cache_logger_on_first_use": False})


structlog.configure = _configure_logs_uncached

_redis_databases = count()
NOBODY = 65_534
_kept_pythons: list[task_places.TaskPython] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that hangs fails after four minutes, fixtures included, and the others go on.

    `@pytest.mark.takes_up_to(seconds)` allows one more. Where this cannot help (the loop itself is stuck in C code),
    pytest's faulthandler ends the process later and shows every thread.
    """
    marker = item.get_closest_marker("takes_up_to")
    seconds = max(TEST_SECONDS, float(marker.args[0]) if marker else 0.0)

    def hangs(_number: int, _frame: FrameType | None) -> None:
        message = f"the test did not end within {seconds:g} s"
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            pytest.fail(message)
        # Raised here, an exception would be lost in the callback that just runs; a cancelled task fails its test.
        loop.call_soon_threadsafe(lambda: [task.cancel(message) for task in asyncio.all_tasks(loop)])

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, seconds, REMINDER_SECONDS)
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    configured = structlog.get_config() if structlog.is_configured() else None
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        # A command that ran here configured the logs of the whole process; the next test would capture nothing.
        root.setLevel(level)
        root.handlers[:] = handlers
        if configured is None:
            structlog.reset_defaults()
        else:
            _configure_logs(**configured)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A failure over a broken link shows what the server said, for that is gone once the run has ended.

    Meanwhile the alarm of the test is silent: raised here, its reminder would end the whole run."""
    left = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        report = yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
    if report.failed and call.excinfo is not None and (said := databases.last_said()):
        report.sections.append(("the last that this process's PostgreSQL said", said))
    return report


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts us in the background leaves Ctrl-C ignored, and what tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What a failure needs to be seen again."""
    profile = config.getoption("--hypothesis-profile") or "gate"
    seed = config.getoption("--hypothesis-seed")
    server = "that of " + databases.VARIABLE if os.environ.get(databases.VARIABLE) else "embedded, one a process"
    kubernetes = "left out, test_cluster_*.py (make test-kubernetes builds it)" if collect_ignore_glob else "built"
    return [
        f"hypothesis: profile {profile}, seed {seed if seed is not None else 'fixed by it'}",
        f"postgres: {server}",
        f"kubernetes: {kubernetes}",
    ]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Nine thousand tests are half a gigabyte of objects that live to the end. The garbage collector does not walk them
    while they are made, nor ever again: that was a third of the collection, and a tenth of some tests. Nor does it walk
    them once at the end: it would find little, for a second of each process.

    Several processes begin to read at different files (`tests/support/order.py`)."""
    config = session.config
    if given := getattr(config, "workerinput", None):
        number = int(given["workerid"].removeprefix("gw"))
        place = config.invocation_params.dir
        config.args = begun_elsewhere(config.args, place, worker=number, workers=given["workercount"])
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Several processes take the longest files first; alone, one goes from file to file as they lie.

    Refuses tests that have one name together: of those, several processes would run one.
    """
    twins = [name for name, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twins:
        raise pytest.UsageError(f"more than one test is called {', '.join(twins)}")
    if hasattr(config, "workerinput"):
        longest_first(items)


def _keep_python() -> None:
    """Hold the interpreter for tasks of other users."""
    nobody = TaskUser(NOBODY, NOBODY, (), None, "nobody")
    with suppress(Misconfigured, OSError):  # a test that needs it says why
        _kept_pythons.append(task_places.python_for(nobody))


_keeper = threading.Thread(target=_keep_python, name="keeps python")


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a folder that is closed to others, an executor of root's makes an interpreter for its tasks, in 3 s of a core,
    and it goes when the last one does. Where several processes test, the one that started them holds it meanwhile."""
    config = session.config
    if os.geteuid() == 0 and config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        _keeper.start()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What has to be installed for these tests is fetched while others run: Kafka comes through Maven, in 40 s."""
    if any(
        {"kafka_url", "redis_server_url", "cassandra_server_url"} & set(getattr(item, "fixturenames", ()))
        for item in session.items
    ):
        packages.prefetch()


@pytest_asyncio.fixture(scope="session")
async def postgres_url() -> AsyncIterator[str]:
    """A server whose role may make databases; started when the first test asks for it."""
    async with databases.server() as url:
        yield url


@pytest_asyncio.fixture(scope="module")
async def database_url(postgres_url: str) -> AsyncIterator[str]:
    """A fresh, empty database for the tests of one module, owned by the role of the address."""
    async with databases.database(postgres_url) as url:
        yield url


@pytest.fixture(scope="module")
def patient_locks() -> Iterator[None]:
    """Stores wait a minute for a lock. For tests that hold one until somebody waits for it: on a machine that stands
    still meanwhile, who waits would be refused before the test goes on."""
    with pytest.MonkeyPatch.context() as patched:
        for settings in (HOT_SETTINGS, POOL_SETTINGS, PAGE_SETTINGS):
            patched.setitem(settings, "lock_timeout", "60s")
        patched.setitem(PAGE_SETTINGS, "statement_timeout", "90s")
        yield


@pytest.fixture(scope="module")
def patient_beats() -> Iterator[None]:
    """Heartbeats have the time of other statements: a server that stands still for some seconds fails none."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(TERMS, BEAT, HOT)
        yield


@pytest_asyncio.fixture
async def empty_url(postgres_url: str) -> AsyncIterator[str]:
    """A database for one test alone, without a schema."""
    async with databases.database(postgres_url) as url:
        yield url


@pytest_asyncio.fixture(scope="session")
async def kafka_url() -> str:
    """`kafka://host:port` of the one Kafka of this run of the tests. Take a prefix of your own: `kafka_prefix_url`."""
    with more_time(INSTALL_SECONDS):
        return await asyncio.to_thread(shared.url_of, "kafka")


@pytest.fixture
def kafka_prefix_url(kafka_url: str) -> str:
    """The same with a prefix that is this test's alone; a further option is one more `&name=value`."""
    return f"{kafka_url}?prefix=t{uuid.uuid4().hex[:12]}"


@pytest_asyncio.fixture(scope="session")
async def sqs_endpoint() -> str:
    """`http://host:port` of the one ElasticMQ of this run of the tests."""
    with more_time(INSTALL_SECONDS):
        return await asyncio.to_thread(shared.url_of, "elasticmq")


@pytest.fixture
def sqs_prefix_url(sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """`sqs://…` with a prefix that is this test's alone; a further option is one more `&name=value`."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return f"sqs://eu-central-1/t{uuid.uuid4().hex[:12]}?endpoint={sqs_endpoint}"


@pytest_asyncio.fixture(scope="session")
async def cassandra_server_url() -> str:
    """`cassandra://host:port` of the one Cassandra node of this run of the tests, which nobody harms."""
    with more_time(INSTALL_SECONDS):
        return await asyncio.to_thread(shared.url_of, "cassandra")


@pytest_asyncio.fixture(scope="module")
async def cassandra_url(cassandra_server_url: str) -> AsyncIterator[str]:
    """The address of a keyspace with its tables, for the tests of one module. Take a shard of your own."""
    async with cassandras.keyspace(cassandra_server_url) as url:
        yield url


@pytest_asyncio.fixture(scope="session")
async def redis_server_url() -> str:
    """`redis://host:port` of the one Redis of this run of the tests."""
    with more_time(INSTALL_SECONDS):
        return await asyncio.to_thread(shared.url_of, "redis")


@pytest_asyncio.fixture(scope="session")
async def docker_url() -> str:
    """`unix:///…/docker.sock` of the one Docker Engine of this run of the tests, which nobody restarts. It has the
    images `localhost/busy:1` and `localhost/python:1`."""
    if os.geteuid() and not os.environ.get(shared.GIVEN["docker"]):
        pytest.skip("a Docker Engine needs root")
    with more_time(INSTALL_SECONDS):
        return await asyncio.to_thread(shared.url_of, "docker")


@pytest_asyncio.fixture(scope="session")
async def podman_url() -> str:
    """`unix:///…/podman.sock` of the one podman of this run of the tests, with the same images."""
    if os.geteuid() and not os.environ.get(shared.GIVEN["podman"]):
        pytest.skip("podman needs root here")
    with more_time(INSTALL_SECONDS):
        return await asyncio.to_thread(shared.url_of, "podman")


@pytest_asyncio.fixture(scope="session")
async def kubernetes_port() -> int:
    """The port of the one Kubernetes API server of this run of the tests, which nobody restarts. It has no node: a test
    brings its own (`tests.services.kubelet`), and sends its pods there."""
    with more_time(INSTALL_SECONDS):
        return int((await asyncio.to_thread(shared.url_of, "kubernetes")).rpartition(":")[2])


@pytest.fixture(scope="module")
def redis_url(redis_server_url: str) -> str:
    """An empty database of that Redis, for the tests of one module. FLUSHDB is fine there; FLUSHALL, never: who needs
    that starts a `tests.services.redis.Redis` of its own. A server that was given by its URL is used as it is."""
    if os.environ.get(shared.GIVEN["redis"]):
        return redis_server_url
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    number = next(_redis_databases) * 8 + worker % 8
    assert number < DATABASES, "more modules than Redis has databases"
    return urlunsplit(urlsplit(redis_server_url)._replace(path=f"/{number}"))


@pytest_asyncio.fixture(scope="module")
async def s3_server() -> AsyncIterator[S3]:
    """An S3 server for the tests of one module, which may harm it; take a prefix of your own."""
    async with S3() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def _tidy_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Clusters and tasks of root's tests whose data folder is private lie outside of it: remove them at the end."""
    yield
    if os.geteuid() != 0:
        return
    own, temporary = tmp_path_factory.getbasetemp(), tempfile.gettempdir()
    for owner in task_places.OUTSIDE.glob("*/*/OWNER"):
        with suppress(OSError):  # another process of these tests was quicker
            given = Path(owner.read_text(encoding="utf-8").strip())
            is_left = given.is_relative_to(temporary) and not given.exists()
            if is_left or given.is_relative_to(own):
                shutil.rmtree(owner.parent)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The last process of a run of the tests removes the interpreters that were made for tasks of other users."""
    if os.geteuid() == 0 and not hasattr(session.config, "workerinput"):
        if _keeper.ident is not None:
            _keeper.join()
        for python in _kept_pythons:
            python.release()
        task_places.remove_unused_pythons()
