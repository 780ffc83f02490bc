"""Prepared sandboxes: many tasks in one bubblewrap, each alone; with the real program and real tasks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.services.packages import program
from tests.support.runners import gone
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.parent.task_parents import ShortEnd, ShortTaskLost, Unmade
from tickwise.adapters.runner.process.sandbox.interpreter_mounts import interpreter_mounts
from tickwise.adapters.runner.process.sandbox.levels import HOME
from tickwise.adapters.runner.process.sandbox.plan import Mount, SandboxPlan, SandboxSizes
from tickwise.adapters.runner.process.sandbox.prepared import holder as holders
from tickwise.adapters.runner.process.sandbox.prepared import pool as pools
from tickwise.adapters.runner.process.sandbox.prepared.holder import (
    MAX_REQUEST_BYTES,
    HolderStart,
    LivingTask,
    PreparedProcess,
    PreparedTask,
    SandboxHolder,
    TaskNamespace,
)
from tickwise.adapters.runner.process.sandbox.prepared.pool import HolderKey, PreparedSandboxes
from tickwise.adapters.runner.process.warm.zygote import WarmRequest

PATIENCE_SECONDS = 60.0
PYTHON = os.path.realpath(sys.executable)
SECRET = "a-value-of-another-task"  # no secret, but the sample of one
PATH = "/usr/bin:/bin"


class PreparedShop:
    """One holder, and what is asked of it."""

    def __init__(self, folder: Path, *, is_warm: bool = False, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.place = folder / "place"
        self.place.mkdir(mode=0o700)
        etc = folder / "etc"
        etc.mkdir()
        self.start = HolderStart(
            bubblewrap=program("bwrap"),
            plan=SandboxPlan(
                work="/",
                home=HOME,
                etc=etc,
                mounts=(Mount(str(self.place), str(self.place), is_writable=True), *interpreter_mounts(PYTHON)),
                sizes=SandboxSizes(tmp=4 << 20, home=1 << 20, shared_memory=1 << 20),
            ),
            place=self.place,
            python=[PYTHON, *(("-u", "-s", "-B") if is_warm else ("-I", "-S", "-E"))],
            environment={"PATH": PATH, "LC_ALL": "C.UTF-8"},
            is_warm=is_warm,
            patience_seconds=patience_seconds,
        )
        self.numbers = count(1)
        self.hurry: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.last = Path()
        """The folder of the last task."""

    async def open(self) -> None:
        self.holder = SandboxHolder(*await asyncio.to_thread(SandboxHolder.begin, self.start))

    def task(self, text: str, **changes: Any) -> PreparedTask:
        """A shell command, or a script where the holder is warm."""
        number = next(self.numbers)
        work, script = f"{self.place}/work", "task.py" if self.start.is_warm else "task.sh"
        file = f"{self.place}/{script}"
        environment = {"PATH": PATH, "HOME": HOME, **changes.pop("environment", {})}
        arguments, warm = ["/bin/sh", file], None
        if self.start.is_warm:
            arguments = [*self.start.python, file]
            warm = WarmRequest(number, None, work, environment, arguments, file, "").content()[8:]
        made = PreparedTask(1_000 + number, script, text.encode(), work, arguments, environment, warm)
        return made._replace(**changes)

    async def begun(self, task: PreparedTask) -> ShortEnd | LivingTask:
        slot = self.holder.slot(task.script)
        self.last = slot.folder
        return await self.holder.start(slot, task, self.hurry)

    async def ended(self, text: str, **changes: Any) -> ShortEnd:
        """The end of a task; of one that lives longer, when it has come."""
        found = await self.begun(self.task(text, **changes))
        return found if isinstance(found, ShortEnd) else await self.end_of(found)

    async def end_of(self, found: LivingTask) -> ShortEnd:
        process = found.process
        os.set_blocking(found.output, True)
        with open(found.output, "rb") as file:
            output = await asyncio.wait_for(asyncio.to_thread(file.read), PATIENCE_SECONDS)
        await self.until_gone(process)
        return ShortEnd(found.began, 0.0, await asyncio.to_thread(process.reap), output, is_tidy=False)

    async def until_gone(self, process: PreparedProcess) -> None:
        descriptor, ended = process.watch(), asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, ended.set)
        await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    async def said(self, text: str, **changes: Any) -> str:
        return (await self.ended(text, **changes)).output.decode()

    async def long(self, text: str, **changes: Any) -> LivingTask:
        found = await self.begun(self.task(text, **changes))
        assert isinstance(found, LivingTask), found
        return found

    def processes(self) -> set[psutil.Process]:
        """All that has come of the holder, with the holder."""
        return set(psutil.Process(self.holder.pid).children(recursive=True))

    async def close(self) -> None:
        processes = self.processes() if psutil.pid_exists(self.holder.pid) else set()
        self.holder.close()
        await asyncio.to_thread(self.holder.wait)
        await eventually(lambda: all(gone(one.pid) for one in processes), within_seconds=PATIENCE_SECONDS)


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[PreparedShop]:
    """Each task lives until it is handed over: the sooner, the better."""
    made = PreparedShop(tmp_path, patience_seconds=0.05)
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def patient(tmp_path: Path) -> AsyncIterator[PreparedShop]:
    """Each task is short, on a slow machine too."""
    made = PreparedShop(tmp_path)
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def warm(tmp_path: Path) -> AsyncIterator[PreparedShop]:
    made = PreparedShop(tmp_path, is_warm=True, patience_seconds=0.5)
    await made.open()
    yield made
    await made.close()


# ---------------------------------------------------------------------------------------------- what a task tells


async def test_a_short_task_tells_all_of_its_end(patient: PreparedShop) -> None:
    """Output in order, exit status or signal, processor time; and its folder is gone, or kept for the next one."""
    end = await patient.ended("echo one; echo two >&2; exit 3")
    assert (end.output, end.is_tidy) == (b"one\ntwo\n", True)
    assert end.reaped is not None
    assert (end.reaped.status, (end.reaped.cpu_seconds or 0.0) > 0.0) == (3, True)
    assert ((await patient.ended("kill -9 $$")).reaped or end.reaped).status == -signal.SIGKILL
    assert ((await patient.ended("kill -TERM $$")).reaped or end.reaped).status == -signal.SIGTERM


async def test_a_folder_is_used_again_only_if_its_task_left_it_as_it_was(patient: PreparedShop) -> None:
    """By its names, modes, links and attributes. What a task leaves is there for the executor."""
    fresh = ".:\n\n..:\ntask.sh\nwork\n"
    first = await patient.said("ls -A . ..; stat -c %i ..")
    assert first.startswith(fresh)
    assert await patient.said("ls -A . ..; stat -c %i ..") == first
    for leaves in (
        "echo kept > result",
        "touch ../x",
        "chmod 755 ..",
        "rm ../task.sh",
        "mv ../task.sh x; ln -s work/x ../task.sh",
    ):
        assert not (await patient.ended(leaves)).is_tidy
        assert (await patient.ended("ls -A . ..; stat -c %i ..")).output.decode() != first
        assert (await patient.ended("ls -A . ..")).output.decode() == fresh
    assert (patient.place / "task-1" / "work" / "result").read_text() == "kept\n"
    assert len(list(patient.place.iterdir())) == 6


async def test_a_task_that_lives_is_handed_over(shop: PreparedShop) -> None:
    """With its output and its number, by which its tree is found from outside."""
    found = await shop.long("echo begun; sleep 600; exit 4")
    process = found.process
    assert process.holds_number()
    assert psutil.Process(process.pid).name() == "sh"
    assert os.getsid(process.pid) == process.pid
    assert process.pid in {one.pid for one in shop.processes()}
    os.kill(process.pid, signal.SIGTERM)
    end = await shop.end_of(found)
    assert end.reaped is not None
    assert (end.output, end.reaped.status) == (b"begun\n", -signal.SIGTERM)


async def test_a_task_in_a_hurry_is_handed_over_at_once(shop: PreparedShop) -> None:
    shop.hurry.set_result("cancelled")
    process = (await shop.long("sleep 600")).process
    os.kill(process.pid, signal.SIGKILL)
    await shop.until_gone(process)
    reaped = process.reap()
    assert reaped is not None
    assert reaped.status == -signal.SIGKILL


async def test_what_cannot_be_executed_is_an_error(shop: PreparedShop) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await shop.ended("", arguments=["no-such-program"], script="")
    assert caught.value.filename == "no-such-program"


async def test_a_task_that_is_too_large_begins_elsewhere(shop: PreparedShop) -> None:
    with pytest.raises(Unmade):
        await shop.ended("#" * MAX_REQUEST_BYTES)
    assert shop.holder.tasks == 0


async def test_a_sandbox_that_cannot_be_made_begins_nothing(shop: PreparedShop) -> None:
    """Its folder is there already: it is not this task's."""
    slot = shop.holder.slot("task.sh")
    slot.folder.mkdir()
    with pytest.raises(Unmade):
        await shop.holder.start(slot, shop.task("echo never"), shop.hurry)
    assert list(slot.folder.iterdir()) == []


async def test_output_that_fills_the_pipe_is_read_in_time(shop: PreparedShop) -> None:
    assert len(await shop.said("head -c 1000000 /dev/zero")) == 1_000_000


# ---------------------------------------------------------------------------------------------- its walls


async def test_a_task_has_no_rights(shop: PreparedShop) -> None:
    """No capability, also after the execution of a program; seccomp; and no way to more."""
    status = dict(
        line.split(":\t")
        for line in (await shop.said("cat /proc/self/status")).splitlines()
        if line[:3] in ("Cap", "NoN", "Sec")
    )
    assert {name for name in status if name.startswith("Cap") and int(status[name], 16)} == set()
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    refused = "for what in 'unshare -U true' 'unshare -m true' 'mount -t tmpfs x /tmp' 'umount /tmp' 'hostname x'; do "
    assert await shop.said(f"{refused} $what >/dev/null 2>&1 && echo $what; done") == ""
    assert await shop.said("cat /proc/sys/user/max_user_namespaces") == "0\n"


async def test_a_task_sees_its_own_processes_and_the_input_of_none(shop: PreparedShop) -> None:
    """It is process 2 of its namespace, in a session of its own, and without descriptors of others."""
    seen = await shop.said(
        "echo $$ $(ls /proc | grep -c '^[0-9]'); cut -d' ' -f6 /proc/$$/stat; ls /proc/$$/fd; cat; hostname >/dev/null"
    )
    lines = seen.split()
    assert lines[0] == lines[2] == "2"
    assert int(lines[1]) <= 5
    assert set(lines[3:]) <= {"0", "1", "2", "10"}  # the shell's own, for its script


async def test_signals_are_as_in_any_process(shop: PreparedShop) -> None:
    """None is blocked or ignored. (But the two that a C library keeps for itself, by all that it has spawned.)"""
    seen = await shop.said("grep -E 'Sig(Blk|Ign)' /proc/self/status")
    assert [int(line.split()[1], 16) & ~0x180000000 for line in seen.splitlines()] == [0, 0]


@pytest.mark.parametrize("is_warm", [False, True])
async def test_signals_that_the_executor_ignores_are_a_tasks_own(tmp_path: Path, is_warm: bool) -> None:
    """As below `nohup`, which ignores them for all that it starts."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGQUIT)}
    made = PreparedShop(tmp_path, is_warm=is_warm)
    try:
        await made.open()
        looks = "print(open('/proc/self/status').read())" if is_warm else "cat /proc/self/status"
        [seen] = [line for line in (await made.said(looks)).splitlines() if line.startswith("SigIgn:")]
    finally:
        await made.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    assert 0 == int(seen.split()[1], 16) & (1 << signal.SIGHUP - 1 | 1 << signal.SIGQUIT - 1)


@pytest.mark.parametrize("what", ["environ", "maps", "mem", "fd", "cwd", "root"])
async def test_the_init_of_a_task_cannot_be_looked_into(shop: PreparedShop, what: str) -> None:
    looks = f"cat /proc/1/{what} /proc/1/{what}/*; readlink /proc/1/{what} /proc/1/{what}/*; ls /proc/1/{what}/etc"
    assert await shop.said(f"({looks}) 2>/dev/null") == ""


async def test_a_task_cannot_harm_its_init(shop: PreparedShop) -> None:
    signals = "for number in 1 2 3 6 9 10 12 13 14 15 17 18 19 20; do kill -$number 1; done"
    assert await shop.said(f"{signals} 2>/dev/null; echo lives") == "lives\n"


async def test_two_tasks_see_nothing_of_each_other(shop: PreparedShop) -> None:
    """Neither folders nor /tmp, shared memory, home, terminals, processes, sockets or System V memory."""
    leaves = (
        f"echo {SECRET} | tee /tmp/a /dev/shm/a ~/a a ../a >/dev/null; ipcmk -M 100 >/dev/null;"
        "sleep 600 & echo begun; touch ../ready; sleep 600"
    )
    first = await shop.long(leaves, environment={"VALUE": SECRET})
    ready = shop.last / "ready"
    await eventually(ready.exists, within_seconds=PATIENCE_SECONDS, what="all of it is left")
    process = first.process
    wanted = SECRET.replace("-", '"-"')  # so that the command itself is not found
    looks = (
        f"grep -rs {wanted} /tmp /dev/shm ~ . .. {shop.place}; find /tmp /dev/shm ~ -type f;"
        "ls /dev/pts; grep -l sleep /proc/*/comm 2>/dev/null;"
        "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep VALUE;"
        "tail -n +2 /proc/sysvipc/shm"
    )
    seen = await shop.said(looks)
    assert SECRET not in seen
    assert seen.split() == [f"{shop.place}/task.sh", "ptmx"]
    assert (shop.place / "task-1" / "a").read_text().strip() == SECRET
    process.kill_all()
    assert (await shop.end_of(first)).output == b"begun\n"
    # The next task, which may get the network of the first one, neither.
    assert SECRET not in await shop.said(looks)


LISTENS = """
import socket, sys, time
tcp, udp, unix = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
tcp.bind(("127.0.0.1", 4000)); tcp.listen(); udp.bind(("127.0.0.1", 4000)); unix.bind("\\0here"); unix.listen()
own = socket.create_connection(("127.0.0.1", 4000)); tcp.accept()
print("listens", flush=True)
open("../ready", "w").close()
time.sleep(600)
"""
CONNECTS = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", 4000)), (socket.AF_UNIX, "\\0here")):
    try:
        socket.socket(family).connect(address)
        print("reached", address)
    except OSError as error:
        print(error.errno)
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 4000))
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error:
    print(error.errno)
print(sorted(name for _, name in socket.if_nameindex()))
"""


async def test_the_loopback_of_a_task_is_its_own(warm: PreparedShop) -> None:
    """It can listen there and reach itself, and no other task can; nothing else is there."""
    first = await warm.long(LISTENS)
    ready = warm.last / "ready"
    await eventually(ready.exists, within_seconds=PATIENCE_SECONDS, what="it listens")
    assert (await warm.said(CONNECTS)).split("\n") == ["111", "111", "101", "['lo']", ""]
    first.process.kill_all()
    assert (await warm.end_of(first)).output == b"listens\n"
    assert (await warm.said(CONNECTS)).split("\n") == ["111", "111", "101", "['lo']", ""]


async def test_what_a_task_writes_is_bounded_and_goes_with_it(shop: PreparedShop) -> None:
    fills = (
        "for place in /tmp /dev/shm ~; do head -c 8M /dev/zero > $place/file; stat -c %s $place/file; done 2>/dev/null"
    )
    sizes = [int(line) for line in (await shop.said(fills)).split()]
    assert [size <= most << 20 for size, most in zip(sizes, (4, 1, 1), strict=True)] == [True] * 3
    writes = (
        "for place in / /etc /usr /run /dev /var /proc/sys/kernel; do touch $place/x && echo $place; done 2>/dev/null"
    )
    assert await shop.said(writes) == ""
    assert await shop.said("ls /tmp /dev/shm ~ | grep file") == ""


# ---------------------------------------------------------------------------------------------- warm scripts


async def test_a_warm_script_is_what_a_cold_one_is(warm: PreparedShop) -> None:
    """By its module, its arguments, its descriptors, its frames and its end."""
    facts = "import os, sys; print(__name__, sys.argv, sys.path[0], os.getcwd(), sorted(os.listdir('/proc/self/fd')))"
    seen = await warm.said(facts)
    assert seen == f"__main__ ['{warm.place}/task.py'] {warm.place} {warm.place}/work ['0', '1', '2', '3']\n"
    end = await warm.ended("def f():\n    1 / 0\nf()\n")
    assert end.reaped is not None
    assert end.reaped.status == 1
    assert "holder_program" not in end.output.decode()
    assert "zygote_program" not in end.output.decode()
    assert end.output.decode().startswith(f'Traceback (most recent call last):\n  File "{warm.place}/task.py", line 3')
    assert ((await warm.ended("import sys; sys.exit(7)")).reaped or end.reaped).status == 7
    assert (
        (await warm.ended("import os, signal; os.kill(os.getpid(), signal.SIGINT)")).reaped or end.reaped
    ).status < 2


async def test_a_warm_script_finds_nothing_of_an_earlier_one(warm: PreparedShop) -> None:
    """Not in the memory that it was forked with: the holder reads no request, and no output."""
    await warm.ended(f"print('{SECRET}')", environment={"VALUE": SECRET})
    looks = (
        "import re\nfound = 0\n"
        f"wanted = '{SECRET[::-1]}'[::-1].encode()\n"
        "for line in open('/proc/self/maps'):\n"
        "    begin, end, rights = re.match('([0-9a-f]+)-([0-9a-f]+) (.)', line).groups()\n"
        "    if rights == 'r' and 'vvar' not in line and 'vsyscall' not in line:\n"
        "        with open('/proc/self/mem', 'rb') as file:\n"
        "            file.seek(int(begin, 16))\n"
        "            try:\n"
        "                found += file.read(int(end, 16) - int(begin, 16)).count(wanted[:8] + wanted[8:])\n"
        "            except OSError:\n"
        "                pass\n"
        "print(found)\n"
    )
    own = looks.replace(SECRET[::-1], "another-value-of-nobody"[::-1])
    # It finds the bytes that it looks for in its own memory, as often whether or not another task had them.
    found = int(await warm.said(looks))
    assert found > 0
    assert found == int(await warm.said(own))


# ---------------------------------------------------------------------------------------------- its end

BOMB = "b() { while :; do (:); done; }; i=0; while [ $i -lt 30 ]; do b & i=$((i + 1)); done 2>/dev/null"
"""Forks without an end, from thirty processes, one at a time each: one that grows starves all that runs beside it."""
SHEDS = "(setsid env -i sh -c 'trap \"\" TERM HUP; exec sleep 600' >/dev/null 2>&1 </dev/null &)"


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
async def test_nothing_of_a_task_survives_its_end(shop: PreparedShop, long: bool) -> None:
    """Also what forked twice, left the session and has no environment."""
    await shop.ended(f"{SHEDS}; sleep 600 & {'sleep 0.1' if long else ':'}")
    await eventually(lambda: len(shop.processes()) == 1, within_seconds=PATIENCE_SECONDS)


async def test_a_task_is_killed_with_all_of_it(shop: PreparedShop) -> None:
    found = await shop.long(f"{SHEDS}; trap '' TERM; sleep 600")
    process = found.process
    TaskNamespace({}, process).kill()
    end = await shop.end_of(found)
    assert end.reaped is not None
    assert end.reaped.status == -signal.SIGKILL
    await eventually(lambda: len(shop.processes()) == 1, within_seconds=PATIENCE_SECONDS)


async def test_a_fork_bomb_ends(shop: PreparedShop) -> None:
    """The kernel lets no process of a namespace fork while it is being ended."""
    found = await shop.long(f"{BOMB}; sleep 600")
    process = found.process
    await eventually(lambda: len(shop.processes()) > 20, within_seconds=PATIENCE_SECONDS)
    process.kill_all()
    await shop.end_of(found)
    await eventually(lambda: len(shop.processes()) == 1, within_seconds=PATIENCE_SECONDS)


async def test_an_init_that_is_killed_ends_its_task(shop: PreparedShop) -> None:
    """Its exit status is lost."""
    found = await shop.long(f"{SHEDS}; sleep 600")
    init = psutil.Process(found.process.pid).parent()
    assert init is not None
    init.kill()
    assert (await shop.end_of(found)).reaped is None
    await eventually(lambda: len(shop.processes()) == 1, within_seconds=PATIENCE_SECONDS)
    assert (await shop.said("echo goes on")) == "goes on\n"


async def test_a_holder_that_is_killed_ends_all_of_its_tasks(shop: PreparedShop) -> None:
    """Those that were not handed over are lost: they may have begun."""
    found = await shop.long(f"{SHEDS}; sleep 600")
    processes = shop.processes()
    starting = asyncio.ensure_future(shop.begun(shop.task("sleep 600")))
    await eventually(lambda: len(shop.processes()) > len(processes), within_seconds=PATIENCE_SECONDS)
    (holder,) = psutil.Process(shop.holder.pid).children()
    holder.kill()
    with contextlib.suppress(ShortTaskLost):
        lost = await starting
        assert isinstance(lost, LivingTask)
        assert (await shop.end_of(lost)).reaped is None
    assert (await shop.end_of(found)).reaped is None
    await eventually(lambda: all(gone(one.pid) for one in processes), within_seconds=PATIENCE_SECONDS)
    await eventually(lambda: shop.holder.is_lost, within_seconds=PATIENCE_SECONDS)
    with pytest.raises(Unmade):
        await shop.ended("echo never")


async def test_an_executor_that_stood_still_gives_its_holder_time_to_answer(
    patient: PreparedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were frozen, with all that they ran in: the time in which nobody could answer counts for nothing."""
    monkeypatch.setattr(holders, "LOST_SECONDS", 0.1)
    (process,) = patient.processes()
    process.suspend()
    starting = asyncio.ensure_future(patient.ended("echo said"))
    await SystemClock().sleep(0)
    time.sleep(1.5)  # noqa: ASYNC251, TID251  # the whole process stands still
    monkeypatch.setattr(holders, "LOST_SECONDS", PATIENCE_SECONDS)
    for _ in range(3):
        await SystemClock().sleep(0)
    assert not patient.holder.is_lost
    process.resume()
    assert (await starting).output == b"said\n"


ABANDONS = """
import asyncio, sys
from pathlib import Path
from tests.integration.test_prepared_sandboxes import PreparedShop, SHEDS
from tests.support.waiting import eventually

async def main():
    shop = PreparedShop(Path(sys.argv[1]), patience_seconds=0.05)
    await shop.open()
    found = await shop.long(f"{SHEDS}; sleep 600")
    await eventually(lambda: len(shop.processes()) > 4)
    print(shop.holder.pid, *(one.pid for one in shop.processes()), flush=True)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


async def test_nothing_is_left_of_an_executor_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ABANDONS, str(tmp_path)], stdout=subprocess.PIPE) as executor:
        assert executor.stdout is not None
        pids = [int(word) for word in (await asyncio.to_thread(executor.stdout.readline)).split()]
        assert len(pids) > 4
        executor.kill()
    await eventually(lambda: all(gone(pid) for pid in pids), within_seconds=PATIENCE_SECONDS)


def _namespaces() -> set[str]:
    """Of all that this process has started: others of the machine make some too."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        for kind in ("mnt", "pid", "ipc", "uts"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{process.pid}/ns/{kind}"))
    return found


async def test_many_tasks_leave_nothing(patient: PreparedShop) -> None:
    """No process, no namespace but that of the network which is used again, no mount, no descriptor, no folder."""
    (holder,) = patient.processes()

    async def some(number: int) -> None:
        for _ in range(number):
            assert (await patient.ended("echo x > /tmp/x")).is_tidy

    await asyncio.gather(*(some(5) for _ in range(4)))
    await eventually(lambda: patient.processes() == {holder}, within_seconds=PATIENCE_SECONDS)
    mounts = Path(f"/proc/{holder.pid}/mountinfo").read_text().count("\n")
    descriptors, own = holder.num_fds(), psutil.Process().num_fds()
    namespaces = _namespaces()
    await asyncio.gather(*(some(50) for _ in range(4)))
    await eventually(lambda: patient.processes() == {holder}, within_seconds=PATIENCE_SECONDS)
    assert Path(f"/proc/{holder.pid}/mountinfo").read_text().count("\n") == mounts
    assert (holder.num_fds(), psutil.Process().num_fds()) == (descriptors, own)
    assert _namespaces() <= namespaces
    assert len(list(patient.place.iterdir())) <= 4


# ---------------------------------------------------------------------------------------------- the pool


@pytest_asyncio.fixture
async def pool(tmp_path: Path) -> AsyncIterator[PreparedSandboxes]:
    (tmp_path / "sandboxes").mkdir()
    made = PreparedSandboxes(tmp_path / "sandboxes", SystemClock())
    yield made
    await made.close()
    assert list((tmp_path / "sandboxes").iterdir()) == []


def _key(namespace: str) -> HolderKey:
    return HolderKey(namespace, os.geteuid(), PYTHON, (), (), is_warm=False)


async def test_tenants_never_share_a_holder(pool: PreparedSandboxes, tmp_path: Path) -> None:
    """Each gets its own, for the second task within a minute; none waits for one."""
    etc = tmp_path / "etc"
    etc.mkdir()

    def start(place: Path) -> HolderStart:
        mounts = (Mount(str(place), str(place), is_writable=True), *interpreter_mounts(PYTHON))
        plan = SandboxPlan(work="/", home=HOME, etc=etc, mounts=mounts)
        return HolderStart(
            bubblewrap=program("bwrap"), plan=plan, place=place, python=[PYTHON, "-I", "-S", "-E"], environment={}
        )

    assert pool.chosen(_key("one"), start) is None
    assert pool.chosen(_key("two"), start) is None
    await eventually(lambda: pool.chosen(_key("one"), start) is not None, within_seconds=PATIENCE_SECONDS)
    one = pool.chosen(_key("one"), start)
    await eventually(lambda: pool.chosen(_key("two"), start) is not None, within_seconds=PATIENCE_SECONDS)
    two = pool.chosen(_key("two"), start)
    assert one is not None
    assert two is not None
    assert one.pid != two.pid
    assert one.place != two.place
    assert pool.chosen(_key("one"), start) is one
    os.kill(one.pid, signal.SIGKILL)
    await eventually(lambda: one.is_lost, within_seconds=PATIENCE_SECONDS)
    await eventually(lambda: pool.chosen(_key("one"), start) not in (None, one), within_seconds=PATIENCE_SECONDS)


async def test_a_holder_that_cannot_be_made_is_not_tried_again_at_once(
    pool: PreparedSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def start(place: Path) -> HolderStart:
        tries.append(place)
        plan = SandboxPlan(work="/", home=HOME, etc=tmp_path / "not there")
        return HolderStart(bubblewrap=program("bwrap"), plan=plan, place=place, python=[PYTHON], environment={})

    def asked() -> bool:
        assert pool.chosen(_key("one"), start) is None
        return bool(tries) and not pool._making

    await eventually(asked, within_seconds=PATIENCE_SECONDS)
    assert asked()
    assert len(tries) == 1
    monkeypatch.setattr(pools, "FAILED_SECONDS", 0.0)
    await eventually(lambda: not asked() and len(tries) > 1, within_seconds=PATIENCE_SECONDS)
