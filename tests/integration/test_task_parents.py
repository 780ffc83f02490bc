"""Short tasks are started and ended by a small process, their parent: what it must not lose, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.integration.test_runner_process import RUNAWAY
from tests.integration.test_warm_starts import WarmShop, is_zygote
from tests.support.abandoned import FILES, WITH_PARENTS
from tests.support.runners import forks_within, gone
from tests.support.waiting import eventually
from tickwise.adapters.runner.process.parent import parent_program, task_parents
from tickwise.adapters.runner.process.parent.parent_program import BEGINS, WORD
from tickwise.ports.blobs import log_prefix
from tickwise.ports.runner import Assignment, TaskLimits, Verdict
from tickwise.testing.contracts.runner import assignment, log_of

PATIENCE_SECONDS = 60.0
TELLS_PARENT = 'echo $PPID > "$TICKWISE_RESULT_FILE"'


class ParentShop(WarmShop):
    """A runner whose parents are ready."""

    @property
    def parents(self) -> list[task_parents.TaskParent]:
        return self.runner._parents._parents

    async def make_ready(self) -> None:
        async def ready() -> bool:
            await self.ending(self.shell("true"))
            return sum(each.is_ready and not each.is_lost for each in self.parents) == task_parents.PARENTS

        await eventually(ready, within_seconds=PATIENCE_SECONDS)

    async def parent_of_shell(self) -> psutil.Process:
        return psutil.Process(int((await self.ending(self.shell(TELLS_PARENT))).result or ""))

    def folders(self) -> list[Path]:
        """Of tasks; without those that wait for a task."""
        return [each for each in self.root.glob("*/*") if each.is_dir() and not each.name.startswith("spare-")]

    def children(self) -> set[psutil.Process]:
        """All that the parents have."""
        return {child for each in self.parents for child in psutil.Process(each.pid).children(recursive=True)}


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[ParentShop]:
    made = ParentShop(tmp_path)
    with forks_within(PATIENCE_SECONDS):
        await made.runner.start(made.listener, time.time)
        await made.make_ready()
        yield made
        pids = [each.pid for each in made.parents]
        await made.runner.close()
    assert list(made.root.iterdir()) == [], "a work folder was left behind"
    assert [pid for pid in pids if not gone(pid)] == []


def is_parent(process: psutil.Process) -> bool:
    return parent_program.__file__ in process.cmdline()


async def test_an_ordinary_task_is_started_by_a_parent(shop: ParentShop) -> None:
    """One with limits is not."""
    assert is_parent(await shop.parent_of_shell())
    limited = shop.shell(TELLS_PARENT, limits=TaskLimits(1 << 20, processes=100))
    assert not is_parent(psutil.Process(int((await shop.ending(limited)).result or "")))


async def test_a_short_task_tells_all_of_its_end(shop: ParentShop) -> None:
    """Output in order, exit status, signal, processor time, size of the output; and its folder is gone."""
    given = shop.shell("echo one; echo two >&2; echo three; exit 3")
    ending = await shop.ending(given)
    assert (ending.reason, ending.symptoms) == ("exit_code", ("3",))
    assert await log_of(shop.blobs, given) == "one\ntwo\nthree\n"
    assert ending.usage is not None
    assert (ending.usage.output_bytes, (ending.usage.cpu_seconds or 0.0) > 0.0) == (14, True)
    assert 0.0 <= ending.ended - ending.started < PATIENCE_SECONDS
    assert (await shop.ending(shop.shell("kill -SEGV $$"))).error == "ended by signal SIGSEGV"
    assert shop.folders() == []


async def test_a_short_task_has_the_surroundings_of_any_other(shop: ParentShop) -> None:
    """Its folder, session, signals, descriptors, input, number and place before its executor when memory is short. (The
    two signals that its C library keeps for itself are ignored by all that it has spawned.)"""
    command = (
        'echo $(pwd) "$TICKWISE_WORK_FOLDER"; cat; echo $$ $(cut -d" " -f6 /proc/$$/stat);'
        "for n in 3 4 5 6 7 8 9 11 12; do [ -e /proc/$$/fd/$n ] && echo $n; done;"
        "for s in Blk Ign; do v=$(sed -n s/^Sig$s:.//p /proc/$$/status); echo $s $((0x$v & ~0x180000000)); done;"
        'grep -c "Max file locks *[0-9]" /proc/$$/limits;'
        "while ! grep -q 500 /proc/self/oom_score_adj; do sleep 0.01; done"
    )
    seen = []
    for limits in (TaskLimits(1 << 20), TaskLimits(1 << 20, cpu_seconds=60.0)):
        given = shop.shell(command, limits=limits)
        assert (await shop.ending(given)).verdict is Verdict.OK
        folders, session, *rest = (await log_of(shop.blobs, given)).splitlines()
        assert len(set(folders.split())) == 1
        assert len(set(session.split())) == 1
        seen.append(rest)
    assert seen[0] == seen[1]


async def test_lines_of_a_command_keep_their_numbers(shop: ParentShop) -> None:
    """As messages of its shell say them."""
    given = shop.shell("true\nno-such-program")
    await shop.ending(given)
    assert ": 2: no-such-program" in await log_of(shop.blobs, given)


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
async def test_nothing_of_a_task_survives_its_end(shop: ParentShop, tmp_path: Path, long: bool) -> None:
    """Also what forked twice, left the session, and has no environment; and no zombie is left."""
    file = tmp_path / "pid"
    sheds = f"(setsid env -i sh -c 'echo $$ > {file}; exec sleep 600' >/dev/null 2>&1 </dev/null &)"
    waits = f"while ! [ -s {file} ]; do :; done"
    given = shop.shell(f"{sheds}; sleep 600 & {waits}; {'sleep 0.1' if long else ':'}")
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert gone(int(file.read_text()))
    await eventually(lambda: not shop.children(), within_seconds=PATIENCE_SECONDS)


async def test_a_task_that_others_have_left_something_beside_ends_all_the_same(
    shop: ParentShop, tmp_path: Path
) -> None:
    """An orphan of a task that runs is that task's: it stays until that one ends."""
    file = tmp_path / "pid"
    given = shop.shell(f"(setsid sh -c 'echo $$ > {file}; exec sleep 600' &); sleep 600")
    await shop.listener.until_begun(given)
    await eventually(lambda: file.exists() and file.read_text(), within_seconds=PATIENCE_SECONDS)
    for _ in range(2 * task_parents.PARENTS):
        assert (await shop.ending(shop.shell("true"))).verdict is Verdict.OK
    orphan = int(file.read_text())
    assert not gone(orphan)
    shop.runner.stop(given.run_id, grace_seconds=0.0)
    assert (await shop.ending(given)).verdict is Verdict.CANCELLED
    assert gone(orphan)


async def test_a_task_is_stopped_also_in_its_first_moment(shop: ParentShop) -> None:
    """Before its parent has shown it."""
    given = shop.shell("sleep 600")
    shop.runner.stop(given.run_id, grace_seconds=0.0)
    assert (await shop.ending(given)).verdict is Verdict.CANCELLED
    given = shop.shell("sleep 600")
    await eventually(lambda: any(each.load for each in shop.parents), within_seconds=PATIENCE_SECONDS)
    shop.runner.stop(given.run_id, grace_seconds=0.0)
    assert (await shop.ending(given)).verdict is Verdict.CANCELLED
    await eventually(lambda: not shop.children(), within_seconds=PATIENCE_SECONDS)


async def test_what_a_task_has_left_in_its_folder_is_kept(shop: ParentShop) -> None:
    """A result, an artefact; and a folder that it has removed itself is no matter."""
    ending = await shop.ending(shop.shell('echo "[1]" > "$TICKWISE_RESULT_FILE"; echo x > left.txt'))
    assert ending.result == "[1]"
    given = shop.shell("echo x > left.txt")
    await shop.ending(given)
    assert "kept as artefacts: left.txt" in await log_of(shop.blobs, given)
    assert (await shop.ending(shop.shell('rm -r "$(pwd)" "$0"'))).verdict is Verdict.OK
    assert shop.folders() == []


LEFT_ALONE = ("true", "echo x > a; rm a", "mkdir a; rmdir a")
CHANGED = (
    "chmod 711 .",
    "chmod 755 ..",
    'chmod 777 "$0"',
    'ln -f "$0" ../../../../hard-link',
    'rm "$0"; ln -s /etc/passwd "$0"',
    "mkdir ../more",
    "python3 -c \"import os; os.setxattr('.', 'user.a', b'b')\"",
)


@pytest.mark.parametrize("command", [*LEFT_ALONE, *CHANGED])
async def test_a_folder_that_is_used_again_is_as_a_new_one(shop: ParentShop, command: str) -> None:
    """It is used again only if its task has left it as it was, and has nothing of that task."""
    look = "stat -c '%a %h %u %F %s' .. . \"$0\" ; ls -la .. . | grep -v total | wc -l; getfattr -d . 2>/dev/null; : {}"

    async def seen(name: str) -> str:
        given = shop.shell(look.format(name))
        assert (await shop.ending(given)).verdict is Verdict.OK
        return await log_of(shop.blobs, given)

    await eventually(lambda: not list(shop.root.glob("*/spare-*")), within_seconds=PATIENCE_SECONDS)
    fresh = await seen("first")
    for _ in range(task_parents.PARENTS):
        assert (await shop.ending(shop.shell(command))).verdict is Verdict.OK
        assert {len(file.read_text()) for file in shop.root.glob("*/spare-*/task.sh")} <= {0, 1}
    assert await seen("again") == fresh
    assert shop.folders() == []


async def test_folders_are_used_again_and_removed_when_nothing_happens(shop: ParentShop) -> None:
    """A disk takes longer to make one than a task runs."""

    async def was_at_work() -> bool:
        """Check it while tasks follow each other; nothing is shown if something held them up for so long that the
        parents tidied up."""
        numbers: list[set[int]] = []
        longest, last = 0.0, time.monotonic()
        for number in range(1, 9):
            await shop.ending(shop.shell("true"))
            if number % 4 == 0:
                numbers.append({each.stat().st_ino for each in shop.root.glob("*/spare-*")})
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        if longest > parent_program.LOOK_SECONDS / 2:
            return False
        assert 1 <= len(numbers[0]) <= task_parents.PARENTS
        assert numbers[1] <= numbers[0]
        return True

    await eventually(was_at_work, within_seconds=PATIENCE_SECONDS, what="tasks follow each other")
    await eventually(lambda: not list(shop.root.glob("*/spare-*")), within_seconds=PATIENCE_SECONDS)


async def test_what_cannot_be_started_is_told(shop: ParentShop, tmp_path: Path) -> None:
    """A program, a folder, a file that is no program."""
    (tmp_path / "text").write_text("x")
    (tmp_path / "text").chmod(0o755)
    endings = []
    for task in (
        {"argv": ["no-such-program"]},
        {"argv": ["./no-such-program"]},
        {"argv": [str(tmp_path)]},
        {"command": "true", "directory": str(tmp_path / "nowhere")},
    ):
        given = assignment({"kind": "shell", **task})
        shop.runner.launch([given])
        endings.append((await shop.ending(given)).reason)
    assert endings == ["not_started"] * 3 + ["directory_missing"]
    assert (await shop.ending(shop.shell("true"))).verdict is Verdict.OK


async def _launch_at(shop: ParentShop, command: str) -> tuple[Assignment, psutil.Process]:
    """A task that runs, and its parent."""
    given = shop.shell(f"echo $PPID; {command}")
    await shop.listener.until_begun(given)
    await eventually(lambda: shop.runner._attempts[given.run_id].sink.tail, within_seconds=PATIENCE_SECONDS)
    return given, psutil.Process(int(shop.runner._attempts[given.run_id].sink.tail.split()[0]))


async def test_a_parent_that_is_killed_takes_no_task_with_it(shop: ParentShop, tmp_path: Path) -> None:
    """The task goes on; its exit status alone is lost. It can be stopped, and others start."""
    file = tmp_path / "go"
    waits = f"while ! [ -e {file} ]; do sleep 0.01; done; echo ended"
    given, killed = await _launch_at(shop, waits)
    assert is_parent(killed)
    killed.kill()
    await eventually(lambda: gone(killed.pid), within_seconds=PATIENCE_SECONDS)
    assert (await shop.ending(shop.shell("true"))).verdict is Verdict.OK
    file.touch()
    ending = await shop.ending(given)
    assert (ending.verdict, ending.reason) == (Verdict.UNKNOWN, "outcome_lost"), ending
    assert (await log_of(shop.blobs, given)).endswith("\nended\n")
    await shop.make_ready()
    assert is_parent(await shop.parent_of_shell())


async def test_a_task_that_its_parent_has_not_begun_starts_once(
    shop: ParentShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another one, or without."""
    monkeypatch.setattr(task_parents, "ANSWER_SECONDS", 600.0)  # they stand still until they are killed
    file = tmp_path / "lines"
    for each in shop.parents:
        psutil.Process(each.pid).suspend()
    given = [shop.shell(f"echo x >> {file}") for _ in range(4)]
    await eventually(lambda: sum(each.load for each in shop.parents) == 4, within_seconds=PATIENCE_SECONDS)
    for each in shop.parents:
        psutil.Process(each.pid).kill()
    for one in given:
        assert (await shop.ending(one)).verdict is Verdict.OK
    assert file.read_text() == "x\n" * 4


async def test_a_task_that_its_parent_may_have_begun_is_not_started_again(
    shop: ParentShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcome is unknown, and what there is of it is ended."""
    monkeypatch.setattr(task_parents, "ANSWER_SECONDS", 600.0)  # they stand still until they are killed
    stopped = shop.parents[:]
    for each in stopped:
        psutil.Process(each.pid).suspend()
    given = shop.shell("true")
    await eventually(lambda: any(each.load for each in stopped), within_seconds=PATIENCE_SECONDS)
    for each in stopped:
        for place in range(task_parents.PLACES):
            WORD.pack_into(each._page, place * WORD.size, BEGINS)
        psutil.Process(each.pid).kill()
    ending = await shop.ending(given)
    assert (ending.verdict, ending.reason) == (Verdict.UNKNOWN, "outcome_lost"), ending


async def test_a_parent_that_stands_still_delays_a_task_and_no_more(
    shop: ParentShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent CONT."""
    monkeypatch.setattr(task_parents, "ANSWER_SECONDS", 0.1)
    for each in shop.parents:
        psutil.Process(each.pid).suspend()
    assert (await shop.ending(shop.shell("true"))).verdict is Verdict.OK


async def test_an_executor_that_stood_still_itself_gives_no_parent_up(
    shop: ParentShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a machine does whose host has no time for it. It could hear nobody: the parents keep their time to answer."""
    monkeypatch.setattr(task_parents, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(task_parents, "LOST_SECONDS", 1.0)
    parents = shop.parents[:]
    await eventually(lambda: all(each._look is None for each in parents), within_seconds=PATIENCE_SECONDS)
    for each in parents:
        os.kill(each.pid, signal.SIGSTOP)
    given = shop.shell("true")
    await eventually(lambda: any(each.load for each in parents), within_seconds=PATIENCE_SECONDS)
    time.sleep(1.5)  # noqa: TID251, ASYNC251 - all of this process stands still
    for _ in range(3):
        await asyncio.sleep(0)  # noqa: TID251 - one turn for others, no waiting
    monkeypatch.setattr(task_parents, "LOST_SECONDS", 60.0)
    for each in parents:
        os.kill(each.pid, signal.SIGCONT)
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert [] == [each.pid for each in parents if each.is_lost]


async def test_a_parent_that_says_nothing_is_ended(shop: ParentShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks start elsewhere."""
    monkeypatch.setattr(task_parents, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(task_parents, "LOST_SECONDS", 0.1)
    before = [each.pid for each in shop.parents]
    for pid in before:
        os.kill(pid, signal.SIGSTOP)
    assert (await shop.ending(shop.shell("true"))).verdict is Verdict.OK
    await eventually(lambda: any(gone(pid) for pid in before), within_seconds=PATIENCE_SECONDS)


async def test_tasks_run_where_no_parent_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a kernel that lacks what it needs: it is tried once."""
    program = tmp_path / "program.py"
    program.write_text(f"open({str(tmp_path / 'tries')!r}, 'a').write('x')\nraise SystemExit(1)\n")
    monkeypatch.setattr(parent_program, "__file__", str(program))
    made = ParentShop(tmp_path)
    await made.runner.start(made.listener, time.time)

    async def ran() -> bool:
        assert (await made.ending(made.shell("true"))).verdict is Verdict.OK
        return not made.runner._parents._is_usable

    await eventually(ran, within_seconds=PATIENCE_SECONDS)
    assert (await made.ending(made.shell("true"))).verdict is Verdict.OK
    await made.runner.close()
    assert (tmp_path / "tries").read_text() in ("x", "xx")


async def test_a_warm_script_is_asked_for_by_a_parent(shop: ParentShop, tmp_path: Path) -> None:
    """It is the zygote's child. What it leaves is ended with it, and no zombie of it stays with the zygote."""
    await shop.parent_of("warm")
    zygote = await shop.parent_of("warm")
    assert is_zygote(zygote)
    assert any(each._zygotes for each in shop.parents)
    file = tmp_path / "pid"
    given = await shop.launch(RUNAWAY.format(file=str(file), then="pass"), "warm")
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert gone(int(file.read_text()))

    async def swept() -> bool:
        await shop.run("pass", "warm")
        return not zygote.children()

    await eventually(swept, within_seconds=PATIENCE_SECONDS)


async def test_a_long_warm_script_is_watched_and_reaped(shop: ParentShop) -> None:
    """Its output is seen while it runs, and its exit status is its own."""
    await shop.parent_of("warm")
    given = await shop.launch("import time\nprint('x', flush=True)\ntime.sleep(0.3)\nraise SystemExit(3)", "warm")
    assert await eventually(lambda: shop.blobs.list(log_prefix(given.run_id, 1)), within_seconds=PATIENCE_SECONDS)
    ending = await shop.ending(given)
    assert (ending.symptoms, (ending.usage or ending).cpu_seconds is not None) == (("3",), True)  # type: ignore[union-attr]  # it has


async def test_a_killed_executor_leaves_no_task_and_no_parent(tmp_path: Path) -> None:
    """Its reaper ends the tasks of its parents too, whatever these have shed."""
    program = (sys.executable, "-m", "tests.support.abandoned", str(tmp_path), WITH_PARENTS)
    process = await asyncio.create_subprocess_exec(
        *program, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), PATIENCE_SECONDS) == b"ready\n"
    tasks = [psutil.Process(int(file.read_text())) for file in tmp_path.glob("*.pid")]
    parents = [child for child in psutil.Process(process.pid).children() if is_parent(child)]
    assert len(parents) == task_parents.PARENTS
    assert {is_parent(psutil.Process(one.pid).parent() or one) for one in tasks if "leader" in one.name()} <= {True}
    process.kill()
    await process.wait()
    await eventually(lambda: all(gone(one.pid) for one in (*tasks, *parents)), within_seconds=PATIENCE_SECONDS)
    await eventually(lambda: not list((tmp_path / "work").iterdir()), within_seconds=PATIENCE_SECONDS)
    assert len(tasks) == FILES
