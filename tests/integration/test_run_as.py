"""Jobs that name a user of the machine: real users, real processes, and what the setting keeps apart."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.packages import program
from tests.support.runners import gone
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.orphan_reaper_program import EXECUTOR_GROUPS
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.process.sandbox.levels import HOME
from tickwise.adapters.runner.process.space.work_space import file_wall
from tickwise.adapters.runner.process.task_users import RANGE
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.accounts.run_as import read_run_as_users
from tickwise.domain.rules.confinement import SANDBOX_LABEL, Confinement, Isolation
from tickwise.ports.runner import Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of

SMALL = TaskLimits(1 << 20, disk_bytes=4 << 20)
GAMES = "games"
"""A user of every Debian that owns nothing that is in use."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
WHO = """
import json, os
status = {line.split(":")[0]: line.split()[1:] for line in open("/proc/self/status")}
facts = {"uid": status["Uid"], "gid": status["Gid"], "rights": status["CapEff"], "closed": status["NoNewPrivs"]}
facts |= {"groups": os.getgroups(), "env": dict(os.environ), "folder": os.getcwd()}
facts["parent"] = open(f"/proc/{os.getppid()}/cmdline").read()
json.dump(facts, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""


class Shop:
    """A runner of processes with users that jobs may name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = open_blobs("memory://")
        self.listener = Listener()
        self.runner: ProcessRunner

    async def open(self, users: Sequence[str], **given: Any) -> None:
        self.runner = ProcessRunner(
            RunnerSettings(
                blobs=self.blobs,
                clock=SystemClock(),
                work_root=self.root,
                kill_grace_seconds=0.2,
                run_as_users=read_run_as_users(users),
                **given,
            )
        )
        await self.runner.start(self.listener, time.time)

    async def ending(self, task: dict[str, Any], run_as: str | None = GAMES, **changes: Any) -> Ending:
        given = assignment(task, **changes)._replace(confinement=Confinement(run_as=run_as))
        self.runner.launch([given])
        return await self.listener.ending_of(given)

    async def who(self, run_as: str | None = GAMES, *, env: dict[str, str] | None = None, **changes: Any) -> Any:
        task = {"kind": "python", "source": WHO, "start": "warm", "env": env or {}}
        ending = await self.ending(task, run_as, **changes)
        assert ending.verdict is Verdict.OK, ending
        return json.loads(ending.result or "")


@pytest_asyncio.fixture
async def shop() -> AsyncIterator[Shop]:
    """In a folder that other users can pass to."""
    folder = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    folder.chmod(0o711)
    made = Shop(folder / "work")
    yield made
    await made.runner.close()
    shutil.rmtree(folder)


def _groups(found: Sequence[int]) -> set[int]:
    """Without the two by which the executor finds the task."""
    return {group for group in found if group < EXECUTOR_GROUPS}


@needs_root
async def test_a_task_is_the_user_that_its_job_names(shop: Shop) -> None:
    """With its groups as the machine has them now, without root's rights, with setuid programs as in its own shell."""
    await shop.open([GAMES])
    account = pwd.getpwnam(GAMES)
    found = await shop.who()
    assert ({str(account.pw_uid)}, {str(account.pw_gid)}) == (set(found["uid"]), set(found["gid"]))
    told = subprocess.run(["id", "-G", GAMES], capture_output=True, text=True, check=True).stdout
    assert set(map(int, told.split())) == _groups(found["groups"]) | {account.pw_gid}
    assert (["0" * 16], ["0"]) == (found["rights"], found["closed"])
    other = await shop.who(None)
    assert RANGE[0] <= int(other["uid"][0]) < RANGE[1]
    assert ["1"] == other["closed"]


@needs_root
async def test_its_environment_is_that_of_a_command_of_cron(shop: Shop) -> None:
    """Unless the task says otherwise; it begins in its work folder."""
    await shop.open([GAMES])
    account = pwd.getpwnam(GAMES)
    login = {"HOME": account.pw_dir, "LOGNAME": GAMES, "USER": GAMES, "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    found = await shop.who()
    assert login == {name: found["env"][name] for name in login}
    assert found["folder"].endswith("/work")
    own = {"PATH": "/opt/bin:/usr/bin:/bin", "HOME": "/srv"}
    found = await shop.who(env=own)
    assert login | own == {name: found["env"][name] for name in login}


@needs_root
async def test_a_namespace_gets_no_user_of_another_one(shop: Shop, tmp_path: Path) -> None:
    """Whatever the label of the run was: the executor looks at the namespace, and nothing begins."""
    await shop.open(["backup", f"billing={GAMES}"])
    assert (await shop.ending({"kind": "shell", "command": "true"}, namespace="billing")).verdict is Verdict.OK
    for namespace, name in (("default", GAMES), ("billing", "backup"), ("billing", "root"), ("default", "root")):
        mark = tmp_path / f"{namespace}-{name}"
        ending = await shop.ending({"kind": "shell", "command": f"touch {mark}"}, name, namespace=namespace)
        assert (Verdict.INVALID, "run_as_refused") == (ending.verdict, ending.reason)
        assert (repr(namespace) in (ending.error or ""), "TICKWISE_RUN_AS_USERS" in (ending.error or "")) == (
            True,
            True,
        )
        assert not mark.exists()


@needs_root
async def test_root_is_a_user_where_it_is_named(shop: Shop) -> None:
    """And only there; an executor whose other tasks are root's changes the user as well."""
    await shop.open(["root", GAMES], run_tasks_as="root")
    assert "0" == (await shop.who("root"))["uid"][0]
    assert str(pwd.getpwnam(GAMES).pw_uid) == (await shop.who())["uid"][0]
    assert "0" == (await shop.who(None))["uid"][0]


@needs_root
async def test_users_without_an_account_are_not_offered(shop: Shop) -> None:
    """Nor those whose number is that of a namespace's user; a run that comes nevertheless is told."""
    await shop.open([GAMES, "tickwise-nobody-has-this"])
    assert ["run_as:games"] == [label for label in shop.runner.labels() if label.startswith("run_as:")]
    ending = await shop.ending({"kind": "shell", "command": "true"}, "tickwise-nobody-has-this")
    assert (Verdict.INVALID, "run_as_unknown") == (ending.verdict, ending.reason)


@needs_root
async def test_its_scripts_are_never_forked_from_an_interpreter_of_others(shop: Shop) -> None:
    """Also where one is ready, and the task asks for it."""
    await shop.open([GAMES])
    others = await shop.who(None)
    assert "zygote_program" in others["parent"]
    for namespace in ("default", "billing"):
        assert "zygote_program" not in (await shop.who(namespace=namespace))["parent"]


@needs_root
async def test_what_it_leaves_is_ended_and_what_its_user_runs_besides_is_not(shop: Shop, tmp_path: Path) -> None:
    """Also what has left its session and cleared its environment; another process of the user is never stopped."""
    await shop.open([GAMES])
    account = pwd.getpwnam(GAMES)
    own = subprocess.Popen(["sleep", "600"], user=account.pw_uid, group=account.pw_gid, extra_groups=[])
    try:
        leave = "setsid env -i sh -c 'sleep 601 & echo $!' & wait"
        given = assignment({"kind": "shell", "command": leave})._replace(confinement=Confinement(run_as=GAMES))
        shop.runner.launch([given])
        ending = await shop.listener.ending_of(given)
        assert ending.verdict is Verdict.OK, ending
        left = int((await log_of(shop.blobs, given)).split()[0])
        assert gone(left)
        assert own.poll() is None
        assert "T" not in Path(f"/proc/{own.pid}/stat").read_text().rpartition(")")[2].split()[0]
    finally:
        own.kill()
        own.wait()


@needs_root
async def test_in_a_sandbox_it_is_that_user_too(shop: Shop) -> None:
    """Its home is there if it is a folder of its own; a folder of root's is not."""
    program("bwrap")
    await shop.open([GAMES, "man"])
    if SANDBOX_LABEL not in shop.runner.labels():
        pytest.skip("this machine gives no sandbox")
    homes = {}
    for name in (GAMES, "man"):
        account = pwd.getpwnam(name)
        confinement = Confinement(isolation=Isolation.SANDBOX, run_as=name)
        given = assignment({"kind": "shell", "command": "id -u; echo $HOME; stat -c %u $HOME"})
        given = given._replace(confinement=confinement)
        shop.runner.launch([given])
        ending = await shop.listener.ending_of(given)
        assert ending.verdict is Verdict.OK, ending
        uid, homes[name], owner = (await log_of(shop.blobs, given)).split()
        assert {str(account.pw_uid)} == {uid, owner}
    assert {GAMES: HOME, "man": pwd.getpwnam("man").pw_dir} == homes


@needs_root
@pytest.mark.parametrize("run_as", [GAMES, None])
async def test_a_wall_of_another_user_needs_no_right_over_it(shop: Shop, run_as: str | None) -> None:
    """Root of a container may have no right to set limits of processes of others (CAP_SYS_RESOURCE)."""
    await shop.open([GAMES])
    given = assignment({"kind": "shell", "command": "ulimit -f; ulimit -Hf"}, limits=SMALL)
    given = given._replace(confinement=Confinement(run_as=run_as))
    shop.runner.launch([given])
    assert Verdict.OK is (await shop.listener.ending_of(given)).verdict
    assert [str((file_wall(SMALL) or 0) // 512)] * 2 == (await log_of(shop.blobs, given)).split()


@needs_root
async def test_a_file_that_it_writes_as_its_result_is_read(shop: Shop) -> None:
    """It belongs to the user that the job names."""
    await shop.open([GAMES])
    ending = await shop.ending({"kind": "shell", "command": 'echo 7 > "$TICKWISE_RESULT_FILE"'})
    assert ("7", Verdict.OK) == (ending.result, ending.verdict)
