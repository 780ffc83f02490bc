"""Probes of what a task can take: attacks that run as jobs of a real `tickwise up`, and what they got."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx2
import psutil
import pytest

import tickwise
from tests.security.probes import probe
from tests.support.databases import with_role
from tests.support.local_up import ROOT, Local, environment, local_up
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.task_places import environment_of, python_for
from tickwise.adapters.runner.process.task_users import RANGE, TaskUser
from tickwise.adapters.store.postgres import PostgresStore, grant_executor, upgrade
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.model import Principal
from tickwise.ports.identity import NewKey
from tickwise.ports.identity.namespaces import NewNamespace

BOOTSTRAP = "probes-bootstrap-key-of-more-than-32-characters"
ENDED_SECONDS = 100
NOBODY = TaskUser(65_534, 65_534, (), None, "nobody")
TENANT = ("jobs:write", "jobs:read", "runs:read")
NOW = {"name": "attack", "schedule_type": "IMMEDIATE", "max_retries": 0}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose installation is to be defended")

ATTEMPT = """
import json, os
def attempt(act):
    try:
        found = act()
    except OSError as refusal:
        return refusal.strerror
    return "GOT " + repr(found)[:200]
def tell(found):
    with open(os.environ["TICKWISE_RESULT_FILE"], "w") as file:
        json.dump(found, file)
"""
"""What every attack begins with: it tries, and tells what it got."""


class Target:
    """A running `up`, and jobs on it."""

    def __init__(self, local: Local) -> None:
        self.local = local

    def client(self, key: str | None = None) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {key or self.local.key}"}
        return httpx2.Client(base_url=f"{self.local.url}/api/v1", headers=headers, timeout=60)

    def begin(self, source: str, *, key: str | None = None) -> str:
        """The id of a run of this script."""
        with self.client(key) as client:
            task = {"kind": "python", "source": ATTEMPT + source}
            answer = client.post("/jobs", json={**NOW, "task": task, "timeout_seconds": 90})
            assert 201 == answer.status_code, answer.text
            (run,) = client.get(f"/jobs/{answer.json()['job_id']}/runs").json()
            return str(run["run_id"])

    def end(self, run_id: str, *, key: str | None = None) -> Any:
        """What the script told."""
        with self.client(key) as client:
            for _ in range(ENDED_SECONDS * 10):
                run = client.get(f"/runs/{run_id}").json()
                if run["status"] in ("SUCCESS", "FAILED", "CANCELLED"):
                    break
                threading.Event().wait(0.1)
            assert "SUCCESS" == run["status"], run
            return run["result"]

    def attack(self, source: str, *, key: str | None = None) -> Any:
        return self.end(self.begin(source, key=key), key=key)

    def key_of(self, namespace: str) -> str:
        """A key of another tenant."""
        secret = f"a-key-of-the-tenant-{namespace}-for-these-probes"
        url = json.loads((self.local.data_dir / "client.json").read_text())["database_url"]
        asyncio.run(_add_key(url, secret, Principal("tenant", namespace, frozenset(TENANT))))
        return secret


async def _add_key(url: str, secret: str, principal: Principal) -> None:
    store = PostgresStore(url, clock=SystemClock())
    try:
        await store.open()
        name = principal.namespace
        await store.namespaces.add(NewNamespace(name=name, display_name=name, created_by="test"))
        await store.keys.add(NewKey(key_id=uuid4(), digest=secret_digest(secret.encode()), principal=principal))
    finally:
        await store.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """As root starts it, with its own database, in a private folder, at its defaults."""
    data_dir = tmp_path_factory.mktemp("up")
    with local_up(data_dir, TICKWISE_BOOTSTRAP_KEY=BOOTSTRAP) as local:
        yield Target(local)
    _clear(data_dir)


def _clear(data_dir: Path) -> None:
    """The homes of users stay, but not those of tests."""
    for owner in Path("/var/lib/tickwise/tasks").glob("*/OWNER"):
        if Path(owner.read_text().strip()).is_relative_to(data_dir):
            shutil.rmtree(owner.parent, ignore_errors=True)


def _refused(found: Any) -> bool:
    """Every attempt came to a refusal of the kernel."""
    return bool(found) and all(not str(what).startswith("GOT") for what in found)


@probe(4, stopped_by="tasks run as a user of their own, and no role is dumpable")
@pytest.mark.parametrize("what", ["environ", "mem", "maps", "fd", "cwd", "root"])
def test_a_task_does_not_look_into_the_executor(target: Target, what: str) -> None:
    """A task opens `/proc/PID/environ`, `mem`, `maps`, `fd` of its executor and of its parent."""
    places = [f"/proc/{target.local.pid}/{what}", f"/proc/{{os.getppid()}}/{what}"]
    # Of `mem` the opening is what counts: there is nothing at its beginning.
    opens = "os.listdir(place)" if what in ("fd", "cwd", "root") else "open(place, 'rb').name"
    source = f"tell([attempt(lambda place=place: {opens}) for place in (f'{places[0]}', f'{places[1]}')])"
    assert _refused(target.attack(source))


@probe(4, stopped_by="the kernel: another user's process is not to be traced")
def test_a_task_traces_nobody(target: Target) -> None:
    """A task attaches a debugger (`ptrace`) to its executor."""
    source = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attach():
    if libc.ptrace(16, {target.local.pid}, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
tell([attempt(attach)])
"""
    assert ["Operation not permitted"] == target.attack(source)


@probe(4, stopped_by="they are root's or the database's, and the folders above are closed")
@pytest.mark.parametrize("file", ["client.json", "local.key", "postgres/secret/password", "blobs", "lock", "log"])
def test_a_task_reads_nothing_that_the_installation_keeps(target: Target, file: str) -> None:
    """A task reads the admin key, the password of the embedded database, scripts and outputs of others."""
    cluster = target.local.data_dir / "postgres"
    if (cluster / "LOCATION").exists():
        cluster = Path((cluster / "LOCATION").read_text().strip())
    place = cluster / file.removeprefix("postgres/") if file.startswith("postgres/") else target.local.data_dir / file
    source = f"tell([attempt(lambda: open({str(place)!r}).read()), attempt(lambda: os.listdir({str(place)!r}))])"
    assert _refused(target.attack(source))


@probe(4, stopped_by="commands and scripts go by file, addresses by environment; an option is blotted out")
def test_no_argument_holds_a_secret(target: Target) -> None:
    """A task reads the arguments of every process, while a job runs whose command holds a password."""
    secret = "a-password-in-a-command"
    with target.client() as client:
        task = {"kind": "shell", "command": f": {secret}; sleep 600"}
        job = client.post("/jobs", json={**NOW, "task": task}).json()["job_id"]
        password = json.loads((target.local.data_dir / "client.json").read_text())["database_url"].split("@")[0]
        # Backwards: the text of the attack may stand elsewhere, and is not what is looked for.
        wanted = [word[::-1] for word in (secret, target.local.key, password, "tickwise")]
        source = f"""
wanted, seen = {wanted!r}, [0] * {len(wanted)}
for name in os.listdir("/proc"):
    if name.isdecimal():
        try:
            arguments = open(f"/proc/{{name}}/cmdline").read()
        except OSError:
            continue
        seen = [count + (word[::-1] in arguments) for word, count in zip(wanted, seen)]
tell(seen)
"""
        *secrets, programs = target.attack(source)
        assert [0, 0, 0] == secrets
        assert programs > 0
        client.delete(f"/jobs/{job}")


@probe(4, stopped_by="all of it is root's")
def test_a_task_writes_nothing_but_its_own(target: Target) -> None:
    """A task writes to the program, its packages, its interpreter, the data folder and the work root."""
    places = [
        Path(tickwise.__file__),
        Path(sys.executable).resolve(),
        Path(asyncpg.__file__),
        target.local.data_dir / "x",
    ]
    source = f"""
import json as module
places = {[str(place) for place in places]!r} + [module.__file__, os.path.dirname(module.__file__) + "/x", "../../x"]
tell([attempt(lambda place=place: open(place, "ab")) for place in places])
"""
    assert _refused(target.attack(source))


@probe(4, stopped_by="a signal needs the same user")
def test_a_task_ends_nobody(target: Target) -> None:
    """A task kills its executor, the processes that start tasks and watch over them, and the database."""
    process = psutil.Process(target.local.pid)
    family = [process, *process.children(recursive=True)]
    theirs = [one for one in family if one.is_running() and one.uids().real < RANGE[0]]
    pids = [one.pid for one in theirs]
    found = target.attack(f"tell([attempt(lambda pid=pid: os.kill(pid, 9)) for pid in {pids!r}])")
    ended = {one for one, answer in zip(theirs, found, strict=True) if answer == "No such process"}
    # The database's own processes come and go: its sessions, and those that vacuum.
    assert not any(one in ended for one in (process, *process.children()))
    assert {"Operation not permitted"} == {
        answer for one, answer in zip(theirs, found, strict=True) if one not in ended
    }
    assert process.is_running()


@probe(4, stopped_by="no program can give a task's user more rights (`no_new_privs`)")
def test_a_task_gains_no_right_by_a_setuid_program(target: Target) -> None:
    """A task reads a file of root's through a program that is setuid root, as a sudo with a hole would let it."""
    folder = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    folder.chmod(0o755)
    try:
        program, secret = folder / "cat", folder / "secret"
        shutil.copyfile(str(shutil.which("cat")), program)
        program.chmod(0o4755)
        secret.touch(0o600)
        reads = [str(program), str(secret)]
        # Other processes of an ordinary user do read it.
        subprocess.run(reads, check=True, **NOBODY.arguments())
        source = f"import subprocess\nfound = subprocess.run({reads!r}, capture_output=True)\n"
        found = target.attack(source + "tell([found.returncode, found.stderr.decode()])")
    finally:
        shutil.rmtree(folder)
    assert (1, True) == (found[0], "Permission denied" in found[1])


@probe(4, stopped_by="each namespace is a user of its own; a work folder is its user's alone")
def test_a_task_gets_at_no_task_of_another_tenant(target: Target) -> None:
    """A task enters the work folder of another namespace's task, reads its environment and memory, and kills it."""
    victim = target.begin(
        "import time\nopen('secret', 'w').write('x')\ntime.sleep(80)\ntell(1)",
        key=target.key_of("victim"),
    )
    pid, place = _said(victim)
    source = f"""
tell([
    attempt(lambda: open("{place}/secret").read()), attempt(lambda: os.listdir("{place}")),
    attempt(lambda: os.listdir("{Path(place).parent}")), attempt(lambda: os.listdir("{Path(place).parents[1]}")),
    attempt(lambda: open("/proc/{pid}/environ").read()), attempt(lambda: open("/proc/{pid}/mem")),
    attempt(lambda: os.kill({pid}, 9)), attempt(lambda: open("{Path(place).parent}/result.json", "w")),
])
"""
    assert _refused(target.attack(source, key=target.key_of("attacker")))
    assert psutil.pid_exists(pid)


def _said(run_id: str) -> tuple[int, str]:
    """The number and the current folder of the process of this run, as root sees them."""
    for _ in range(2_000):
        for process in psutil.process_iter():
            try:
                if process.environ().get("TICKWISE_RUN_ID") == run_id and (Path(process.cwd()) / "secret").exists():
                    return process.pid, process.cwd()
            except psutil.Error:
                continue
    raise AssertionError("the victim does not run")


@probe(4, stopped_by="a result is a plain file of the task's user")
@pytest.mark.parametrize("kind", ["symlink", "link"])
def test_a_result_that_is_a_link_is_not_read(target: Target, kind: str) -> None:
    """A task hands in a link to `client.json` as its result, which root's executor would read."""
    secret = str(target.local.data_dir / "client.json")
    source = f"attempt(lambda: os.{kind}({secret!r}, os.environ['TICKWISE_RESULT_FILE']))"
    assert target.attack(source) is None


@probe(4, stopped_by="an executor's database role has no right to them")
@pytest.mark.parametrize("table", ["keys", "tasks", "operations", "rules", "receipts"])
async def test_an_executors_role_sees_no_keys(database_url: str, table: str) -> None:
    """The address of an executor's own database role reads and writes keys, stored scripts, operations, rules."""
    await upgrade(database_url)
    owner = await asyncpg.connect(database_url)
    name = f"probe_{os.getpid()}_{table}"
    await owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    await grant_executor(database_url, name)
    connection = await asyncpg.connect(with_role(database_url, name, "secret"))
    try:
        for statement in (f"SELECT FROM tickwise.{table}", f"DELETE FROM tickwise.{table}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()
        for what in ("ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA", "SCHEMA"):
            await owner.execute(f"REVOKE ALL ON {what} tickwise FROM {name}")
        await owner.execute(f"DROP ROLE {name}")
        await owner.close()


# ------------------------------------------------------------------------------------------ an ordinary user


@pytest.fixture(scope="module")
def ordinary() -> Iterator[Target]:
    """An `up` of the user `nobody`, whose tasks are `nobody` too."""
    data_dir = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    os.chown(data_dir, NOBODY.uid, NOBODY.gid)
    python = python_for(NOBODY)
    told = environment(TICKWISE_BOOTSTRAP_KEY=BOOTSTRAP, HOME=str(data_dir), **environment_of(python))
    process = subprocess.Popen(
        [python.program, "-m", "tickwise", "up", "--data-dir", data_dir, "--port", "0", "--database", "memory://"],
        env={**told, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        **NOBODY.arguments(),
    )
    try:
        yield Target(_ready(process, data_dir, told))
    finally:
        process.terminate()
        process.wait(60)
        python.release()
        shutil.rmtree(data_dir)


def _ready(process: subprocess.Popen[bytes], data_dir: Path, told: dict[str, str]) -> Local:
    looked = threading.Event()
    for _ in range(1_000):
        assert process.poll() is None, "it ended"
        file = data_dir / "client.json"
        if file.exists():
            found = json.loads(file.read_text())
            return Local(data_dir, found["url"], BOOTSTRAP, process.pid, told)
        looked.wait(0.1)
    raise AssertionError("it was not ready")


@probe(4, stopped_by="no role is dumpable: its own user does not look into it either")
@pytest.mark.parametrize("what", ["environ", "mem", "maps"])
def test_a_task_of_the_same_user_does_not_look_into_the_executor(ordinary: Target, what: str) -> None:
    """A task of the executor's own, ordinary user opens `/proc/PID/environ`, `mem` and `maps` of its executor."""
    source = f"tell([os.getuid(), attempt(lambda: open('/proc/{ordinary.local.pid}/{what}', 'rb').name)])"
    assert [NOBODY.uid, "Permission denied"] == ordinary.attack(source)


# ------------------------------------------------------------------------------------------ what a text costs


@probe(2, stopped_by="the compiler works in a process of its own that the kernel ends")
def test_a_script_that_keeps_the_compiler_busy_keeps_nobody_waiting(target: Target) -> None:
    """A job with 126 kB of `lambda:0` lines is submitted, and others ask for something meanwhile."""
    body = {"name": "a", "schedule_type": "ON_DEMAND", "task": {"kind": "python", "source": "lambda:0\n" * 14_000}}
    answers: list[httpx2.Response] = []
    served: list[int] = []
    with target.client() as client, target.client() as other:
        # Who is kept waiting has one answer meanwhile, every time; a machine that has no time for us, now and then.
        while max(served, default=0) <= 5 and len(served) < 5:
            submitting = threading.Thread(target=lambda: answers.append(client.post("/jobs", json=body)))
            submitting.start()
            served.append(0)
            while submitting.is_alive():
                assert 200 == other.get(f"{target.local.url}/livez").status_code
                served[-1] += 1
    assert {201} == {each.status_code for each in answers}
    assert all("not checked" in each.text for each in answers)
    assert max(served) > 5, served


@probe(2, stopped_by="a limit for what a job holds itself, and a refusal of what could not run")
@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("x = 1\n" * 30_000, "script_too_large"),
        ("# /// script\n# dependencies = ['x'\n# ///\n", "environment_invalid"),
    ],
    ids=["large", "header"],
)
def test_a_script_that_has_no_place_in_a_job_is_refused(target: Target, source: str, code: str) -> None:
    """A job with a script of 180 kB, or with a header that cannot be read."""
    with target.client() as client:
        answer = client.post("/jobs", json={**NOW, "task": {"kind": "python", "source": source}})
    assert (422, code) == (answer.status_code, answer.json()["code"])
