"""Tasks of an executor that is root run as users of their own: real ones, started as they are in service."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.support.runners import gone
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process import limits, start, task_starter, task_starter_program
from tickwise.adapters.runner.process.cgroups import Group, GroupFolder, Resource
from tickwise.adapters.runner.process.orphan_reaper_program import EXECUTOR_GROUPS
from tickwise.adapters.runner.process.runner import STARTERS, ProcessRunner
from tickwise.adapters.runner.process.task_users import RANGE, task_users
from tickwise.adapters.runner.process.tree import Tree, active_members, kill_tree
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.runner import Assignment, Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of

NOBODY = 65_534
ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="only root can become another user; the others run as themselves here")
WHO = """
import json, os
facts = {line.split(":")[0]: line.split()[1:] for line in open("/proc/self/status") if line[:3] in "Uid Gid Cap NoN"}
facts["groups"] = os.getgroups()
facts["home"] = os.environ["HOME"]
facts["folder"] = os.getcwd()
json.dump(facts, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""


class Shop:
    """A runner of processes in a private folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = open_blobs("memory://")
        self.listener = Listener()
        self.runner: ProcessRunner

    async def open(self, **given: Any) -> None:
        self.runner = ProcessRunner(
            RunnerSettings(blobs=self.blobs, clock=SystemClock(), work_root=self.root, kill_grace_seconds=0.2, **given)
        )
        await self.runner.start(self.listener, time.time)

    def launch(self, task: dict[str, Any], **changes: Any) -> Assignment:
        given = assignment(task, **changes)
        self.runner.launch([given])
        return given

    async def ending(self, task: dict[str, Any], **changes: Any) -> Ending:
        return await self.listener.ending_of(self.launch(task, **changes))

    async def who(self, **changes: Any) -> dict[str, Any]:
        """What a Python task says of itself."""
        ending = await self.ending({"kind": "python", "source": WHO}, **changes)
        assert ending.verdict is Verdict.OK, ending
        found: dict[str, Any] = json.loads(ending.result or "")
        return found


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """Below a folder that nobody else can enter, as a data folder of root's is."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    made = Shop(private / "work")
    yield made
    root = made.runner._folder.root if made.runner._folder is not None else None
    await made.runner.close()
    if root is not None and not root.is_relative_to(private):
        shutil.rmtree(root)  # the homes of users stay, but not those of tests


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user may enter and write to."""
    folder = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


# ------------------------------------------------------------------------------------------ who they are


def _rights(groups: list[int]) -> list[int]:
    """Without the two groups by which the task is found, which no file belongs to."""
    return [group for group in groups if group < EXECUTOR_GROUPS]


@needs_root
async def test_a_task_is_a_user_that_has_no_rights(shop: Shop) -> None:
    """Neither root's, nor those of any group, nor any capability; and it cannot get them back."""
    await shop.open()
    found = await shop.who()
    [uid] = set(found["Uid"])
    assert RANGE[0] < int(uid) < RANGE[1]
    assert {uid} == set(found["Gid"])
    assert [] == _rights(found["groups"])
    assert all(int(found[name][0], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
    assert ["1"] == found["NoNewPrivs"]
    back = "import os\nos.setuid(0)"
    ending = await shop.ending({"kind": "python", "source": back}, names_errors=True)
    assert "PermissionError" in ending.symptoms


@needs_root
async def test_a_task_finds_programs_only_where_it_may_look(
    shop: Shop, tmp_path: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the executor's `PATH` it gets the folders that its user can search: for a program of root's own it would hear
    that permission is denied, and not that there is none."""
    private = tmp_path / "bin"
    private.mkdir(mode=0o700)
    for path, expected in (
        (f"{private}:{open_folder}:/usr/bin:/bin::{tmp_path / 'none'}", f"{open_folder}:/usr/bin:/bin"),
        (str(private), "/usr/local/bin:/usr/bin:/bin"),
    ):
        monkeypatch.setenv("PATH", path)
        await shop.open()
        given = shop.launch({"kind": "shell", "command": 'echo "$PATH"'})
        assert (await shop.listener.ending_of(given)).verdict is Verdict.OK
        assert f"{expected}\n" == await log_of(shop.blobs, given)
        await shop.runner.close()


SHEDDING = """
import os, resource, sys, time
if os.fork():
    while not os.path.exists({file!r}): time.sleep(0.01)
    sys.exit(0)
os.setsid()
if os.fork(): os._exit(0)
resource.setrlimit(10, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
program = "import os, time; open({file!r} + '.new', 'w').write(str(os.getpid())); "
program += "os.rename({file!r} + '.new', {file!r}); time.sleep(120)"
nothing = os.open(os.devnull, os.O_RDWR)
for number in range(3): os.dup2(nothing, number)
os.execve(sys.executable, [sys.executable, "-c", program], {{}})
"""
CHAINS = """
for each in 1 2 3 4; do setsid sh -c 'link() {{ [ $1 = 0 ] || link $(($1 - 1)) & }}; link 20000' & done
{then}
"""
"""Four chains of processes out of its session, each of which lives for as long as a fork takes: 0.2 ms."""
SIGNAL_ALL = """
import contextlib, os, signal
os.setresuid({uid}, {uid}, {uid})
with contextlib.suppress(ProcessLookupError): os.kill(-1, signal.{name})
"""
"""In one call of the kernel, which no fork can slip through."""


@needs_root
async def test_a_program_that_sheds_all_that_it_may_shed_is_ended_with_its_task(shop: Shop, open_folder: Path) -> None:
    """Its parent, its session, its environment and every limit: a task without limits keeps its groups, for only root
    may leave a group."""
    await shop.open()
    file = open_folder / "pid"
    ending = await shop.ending({"kind": "python", "source": SHEDDING.format(file=str(file))})
    assert ending.verdict is Verdict.OK, ending
    pid = int(file.read_text())
    try:
        assert gone(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@needs_root
@pytest.mark.parametrize("then", ["sleep 0.1", "sleep 600"], ids=["ends by itself", "is stopped"])
async def test_processes_that_fork_quicker_than_a_look_end_with_their_task(shop: Shop, then: str) -> None:
    """However quick they are: all that its user runs stands still while they are looked for."""
    await shop.open()
    uid = int((await shop.who(namespace="chains"))["Uid"][0])
    given = shop.launch({"kind": "shell", "command": CHAINS.format(then=then)}, namespace="chains")
    await shop.listener.until_begun(given)
    if then == "sleep 600":
        shop.runner.stop(given.run_id, grace_seconds=0.1)
    await shop.listener.ending_of(given)
    assert [] == _active_once_stopped(uid)


def _active_once_stopped(uid: int) -> list[str]:
    """The states of all that the user runs, which cannot fork while they are looked at; then they are killed."""
    for signal_name in ("SIGSTOP", "SIGKILL"):
        command = [sys.executable, "-I", "-S", "-c", SIGNAL_ALL.format(uid=uid, name=signal_name)]
        subprocess.run(command, check=True)
        if signal_name == "SIGSTOP":
            found = _states(uid)
    return found


@needs_root
async def test_other_tasks_go_on_while_one_is_ended(shop: Shop) -> None:
    """Those of the same user too, which stand still for a moment; what stood still before stays so."""
    await shop.open()
    other = shop.launch(
        {"kind": "shell", "command": "sleep 600 & kill -STOP $!; echo $!; sleep 600"}, namespace="chains"
    )
    await shop.listener.until_begun(other)
    uid = int((await shop.who(namespace="chains"))["Uid"][0])
    await eventually(lambda: sorted(_states(uid)) == ["sleeping", "sleeping", "stopped"])
    before = _states(uid)
    await shop.ending({"kind": "shell", "command": CHAINS.format(then="sleep 0.1")}, namespace="chains")
    await eventually(lambda: _states(uid) == before)


def _states(uid: int) -> list[str]:
    """Of all that the user runs; the dead, whom the machine's init may leave there, run no more."""
    found = [each.info for each in psutil.process_iter(["uids", "status"]) if each.info["uids"] is not None]
    states = [str(each["status"]) for each in found if each["uids"].real == uid]
    return [state for state in states if state != psutil.STATUS_ZOMBIE]


@needs_root
async def test_each_namespace_is_a_user_of_its_own_and_stays_it(shop: Shop) -> None:
    """With a home that lasts from task to task."""
    await shop.open()
    first, again, other = [await shop.who(namespace=name) for name in ("a", "a", "b")]
    assert first["Uid"] == again["Uid"] != other["Uid"]
    assert first["home"] == again["home"] != other["home"]
    await shop.runner.close()
    await shop.open()
    assert first["Uid"] == (await shop.who(namespace="a"))["Uid"]
    home = Path(first["home"]).stat()
    assert (int(first["Uid"][0]), 0o700) == (home.st_uid, stat.S_IMODE(home.st_mode))


@needs_root
@pytest.mark.parametrize("said", ["nobody", str(NOBODY)])
async def test_tasks_run_as_the_user_that_is_said(shop: Shop, said: str) -> None:
    """By name or number, with its groups. Its operator may have given it rights, by sudo for example: it keeps them."""
    await shop.open(run_tasks_as=said)
    found = await shop.who(namespace="a")
    assert f"NoNewPrivs:\t{found['NoNewPrivs'][0]}\n" in Path("/proc/self/status").read_text()
    assert {str(NOBODY)} == set(found["Uid"])
    assert [NOBODY] == _rights(found["groups"])


async def test_tasks_run_as_the_executors_user_where_that_is_said(shop: Shop) -> None:
    """Also as root, if the operator says so; an ordinary user need not say it."""
    await shop.open(run_tasks_as="root" if ROOT else None)
    assert {str(os.getuid())} == set((await shop.who())["Uid"])


def test_a_user_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By a name that nobody has; and a rule that an ordinary user cannot carry out."""
    with pytest.raises(Misconfigured, match="no such user" if ROOT else "only an executor that is started by root"):
        task_users("tickwise-no-such-user", tmp_path)


@needs_root
def test_an_executor_that_cannot_become_another_user_runs_no_tasks_as_root() -> None:
    """It says what to do, and does what it is told then."""
    code = (
        "import sys; from pathlib import Path; from tickwise.adapters.runner.process.task_users import task_users\n"
        "print(task_users(sys.argv[1] or None, Path('/x')))"
    )
    weak = ["setpriv", "--bounding-set", "-setuid,-setgid", "--"]
    refused, allowed = (
        subprocess.run([*weak, sys.executable, "-c", code, said], capture_output=True, text=True, check=False)
        for said in ("", "root")
    )
    assert refused.returncode == 1
    assert "TICKWISE_RUN_TASKS_AS=root" in refused.stderr
    assert ("None\n", 0) == (allowed.stdout, allowed.returncode)


# ------------------------------------------------------------------------------------------ what they can do


@needs_root
async def test_a_task_gets_all_that_it_is_promised(shop: Shop) -> None:
    """Its payload by variable or file, packages, a current folder to write to, the names of what it failed of."""
    await shop.open()
    source = """
import json, os, msgspec
payload = json.load(open(os.environ["TICKWISE_PAYLOAD_FILE"]))
open("note", "w").write(payload["text"][:2])
json.dump(open("note").read(), open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""
    ending = await shop.ending({"kind": "python", "source": source}, payload={"text": "x" * 100_000})
    assert (Verdict.OK, '"xx"') == (ending.verdict, ending.result)
    failed = await shop.ending({"kind": "python", "source": "{}['a']"}, names_errors=True)
    assert "KeyError" in failed.symptoms
    given = shop.launch({"kind": "shell", "argv": ["sh", "-c", "echo $TICKWISE_PAYLOAD; exit 3"]}, payload={"a": 1})
    assert ("exit_code", ("3",)) == ((ending := await shop.listener.ending_of(given)).reason, ending.symptoms)
    assert '{"a": 1}\n' == await log_of(shop.blobs, given)


@needs_root
@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-program"], "No such file"),
        (["./no-such-program"], "No such file"),
        (["/etc/passwd"], "Permission denied"),
    ],
)
async def test_a_program_that_cannot_be_started_is_told_by_name(shop: Shop, argv: list[str], says: str) -> None:
    """As where tasks are the executor's own user, with limits or without."""
    await shop.open()
    ending = await shop.ending({"kind": "shell", "argv": argv})
    assert "not_started" == ending.reason
    assert says in (ending.error or "")
    assert argv[0] in (ending.error or "")


@needs_root
async def test_limits_hold_tasks_of_other_users(shop: Shop) -> None:
    """Time, memory, and processes, of all that it starts."""
    await shop.open()
    free = TaskLimits(1 << 20)
    burn = {"kind": "shell", "command": "while :; do :; done"}
    assert "cpu_limit" == (await shop.ending(burn, limits=free._replace(cpu_seconds=0.2))).reason
    grow = {
        "kind": "python",
        "source": "import time\nx = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\ntime.sleep(600)",
    }
    assert "memory_limit" == (await shop.ending(grow, limits=free._replace(memory_bytes=100 << 20))).reason
    breed = {"kind": "shell", "command": "for i in 1 2 3 4 5 6 7 8 9; do sleep 600 & done; wait"}
    assert "process_limit" == (await shop.ending(breed, limits=free._replace(processes=4))).reason


@needs_root
async def test_a_task_of_another_user_is_stopped_with_all_that_ran_away(shop: Shop, open_folder: Path) -> None:
    """Its marks are those of every task; its number is there before its first instruction."""
    await shop.open()
    runaway = f"(setsid env -i sh -c 'echo $$ > {open_folder}/pid; exec sleep 600' >/dev/null 2>&1 </dev/null &)"
    given = shop.launch({"kind": "shell", "argv": ["sh", "-c", f"{runaway}; sleep 600"]})
    file = open_folder / "pid"
    await eventually(lambda: file.exists() and file.read_text().strip(), what="the runaway begins")
    pid = int(file.read_text())
    assert not gone(pid)
    shop.runner.stop(given.run_id, grace_seconds=0.0)
    assert Verdict.CANCELLED is (await shop.listener.ending_of(given)).verdict
    assert gone(pid)


@needs_root
@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard", "symbolic"])
async def test_a_link_is_no_result(shop: Shop, open_folder: Path, link: Any) -> None:
    """The executor reads a result with rights that the task does not have."""
    await shop.open()
    secret = open_folder / "secret"
    secret.write_text('"secret"')
    given = assignment({"kind": "shell", "command": f"until [ -e {open_folder}/go ]; do sleep 0.01; done"})
    shop.runner.launch([given])
    await shop.listener.until_begun(given)
    assert shop.runner._folder is not None
    result = shop.runner._folder.path / f"{given.run_id}-{given.token}" / "result.json"
    if link is os.link and os.stat(open_folder).st_dev != os.stat(result.parent).st_dev:
        result.write_text('"secret"')  # of root's, as a hard link would be
    else:
        link(secret, result)
    (open_folder / "go").touch()
    ending = await shop.listener.ending_of(given)
    assert (Verdict.OK, None) == (ending.verdict, ending.result)


# ------------------------------------------------------------------------------------------ who starts them


def starters() -> list[psutil.Process]:
    """The processes of ours that start tasks as other users."""
    active = [child for child in psutil.Process().children() if not gone(child.pid)]
    return [child for child in active if any("task_starter_program" in word for word in child.cmdline())]


@needs_root
async def test_the_outcome_of_a_task_is_unknown_if_its_starter_was_killed(shop: Shop, open_folder: Path) -> None:
    """Its exit status is lost with the starter. The task runs to its end before its executor says so; the next ones
    start."""
    await shop.open()
    command = f"until [ -e {open_folder}/go ]; do sleep 0.01; done; sleep 0.3; touch {open_folder}/done"
    given = shop.launch({"kind": "shell", "command": command})
    await shop.listener.until_begun(given)
    [starter] = starters()
    starter.kill()
    (open_folder / "go").touch()
    ending = await shop.listener.ending_of(given)
    assert (open_folder / "done").exists()
    assert (Verdict.UNKNOWN, "outcome_lost") == (ending.verdict, ending.reason)
    for _ in range(2):
        ending = await shop.ending({"kind": "shell", "command": "true"})
        assert Verdict.OK is ending.verdict
    assert [starter.pid] != [process.pid for process in starters()]
    await shop.runner.close()
    assert [] == starters()
    await shop.open()


@needs_root
async def test_a_task_whose_starter_was_killed_keeps_its_limits_and_can_be_stopped(shop: Shop) -> None:
    """The cause of such an end is known: the executor brought it about."""
    await shop.open()
    task = {"kind": "shell", "command": "sleep 600 & sleep 600"}
    free = TaskLimits(1 << 20)
    stopped, late = shop.launch(task), shop.launch(task, timeout_seconds=1.0)
    greedy = shop.launch(
        {"kind": "shell", "command": "sleep 0.5; while :; do :; done"}, limits=free._replace(cpu_seconds=0.2)
    )
    for given in (stopped, late, greedy):
        await shop.listener.until_begun(given)
    for starter in starters():
        starter.kill()
    shop.runner.stop(stopped.run_id, grace_seconds=0.0)
    assert Verdict.CANCELLED is (await shop.listener.ending_of(stopped)).verdict
    assert "timeout" == (await shop.listener.ending_of(late)).reason
    assert "cpu_limit" == (await shop.listener.ending_of(greedy)).reason


@needs_root
async def test_the_loss_of_a_starter_is_logged_once_however_many_tasks_it_had(shop: Shop, open_folder: Path) -> None:
    """All of them ask it for their exit status. It is lost once."""
    await shop.open()
    command = f"until [ -e {open_folder}/go ]; do sleep 0.01; done"
    given = [shop.launch({"kind": "shell", "command": command}) for _ in range(3 * STARTERS)]
    for each in given:
        await shop.listener.until_begun(each)
    killed = starters()
    for starter in killed:
        starter.kill()
    with capture_logs() as logged:
        (open_folder / "go").touch()
        endings = [await shop.listener.ending_of(each) for each in given]
    assert {Verdict.UNKNOWN} == {ending.verdict for ending in endings}
    lost = [entry["pid"] for entry in logged if entry["event"] == "task_starter_lost"]
    assert sorted(starter.pid for starter in killed) == sorted(lost)


@needs_root
async def test_a_limit_is_told_though_the_exit_status_is_lost_and_no_look_was_in_time(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel has killed a task for the limit of its control group, and its starter with it. A made-up group, which
    no process can be in: few machines have all of them."""
    made_up = tmp_path / "group"
    made_up.mkdir()
    (made_up / "cgroup.procs").symlink_to(os.devnull)
    (made_up / "memory.events").write_text("oom 1\noom_kill 1\n")
    group = Group({Resource.MEMORY: GroupFolder(2, made_up)})
    monkeypatch.setattr(start, "make_group", lambda *_: group)
    monkeypatch.setattr(limits, "LOOK_SECONDS", 600.0)
    await shop.open()
    bounded = TaskLimits(1 << 20, memory_bytes=1 << 30)
    given = shop.launch({"kind": "shell", "command": "sleep 600"}, limits=bounded)
    await shop.listener.until_begun(given)
    for starter in starters():
        for task in starter.children():
            task.kill()
        starter.kill()
    ending = await shop.listener.ending_of(given)
    assert (Verdict.FAILED, "memory_limit") == (ending.verdict, ending.reason)


class Reused:
    """A task that its starter's end left to the init process: its number is another process's by now."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def watch(self) -> int:
        return os.pidfd_open(self.pid)

    def holds_number(self) -> bool:
        return False

    def reap(self) -> None:
        return None


async def test_no_other_process_is_ended_that_got_the_number_of_a_task(tmp_path: Path) -> None:
    """After the loss of a starter, nothing keeps the number of an ended task from being given out again."""
    other = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    try:
        await eventually(lambda: psutil.Process(other.pid).children(), what="it has a child")
        tree = Tree(process=Reused(other.pid), mark=b"TICKWISE_NO_SUCH_MARK=", number=1)
        assert set() == active_members(tree)
        with ThreadPoolExecutor(1) as threads:
            await kill_tree(tree, threads=threads, clock=SystemClock())
        assert other.poll() is None
        assert [False] == [gone(child.pid) for child in psutil.Process(other.pid).children()]
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()


@needs_root
async def test_a_task_starts_although_its_starter_was_killed_while_it_had_nothing_to_do(shop: Shop) -> None:
    """The first task after it, too: no attempt is lost."""
    await shop.open()
    for _ in range(2 * STARTERS):
        assert Verdict.OK is (await shop.ending({"kind": "shell", "command": "true"})).verdict
    for starter in starters():
        starter.kill()
    for _ in range(2 * STARTERS):
        assert Verdict.OK is (await shop.ending({"kind": "shell", "command": "true"})).verdict


@needs_root
async def test_a_task_starts_once_although_its_starter_is_killed_with_the_request(
    shop: Shop, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The starter has the request, and ends before it did anything."""
    await shop.open()
    await shop.ending({"kind": "shell", "command": "true"})
    real = task_starter._Program.ask

    def stopped(program: Any, request: tuple[Any, ...], descriptors: Sequence[int] = ()) -> tuple[Any, ...]:
        if request[0] == "start" and not killed:
            killed.append(program)
            program._process.send_signal(signal.SIGSTOP)
            threading.Timer(0.2, program._process.kill).start()
        return real(program, request, descriptors)

    killed: list[Any] = []
    monkeypatch.setattr(task_starter._Program, "ask", stopped)
    ending = await shop.ending({"kind": "shell", "command": f"echo begun >> {open_folder}/starts"})
    assert (Verdict.OK, 1) == (ending.verdict, len(killed))
    assert "begun\n" == (open_folder / "starts").read_text()


@needs_root
@pytest.mark.parametrize("seconds", [None, 60.0], ids=["free", "limited"])
async def test_a_task_starts_once_although_its_starter_is_killed_before_its_answer(
    shop: Shop, open_folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None
) -> None:
    """The task runs, so another start would be its second one. Its end is unknown."""
    await shop.open()
    real = task_starter._Program.ask

    def unanswered(program: Any, request: tuple[Any, ...], descriptors: Sequence[int] = ()) -> tuple[Any, ...]:
        answer = real(program, request, descriptors)
        if request[0] == "start" and len(asked) < 1:
            asked.append(request)
            program._process.kill()
            program._process.wait()
            return real(program, ("reap", 0))
        return answer

    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(task_starter._Program, "ask", unanswered)
    limits = TaskLimits(1 << 20, cpu_seconds=seconds)
    ending = await shop.ending({"kind": "shell", "command": f"echo begun >> {open_folder}/starts"}, limits=limits)
    assert Verdict.UNKNOWN is ending.verdict
    assert "begun\n" == (open_folder / "starts").read_text()
    assert Verdict.OK is (await shop.ending({"kind": "shell", "command": "true"})).verdict


@needs_root
async def test_starters_that_keep_ending_are_started_more_and_more_seldom(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs go back uncounted, and none is claimed meanwhile; when it is over, tasks start again."""
    program = task_starter_program.__file__
    count = tmp_path / "count"
    broken = tmp_path / "task_starter_program.py"
    broken.write_text(f"open({str(count)!r}, 'a').write('x')\n")
    monkeypatch.setattr(task_starter_program, "__file__", str(broken))
    monkeypatch.setattr(task_starter, "PAUSES_SECONDS", (300.0, 600.0))
    await shop.open()
    labels = shop.runner.labels()
    given = [shop.launch({"kind": "shell", "command": "true"}) for _ in range(100)]
    endings = [await shop.listener.ending_of(each) for each in given]
    assert {(Verdict.UNOFFERED, "starter_lost")} == {(ending.verdict, ending.reason) for ending in endings}
    assert all(0.0 < (ending.retry_after_seconds or 0.0) <= 300.0 for ending in endings)
    assert [] == list(shop.runner.labels())
    shop.runner._starts._until = 0.0  # the pause is over
    assert labels == shop.runner.labels()
    assert Verdict.UNOFFERED is (await shop.ending({"kind": "shell", "command": "true"})).verdict
    assert [] == list(shop.runner.labels())
    assert 300.0 < shop.runner._starts.pause_left_seconds() <= 600.0
    assert len(count.read_text()) <= 100
    monkeypatch.setattr(task_starter_program, "__file__", program)
    shop.runner._starts.succeeded()
    assert Verdict.OK is (await shop.ending({"kind": "shell", "command": "true"})).verdict


@needs_root
async def test_nothing_of_a_task_is_in_the_arguments_of_a_process(shop: Shop) -> None:
    """Everybody on the machine may read those."""
    await shop.open()
    secret = "a-password-in-a-command"
    given = shop.launch({"kind": "shell", "command": f"{secret}=1; sleep 600"})
    await shop.listener.until_begun(given)
    words = [word for process in psutil.process_iter(["cmdline"]) for word in process.info["cmdline"] or ()]
    assert [] == [word for word in words if secret in word]
    shop.runner.stop(given.run_id, grace_seconds=0.0)
    await shop.listener.ending_of(given)
