"""Ends processes with all their descendants, also those that left the session.

A task's processes are found in six ways. No single one is enough, and no ordinary program sheds them all:

    session      that of its leader, until somebody calls setsid
    descent      until somebody forks twice, so that a stranger becomes the parent
    environment  a variable that only this task has, until somebody clears it
    limit        a number that only this task has, in a resource limit that the kernel keeps for every process and
                 has not used since Linux 2.4 (`RLIMIT_LOCKS`); forks, sessions and cleared environments keep it
    cgroup       a control group, for a task whose limits need one: nobody leaves it without the right to
    groups       two groups of users that only this task is in, where it runs as another user (`task_groups`): nothing
                 but a right of root's takes them away, so no program of a task sheds these, and none of another task
                 has them. Where there are groups, environment and limit say nothing, for every task can write them

A shell command takes its number itself; other programs are given theirs just after their start, for nothing may come
between fork and exec. One gap is left where tasks are the executor's own user: a program that, in the moment before,
forks twice, leaves the session and clears its environment; and one that sets that limit anew, or becomes another user.

A look takes a moment, and a process may fork and go within it, again and again. So a look that found somebody, or
during which somebody came, is followed by another one; and where tasks are other users, looks that come to no end are
followed by one during which all that this user runs stands still.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from tickwise.adapters.runner.process.cgroups import Group
from tickwise.adapters.runner.process.task_groups import credentials_of, groups_of
from tickwise.adapters.runner.process.task_starter_program import own_peak, peak_bytes
from tickwise.ports.clock import Clock

_PROC = Path("/proc")
_SWEEP_SECONDS = 0.005
_GRACE_LOOK_SECONDS = (0.02, 0.2)
"""Between two looks at whether all of a task has obeyed, at first and in the end."""
DOUBTFUL_LOOKS = 3
"""After so many that are not certain, one comes during which nothing moves, or the last one is believed."""
YOUNG_LOOKS = 5
"""At those that come during a look, before all are listed again."""
MAX_YOUNG = 50
"""Numbers that are looked at one by one, at 5 µs each where there is no process. For more, all processes are listed,
which takes 0.3 ms."""
MAX_KILL_SECONDS = 10.0
"""A process that is there so long after its KILL hangs inside the kernel, on a dead network disk for instance. (One
with much memory takes seconds to end, and a look at thousands of processes takes one.)"""
UNKILLABLE = "unkillable"
"""The reason of an attempt that ended although its process did not."""
OOM_SCORE = b"500"
"""As if it used half of the machine's memory on top of its own: a task that takes all must not take its executor along,
and with it every other task."""
RLIMIT_LOCKS = 10
"""Equal on all machines of Linux but two (alpha, sparc): there the number marks nothing."""
_LIMIT_LINE = b"\nMax file locks"

_logger = logging.getLogger(__name__)


class Stat(NamedTuple):
    """The facts about an active process that we need."""

    parent: int
    session: int
    cpu_ticks: int
    """With that of the children that it has waited for."""
    threads: int
    began: int
    """Tells it from an earlier process with its number."""
    resident_pages: int


class ReapedElsewhere(Protocol):
    """A process whose exit status another process takes for us."""

    @property
    def pid(self) -> int: ...

    def watch(self) -> int:
        """Return a new descriptor that is readable when the process has ended."""
        ...

    def holds_number(self) -> bool:
        """Check whether no other process can have its number: it was not reaped."""
        ...

    def reap(self) -> Reaped | None:
        """Take the exit status of the ended process; None if it is lost with the process that took it for us."""
        ...


Process = subprocess.Popen[bytes] | ReapedElsewhere
"""The process that leads a task: a child of ours, or of one that starts tasks for us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A process that leads a session, and everything that comes of it. It must not be reaped by us while this is used;
    that of a starter that was killed may be reaped by the init process."""

    process: Process
    mark: bytes
    """A piece of the environment that only this task has."""
    number: int = 0
    """The value of the limit that only this task has; 0: none."""
    since: Moment | None = None
    """A moment before it began; None: it may be older than every process that lives."""
    group: Group | None = None
    has_groups: bool = False
    """It is in the two groups of its number."""
    all_stopped: Callable[[], AbstractContextManager[None]] | None = None
    """Lets all processes of its user stand still; None: they are our own user's, so we would too."""
    others: Mapping[int, Process] = field(default_factory=dict)
    """The processes that lead other tasks now. A session cannot be joined, so all of theirs are strangers."""
    is_sandboxed: bool = False
    """Its leader is that of a sandbox, and no part of the task: when it ends, the kernel kills all that is inside."""

    @property
    def leader(self) -> int:
        return self.process.pid

    def has_leader(self) -> bool:
        """Check whether the number of its leader is still its own. If not, its processes are known by their marks
        alone, for another session may have that number."""
        return _holds_number(self.process)

    def is_of_another(self, session: int) -> bool:
        """Check whether a session is our own or was begun by another task: no process of it belongs to this one."""
        other = self.others.get(session) if session != self.leader else None
        return session == os.getsid(0) or (other is not None and _holds_number(other))

    def among_all(self) -> Tree:
        """This tree, looked for among all processes there are."""
        return replace(self, since=None)


def _holds_number(process: Process) -> bool:
    return isinstance(process, subprocess.Popen) or process.holds_number()


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signal a process group whose leader has not been reaped yet, so its number is still its own."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        pass  # nothing of it is left
    except PermissionError:
        pass  # only a zombie is left, on some systems


def give_number(pid: int, number: int) -> None:
    """Mark a process that has just started, and what it has started already, for those that come after it."""
    try:
        most = resource.getrlimit(RLIMIT_LOCKS)[1]
        resource.prlimit(pid, RLIMIT_LOCKS, (number, most))
        for child in _content(f"/proc/{pid}/task/{pid}/children").split():
            give_number(int(child), number)
    except (OSError, ValueError):
        return  # it has ended, runs as another user, or has a lower limit: the other ways remain


def offer_first(pid: int) -> None:
    """Let the kernel end this process, and what it will start, before us when the machine has no memory left."""
    with contextlib.suppress(OSError):  # it has ended, or runs as another user
        descriptor = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY)
        try:
            os.write(descriptor, OOM_SCORE)
        finally:
            os.close(descriptor)


def number_of(name: str) -> int:
    """The number that the process `name` was given; 0 if it has none. Raises `OSError` if it has ended."""
    said = _content(f"/proc/{name}/limits").partition(_LIMIT_LINE)[2].split(None, 1)[:1]
    return int(said[0]) if said and said[0].isdigit() else 0


def _content(file: str) -> bytes:
    """Of a file of /proc. Raises `OSError`."""
    with open(file, "rb", buffering=0) as opened:
        return opened.read()


def present() -> frozenset[str]:
    """The numbers of the processes that there are now."""
    return frozenset(name for name in os.listdir(_PROC) if name.isdecimal()) if _PROC.is_dir() else frozenset()


def last_number() -> int:
    """The number that the kernel has given last to a process or a thread: numbers come in their order, and begin anew
    after the highest one. 0: this kernel does not tell."""
    try:
        descriptor = os.open("/proc/loadavg", os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(os.read(descriptor, 200).rpartition(b" ")[2])
    except ValueError:
        return 0
    finally:
        os.close(descriptor)


class Moment(NamedTuple):
    """A moment, by what had been started until then: those processes are not looked at for a task that began later. It
    tells nothing any more once numbers are in use again (`runner.NUMBERS_STAY_SECONDS`)."""

    last: int
    """The number that was given last; 0: it is not known."""
    names: frozenset[str] = frozenset()
    """The numbers of all processes, where the last is not known."""

    @classmethod
    def now(cls) -> Moment:
        """Before a task begins. Blocking: 10 µs where the kernel tells the last number; to list all takes 1 ms."""
        last = last_number()
        return cls(last) if last else cls(0, present())

    def checked(self, pid: int) -> Moment | None:
        """This moment, if a process that was started after it bears it out; else None."""
        return self if not self.last or _is_between(self.last, last_number(), pid) else None

    def after(self) -> frozenset[str]:
        """The numbers of all processes that are younger; where few numbers were given, those that were."""
        if not self.last:
            return present() - self.names
        now = last_number()
        if 0 <= now - self.last <= MAX_YOUNG:
            return frozenset(map(str, range(self.last + 1, now + 1)))
        names = present()
        now = last_number()
        return frozenset(name for name in names if _is_between(self.last, now, int(name)))


def _is_between(last: int, now: int, pid: int) -> bool:
    """Check whether a number was given after `last`, and up to `now`."""
    return last < pid <= now if last <= now else pid > last or pid <= now


def stats(names: Iterable[str]) -> dict[int, Stat]:
    """The facts about those that are alive; zombies are not."""
    found: dict[int, Stat] = {}
    for name in names:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = _content(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                ticks = sum(int(field) for field in fields[11:15])
                found[int(name)] = Stat(
                    int(fields[1]), int(fields[3]), ticks, int(fields[17]), int(fields[19]), int(fields[21])
                )
    return found


def _descendants(known: Mapping[int, Stat], members: set[int], leader: int | None) -> set[int]:
    """The members and everyone who comes of them, or of the leader, who may be a zombie and so not known."""
    growing = True
    while growing:
        children = {pid for pid, one in known.items() if one.parent in members or one.parent == leader} - members
        members |= children
        growing = bool(children)
    return members


def _is_marked(pid: int, tree: Tree) -> bool:
    name = str(pid)
    if tree.has_groups:
        # They decide alone: a task of another namespace may give itself any number and any environment, and would be
        # counted to this one's limits.
        with contextlib.suppress(OSError):
            return credentials_of(name).groups.issuperset(groups_of(tree.number))
        return False
    with contextlib.suppress(OSError):
        if tree.number and (number := number_of(name)):
            return number == tree.number
    with contextlib.suppress(OSError):  # another user's process, by now
        return tree.mark in _content(f"/proc/{name}/environ")
    return False


def members_of(tree: Tree, known: Mapping[int, Stat], strangers: Collection[int] = ()) -> set[int]:
    """The known processes that belong to the task. `strangers` are known not to be marked.

    A look at the marks of one costs up to 0.3 ms, and there are hundreds.
    """
    leader = tree.leader if tree.has_leader() else None
    members = set()
    if leader is not None:
        members = {pid for pid, one in known.items() if one.session == leader or pid == leader}
    if tree.group is not None:
        members |= tree.group.members() & known.keys()
    members = _descendants(known, members, leader)
    marked = {
        pid
        for pid, one in known.items()
        if pid not in members and pid not in strangers and not tree.is_of_another(one.session) and _is_marked(pid, tree)
    }
    return _descendants(known, members | marked, leader) - {os.getpid()}


class Look(NamedTuple):
    """The result of one look at a task."""

    members: set[int]
    """The processes of the task, without zombies and the leader's own zombie."""
    is_certain: bool
    """No process was added meanwhile: each one that lives now was there when the look began, and was looked at."""


def look_at(tree: Tree) -> Look:
    """Blocking. Processes that come during the look are looked at one by one, as long as there are few."""
    last = last_number()
    names = present() if tree.since is None else tree.since.after()
    if tree.group is not None:
        names |= {str(pid) for pid in tree.group.members()}
    known = stats(names)
    members = members_of(tree, known)
    for _ in range(YOUNG_LOOKS):
        now = last_number()
        if not last or not 0 <= now - last <= MAX_YOUNG:
            break
        young = frozenset(map(str, range(last + 1, now + 1))) - names
        if not young:
            return Look(members, is_certain=True)
        found = stats(young)
        known |= found
        members |= members_of(tree, known)
        if len(found) == len(young):
            return Look(members, is_certain=True)
        # One that has ended before it was looked at may have started another one.
        names |= young
        last = now
    came = present() if tree.since is None else tree.since.after()
    return Look(members, is_certain=came <= names)


def active_members(tree: Tree) -> set[int]:
    """The processes of the task, as one look finds them."""
    return look_at(tree).members


def signal_each(members: Iterable[int], number: signal.Signals) -> None:
    for pid in members:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or changed its user: out of our reach


def _kill_sweep(tree: Tree) -> Look:
    """Kill all members that are found, and name them."""
    if tree.has_leader():
        signal_group(tree.leader, signal.SIGKILL)
    if tree.group is not None:
        tree.group.kill()
    look = look_at(tree)
    signal_each(look.members, signal.SIGKILL)
    return look


def _kill_standing(tree: Tree) -> Look:
    """Kill them while nothing of their user can fork. Then all are found, although a process id may be used again."""
    assert tree.all_stopped is not None
    try:
        with tree.all_stopped():
            return _kill_sweep(tree.among_all())._replace(is_certain=True)
    except OSError as error:
        _logger.warning("the processes of a task's user cannot be stopped for a look: %s", error.strerror)
        return _kill_sweep(tree.among_all())


def _term_sweep(tree: Tree) -> None:
    """Ask those to end who have left the leader's process group, which was asked already, unless it is a sandbox's."""
    outside = set()
    for pid in active_members(tree):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) != tree.leader:
                outside.add(pid)
    signal_each(outside, signal.SIGTERM)


async def ask_tree(tree: Tree, end: asyncio.Future[None], *, threads: Executor, clock: Clock) -> None:
    """TERM for all of it. Returns when nothing of it lives; `end` is done when its leader is dead."""
    loop = asyncio.get_running_loop()
    if tree.has_leader() and not tree.is_sandboxed:
        signal_group(tree.leader, signal.SIGTERM)
    await loop.run_in_executor(threads, _term_sweep, tree)
    await asyncio.wait({end})
    # A shell ends at once, and what it had started may still be cleaning up.
    pause, longest = _GRACE_LOOK_SECONDS
    while await loop.run_in_executor(threads, active_members, tree):
        await clock.sleep(pause)
        pause = min(pause * 1.5, longest)


def is_gone(tree: Tree) -> bool:
    """Kill what is left of a task whose leader has ended; True if nothing was, for certain. Blocking."""
    look = _kill_sweep(tree)
    return look.is_certain and not look.members


async def kill_tree(tree: Tree, *, threads: Executor, clock: Clock) -> None:
    """KILL the whole tree until a look finds no process. The leader may be alive or a zombie, but must not be reaped
    yet.

    A process that does not end in time is given up and logged; the KILL stands, so it does nothing more once the kernel
    lets go."""
    loop = asyncio.get_running_loop()
    look = Look(set(), is_certain=False)
    looks = 0
    try:
        # Even a look may hang: at the memory of a process that hangs.
        async with asyncio.timeout(MAX_KILL_SECONDS):
            while looks < DOUBTFUL_LOOKS or look.members:
                looks += 1
                stands = tree.all_stopped is not None and looks % DOUBTFUL_LOOKS == 0
                look = await loop.run_in_executor(threads, _kill_standing if stands else _kill_sweep, tree)
                if look.is_certain and not look.members:
                    return
                if look.members:
                    await clock.sleep(_SWEEP_SECONDS)
    except TimeoutError:
        _logger.error("killed processes do not end: %s of the task with leader %d", sorted(look.members), tree.leader)


class Survivors:
    """Leaders whose KILL had no effect in time. Each is waited for in the background, with all of its, and reaped."""

    def __init__(self, threads: Executor, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock
        self._watches: set[asyncio.Task[None]] = set()

    def add(self, tree: Tree, end: asyncio.Task[None]) -> None:
        """`end` is done when the leader is: the task of its `exited`."""
        _logger.error("process %d hangs inside the kernel: its attempt is given up, it is watched", tree.leader)
        watch = asyncio.get_running_loop().create_task(self._watch(tree, end))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, tree: Tree, end: asyncio.Task[None]) -> None:
        await end
        await kill_tree(tree, threads=self._threads, clock=self._clock)
        await asyncio.get_running_loop().run_in_executor(self._threads, reap, tree.process)
        _logger.warning("process %d, which was given up, has ended", tree.leader)

    def leave(self) -> None:
        """Wait for none of them any more."""
        for watch in self._watches:
            watch.cancel()


async def exited(process: Process) -> None:
    """Return when the process has ended; it stays a zombie, whose number no other process can get, until `reap`, or
    until its starter is killed."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    descriptor = os.pidfd_open(process.pid) if isinstance(process, subprocess.Popen) else process.watch()
    try:
        loop.add_reader(descriptor, _set, ended)
        await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _set(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


class Reaped(NamedTuple):
    """The end of a process."""

    status: int
    """Negative: the signal that ended it."""
    cpu_seconds: float | None = None
    """Its own, with that of all descendants that were waited for; None: other code took it."""
    memory_bytes: int | None = None
    """The peak of it, or of one of them that was larger; None: it is not known."""
    disk: DiskBytes | None = None
    """Of it and of those that were waited for; None: it is not known."""


class DiskBytes(NamedTuple):
    """The bytes that processes moved from and to disks; what the page cache served or still holds back is not among
    them."""

    read: int
    written: int


def disk_bytes_of(pid: int) -> DiskBytes | None:
    """The bytes of a process, alive or a zombie, with those that it has waited for; None: the kernel does not say.
    Blocking: 20 µs."""
    try:
        lines = _content(f"/proc/{pid}/io").splitlines()
        counts = {name: int(count) for name, _, count in (line.partition(b":") for line in lines)}
        return DiskBytes(counts[b"read_bytes"], counts[b"write_bytes"])
    except (OSError, KeyError, ValueError):
        return None


def reap(process: Process) -> Reaped | None:
    """Take the exit status of a process that has ended; None if it is lost with its starter. Blocking."""
    disk = disk_bytes_of(process.pid) if _holds_number(process) else None
    found = _reap(process)
    return found if found is None or disk is None else found._replace(disk=disk)


def _reap(process: Process) -> Reaped | None:
    if not isinstance(process, subprocess.Popen):
        return process.reap()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:  # other code in this program waits for all children
        return Reaped(process.wait())
    process.returncode = os.waitstatus_to_exitcode(status)
    return Reaped(process.returncode, usage.ru_utime + usage.ru_stime, _peak_above_own(usage.ru_maxrss))


_own_peaks = [0]


def _peak_above_own(peak: int) -> int | None:
    """The peak of a child, in bytes, if it is above ours. Ours only grows, so it is read for larger ones alone."""
    if peak <= _own_peaks[0]:
        return None
    own = own_peak()
    _own_peaks[0] = own or 0
    return peak_bytes(peak, own)
